"""The bar at the top has room for what it may have to say, in Chromium."""

from collections.abc import Callable

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import expect

from metadata.domain.roles import Role
from metadata.services.people import ensure_person
from tests.factories import NoticeFactory
from tests.web.walks.conftest import Walker

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

LINE = 56  # pixels


@pytest.fixture
def busy(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> User:
    """Somebody with a long name, much that waits and much that is unread."""
    person = ensure_person(name="bartholomea.featherstonehaugh", roles=[Role.ADMIN])
    NoticeFactory.create_batch(12, person=person)
    monkeypatch.setattr("elevata.web.context.count_for", lambda _user: 128)
    return person


@pytest.mark.parametrize("pixels", [390, 768, 1199, 1200, 1280, 1399, 1400, 1920])
def test_it_is_one_line_at_every_width(walkers: Callable[..., Walker], busy: User, pixels: int) -> None:
    page = walkers(busy).go("/me/")
    page.set_viewport_size({"width": pixels, "height": 900})
    expect(page.locator("#notice-bell")).to_contain_text("12")
    assert page.locator(".topbar").bounding_box()["height"] <= LINE
    last = page.locator(".topbar button:visible").last.bounding_box()
    counts = [one.bounding_box() for one in page.locator(".topbar .inbox-count:visible").all()]
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
