"""Tests of the search dialog in a real Chromium: keys, results, and the focus afterwards."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.test_column_grid import grid, mia  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.mark.core
def test_search_dialog_works_by_keyboard_and_restores_the_focus(grid: Page):  # noqa: F811
    dialog, field = grid.locator("#search-dialog"), grid.locator("#search-text")
    link = grid.get_by_role("link", name="Edit several")
    link.focus()
    for keys in ("/", "Control+k"):
        grid.keyboard.press(keys)
        expect(field).to_be_focused()
        grid.keyboard.type("a/b")
        expect(field).to_have_value("a/b")
        grid.keyboard.press("Escape")
        expect(dialog).to_be_hidden()
        expect(link).to_be_focused()
    grid.keyboard.press("Control+k")
    grid.keyboard.type("elevation")
    expect(dialog.locator("[role=option]").nth(1)).to_be_visible()
    grid.keyboard.press("ArrowDown")
    second = dialog.locator("[role=option]").nth(1)
    expect(second).to_have_attribute("aria-selected", "true")
    target = second.get_attribute("href")
    grid.keyboard.press("Enter")
    expect(grid).to_have_url(re.compile(re.escape(target.partition("#")[0])))
