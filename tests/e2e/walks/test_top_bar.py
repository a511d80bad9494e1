"""Tests that the top bar has room for its longest texts, in Chromium."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page, expect

from architecture.selectors.inbox import Tasks
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from tests.e2e.walks.conftest import Walker
from tests.factories import NoticeFactory

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LINE = 56  # pixels


@pytest.fixture
def busy(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> User:
    """Return a user with a long name, many tasks and many unread notices."""
    person = ensure_user(name="bartholomea.featherstonehaugh", roles=[Role.ADMIN])
    NoticeFactory.create_batch(12, user=person)
    monkeypatch.setattr("elevata.page_frame.tasks_of", lambda _user: Tasks(128, None))
    return person


def test_top_bar_is_one_line_at_every_width(walkers: Callable[..., Walker], busy: User) -> None:
    page = walkers(busy).go("/me/")
    expect(page.locator("#notice-bell")).to_contain_text("12")
    for pixels in (390, 768, 1199, 1200, 1280, 1399, 1400, 1920):
        page.set_viewport_size({"width": pixels, "height": 900})
        has_room(page, pixels)


def has_room(page: Page, pixels: int) -> None:
    assert page.locator(".topbar").bounding_box()["height"] <= LINE, f"at {pixels} pixels"
    last = page.locator(".topbar button:visible").last.bounding_box()
    counts = [badge.bounding_box() for badge in page.locator(".topbar .inbox-count:visible").all()]
    assert counts
    for box in (last, *counts):
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= pixels
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= LINE
    toggler = page.locator(".navbar-toggler")
    if toggler.is_visible():
        outer, count = toggler.bounding_box(), toggler.locator(".inbox-count").bounding_box()
        assert count["x"] + count["width"] <= outer["x"] + outer["width"]
