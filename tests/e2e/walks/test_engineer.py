"""Walk of an engineer: column grid, paste, rename, lineage, change log, and a concurrent edit of the same row."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import person
from tests.e2e.walks.conftest import Walker

pytestmark = [pytest.mark.browser, pytest.mark.services]

PASTE = """text => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    const how = {clipboardData: data, bubbles: true, cancelable: true};
    document.activeElement.dispatchEvent(new ClipboardEvent("paste", how));
}"""


@pytest.fixture
def mia(site: str, airport: TargetDataset, add_routes: Callable, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an editor on the columns of the airports, which routes reference."""
    add_routes(airport)
    mia = walkers(person("mia", Role.EDITOR), width)
    mia.go(f"/datasets/{airport.key}/")
    return mia


def reach(mia: Walker, line: str, cell: str) -> None:
    """Move the focus from the grid's only Tab stop to this cell by arrow keys."""
    mia.page.locator('[data-grid] tbody [tabindex="0"]').focus()
    mia.press("ControlOrMeta+Home")
    target = mia.page.locator(f'tr[data-name="{line}"] [data-cell="{cell}"]')
    for _ in range(mia.page.locator("[data-grid] tbody tr").count()):
        if mia.page.evaluate("document.activeElement.parentElement.dataset.name") == line:
            break
        mia.press("ArrowDown")
    for _ in range(11):
        if mia.page.evaluate("document.activeElement.dataset.cell") == cell:
            break
        mia.press("ArrowRight")
    expect(target).to_be_focused()


def test_columns_are_edited_in_place_and_pasted(mia: Walker, airport: TargetDataset):
    reach(mia, "name", "description")
    mia.type("Display name")
    mia.press("Enter")
    cell = mia.page.locator('tr[data-name="name"] [data-cell="description"] .cell-text')
    expect(cell).to_have_text("Display name")
    expect(mia.page.locator("#columns [aria-busy]")).to_have_count(0)

    reach(mia, "icao", "owner")
    mia.page.evaluate(PASTE, "Air team\nAir team\nAir team")
    expect(mia.page.locator("#paste-preview")).to_be_focused()
    mia.picture("engineer-paste")
    mia.use("button", "Save all")
    expect(mia.page.locator('tr[data-name="elevation"] [data-cell="owner"]')).to_contain_text("Air team")
    mia.picture("engineer-grid")
    owners = set(airport.columns.filter(active=True).values_list("owner", flat=True))
    assert owners == {"Air team"}
    assert airport.columns.get(name="name").description == "Display name"


def test_a_column_is_renamed_with_a_reason_and_found_by_its_old_name(mia: Walker, airport: TargetDataset):
    reach(mia, "elevation", "name")
    mia.press("Enter")
    mia.fill("New name", "height_ft")
    mia.fill("Reason", "The unit belongs into the name.")
    expect(mia.page.locator("#depends")).to_be_visible()
    mia.picture("engineer-rename")
    mia.use("button", "Rename")
    expect(mia.page.get_by_text("elevation is a former name now")).to_be_visible()
    expect(mia.page.locator('tr[data-name="height_ft"]')).to_contain_text("formerly elevation")

    mia.use("link", "Lineage")
    expect(mia.page.locator("[data-graph] svg")).to_be_visible()
    mia.picture("engineer-lineage")
    mia.use("link", "Change log")
    expect(mia.page.get_by_role("heading", name="Former names")).to_be_visible()
    mia.fill("Search", "elevation")
    expect(mia.page).to_have_url(
        f"{mia.site}/datasets/{airport.key}/changes/?q=elevation&actor=&kind=&action=&since=&until="
    )
    expect(mia.page.locator("#entries")).to_contain_text("The unit belongs into the name.")
    mia.picture("engineer-changes")


def test_conflicting_edit_shows_both_values_and_can_overwrite(mia: Walker, airport: TargetDataset):
    column = airport.columns.get(name="name")
    mia.go(f"/columns/{column.key}/edit/")
    mia.fill("Description", "Mia's words")
    with acting_as(person("ben", Role.EDITOR)):
        update_target_column(column=column, expected_version=column.version, description="Ben's words", owner="Ben")
    mia.use("button", "Save")
    conflict = mia.page.locator("#conflict")
    expect(conflict).to_contain_text("ben changed")
    for words in ("Ben's words", "Mia's words"):
        expect(conflict).to_contain_text(words)
    mia.picture("engineer-conflict")
    mia.use("button", "Overwrite with mine")
    expect(mia.page.locator("#conflict")).to_have_count(0)
    saved = TargetColumn.objects.get(pk=column.pk)
    assert (saved.description, saved.owner) == ("Mia's words", "Ben")


def test_reference_is_created_with_its_key_pair(mia: Walker, airport: TargetDataset):
    routes = airport.referenced_by.get().child
    mia.go(f"/datasets/{routes.key}/")
    mia.use("link", "Add reference")
    mia.fill("Refers to", "rawcore.rc_air_airport")
    holds = mia.page.get_by_label("Holds icao")
    expect(holds).to_be_visible()
    holds.focus()
    mia.type("origin_icao")
    # Leaving the first field and typing in the second must not reload the pairs, or the choice would be lost.
    mia.fill("As", "home")
    expect(holds.locator("option:checked")).to_have_text(re.compile("^origin_icao"))
    mia.picture("engineer-reference")
    mia.use("button", "Create reference")
    expect(mia.page.locator("body")).to_contain_text("refers to rawcore.rc_air_airport now")
    assert routes.references.filter(role_name="home").exists()
