"""Tests of metadata import in a real Chromium: by keyboard, and with a file that was edited after it was chosen."""

import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from metadata.models import TargetDataset
from tests.e2e.test_column_grid import grid, mia  # noqa: F401

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

HEADER = "schema,dataset,column,type\n"


@pytest.fixture
def form(grid: Page) -> Page:  # noqa: F811
    """Return the import page, opened from the list of datasets."""
    grid.goto(re.sub(r"/datasets/.*", "/datasets/", grid.url))
    grid.get_by_role("link", name="Import").click()
    grid.wait_for_url("**/import-metadata/")
    return grid


def test_files_are_corrected_checked_and_imported_by_keyboard(form: Page, tmp_path: Path):
    file, heading = tmp_path / "totals.csv", form.locator("#import-head")
    file.write_text(HEADER + "bizcore,totals,day,dat\n")
    form.set_input_files("#id_files", file)
    form.get_by_role("button", name="Check files").press("Enter")
    expect(heading).to_have_text("1 fault; nothing was imported")
    expect(heading).to_be_focused()

    file.write_text(HEADER + "bizcore,totals,day,date\n")
    os.utime(file, (1, 1))  # a browser compares the modification time with that at the selection of the file
    form.get_by_role("button", name="Check files").press("Enter")
    expect(form.locator("#request-refused")).to_contain_text("totals.csv changed since you chose it.")
    expect(heading).to_have_count(0)
    expect(form.locator("#id_files")).to_be_focused()

    form.set_input_files("#id_files", file)
    form.get_by_role("button", name="Check files").press("Enter")
    expect(heading).to_have_text("3 changes, no faults")
    form.keyboard.press("Tab")
    expect(form.get_by_role("button", name="Import", exact=True)).to_be_focused()
    form.keyboard.press("Enter")
    expect(form.get_by_text("Imported: 3 objects created.")).to_be_visible()
    assert TargetDataset.objects.filter(name="totals").exists()


def test_files_beyond_the_limit_are_refused_before_they_are_sent(form: Page, tmp_path: Path):
    file = tmp_path / "huge.csv"
    file.write_text("x" * 9_000_000)
    form.set_input_files("#id_files", file)
    message = form.locator("#id_files").evaluate("input => input.validationMessage")
    assert message.startswith("These files have 9 MB; at most 8 MB are imported at once.")
    form.get_by_role("button", name="Check files").click()
    expect(form.locator("#import-result")).to_be_empty()
