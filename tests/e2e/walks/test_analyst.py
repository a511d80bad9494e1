"""Walk of an analyst: a query on the SQL page, its result, its export, and a saved query."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import expect

from elevata.accounts.roles import Role
from loader.models import ReadRequest, SavedQuery
from metadata.models import TargetDataset
from tests.architecture.world import person
from tests.e2e.walks.conftest import Walker
from tests.loader.factories import WorkerFactory
from tests.loader.views.queries.test_queries import AIRPORT, answer, published
from tests.services.axe import AXE, accessible_faults

pytestmark = [pytest.mark.browser, pytest.mark.services]

__all__ = ["published"]
QUERY = f"SELECT icao, name FROM {AIRPORT} ORDER BY icao"


@pytest.fixture
def anna(site: str, published: TargetDataset, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of a viewer, beside a running worker."""
    WorkerFactory()
    walker = walkers(person("anna", Role.VIEWER))
    walker.context.add_init_script(path=AXE)
    return walker


def write(anna: Walker, query: str) -> None:
    """Write a query in place of the one in the editor, whose section has the same label."""
    anna.focus("textbox", "Query")
    anna.press("ControlOrMeta+a")
    anna.type(query)


def test_a_query_is_run_saved_and_its_result_downloaded(anna: Walker, tmp_path: Path):
    anna.go("/")
    anna.open_menu()
    anna.use("link", "SQL")
    write(anna, "SELECT icao FROM nowhere.at_all")
    anna.use("button", "Run query")
    expect(anna.page.get_by_text("nowhere.at_all is no published table")).to_be_visible()
    anna.picture("analyst-refused")

    write(anna, QUERY)
    anna.use("button", "Run query")
    expect(anna.page.get_by_role("button", name="Cancel query")).to_be_visible()
    answer(ReadRequest.objects.get(), ["icao", "name"], ["EDDB", "Berlin"], ["EDDM", None])
    expect(anna.page.get_by_role("heading", name="2 rows")).to_be_visible()
    anna.picture("analyst-result")
    with anna.page.expect_download() as download:
        anna.use("link", "CSV")
    file = tmp_path / "result.csv"
    download.value.save_as(file)
    assert file.read_text().splitlines() == ['"icao","name"', '"EDDB","Berlin"', '"EDDM",']

    anna.page.get_by_text("Save this query").focus()
    anna.press("Enter")
    anna.fill("Name", "Airports by code")
    anna.use("button", "Save query")
    expect(anna.page.get_by_text("Saved the query Airports by code.")).to_be_visible()
    anna.picture("analyst-saved")
    assert SavedQuery.objects.get().text == QUERY
    anna.use("link", "Airports by code")
    expect(anna.page.locator("#id_text")).to_have_value(QUERY)


def test_editor_completes_names_and_each_statement_or_the_selection_has_a_result(anna: Walker):
    page = anna.go("/sql/")
    text, tabs = page.locator("#id_text"), page.get_by_role("tab")
    write(anna, "SELECT icao FROM rawcore.rc_air_air")
    page.get_by_role("option", name="rc_air_airport", exact=True).click()
    expect(text).to_have_value(f"SELECT icao FROM {AIRPORT}")
    anna.type(";\nSELECT 2")
    anna.press("ControlOrMeta+Enter")
    expect(tabs).to_have_count(2)
    expect(page.get_by_role("button", name="Cancel query")).to_be_visible()
    queries = {read.arguments["text"] for read in ReadRequest.objects.all()}
    assert queries == {f"SELECT icao FROM {AIRPORT}", "\nSELECT 2"}
    anna.press("Shift+Home")
    expect(page.get_by_role("button", name="Run selection")).to_be_visible()
    anna.press("ControlOrMeta+Enter")
    expect(tabs.nth(2)).to_have_attribute("aria-selected", "true")
    expect(tabs.nth(2)).to_have_text("3: SELECT 2")
    assert accessible_faults(page) == []
    anna.press("Escape", "Tab")
    expect(page.get_by_label("Rows at most")).to_be_focused()
    anna.picture("analyst-editor")
