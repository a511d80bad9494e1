"""Tests of mentions completed by keyboard and of chosen list columns, in Chromium."""

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from tests.e2e.walks.conftest import Walker
from tests.factories import TargetDatasetFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_a_user_is_mentioned_and_columns_are_chosen_by_keyboard(walkers: Callable[..., Walker]) -> None:
    ada, dataset = ensure_user(name="ada", roles=[Role.EDITOR]), TargetDatasetFactory(owner="sales team")
    for name in ("bert", "bob"):
        ensure_user(name=name, roles=[Role.VIEWER])
    walker = walkers(ada)
    page = walker.go(f"/datasets/{dataset.key}/comments/")
    walker.focus("textbox", "Comment")
    walker.type("Please look, @b")
    expect(page.get_by_role("option")).to_have_text(["bert", "bob"])
    walker.press("ArrowDown", "Enter")
    expect(page.get_by_label("Comment", exact=True)).to_have_value("Please look, @bob ")
    walker.use("button", "Add comment")
    expect(page.locator(".comment .mention")).to_have_text("@bob")

    walker.go("/datasets/?layer=rawcore")
    owner = page.get_by_role("cell", name="sales team")
    expect(owner).to_have_count(0)
    page.locator("summary", has_text="Columns").focus()
    walker.press("Enter")
    page.get_by_label("Owner", exact=True).focus()
    walker.press("Space")
    walker.use("button", "Save columns")
    expect(owner).to_be_visible()
    assert page.url.endswith("/datasets/?layer=rawcore")
