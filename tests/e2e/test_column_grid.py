"""Tests of the column grid in a real Chromium: spreadsheet keys, and no loss of typed text."""

import re
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Locator, Page, Route, expect

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.generation import generate_targets
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import person as someone
from tests.factories import airport_source

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

STATIC = Path(__file__).resolve().parents[2] / "static"
TYPES = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
PASTE = """text => {
    const data = new DataTransfer();
    data.setData("text/plain", text);
    const how = {clipboardData: data, bubbles: true, cancelable: true};
    document.activeElement.dispatchEvent(new ClipboardEvent("paste", how));
}"""


@pytest.fixture
def mia(transactional_db) -> User:
    return someone("mia", Role.EDITOR)


@pytest.fixture
def grid(page: Page, live_server, mia: User) -> Page:
    """Return a page, signed in as mia, with the columns of ``rawcore.rc_air_airport``: icao, name, elevation."""
    generate_targets(source_dataset=airport_source())
    client = Client()
    client.force_login(mia)
    cookie = client.cookies["sessionid"].value
    page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": live_server.url}])
    page.route("**/static/**", _static)
    page.set_default_timeout(30_000)
    page.goto(f"{live_server.url}/datasets/{TargetDataset.objects.get(name='rc_air_airport').key}/")
    return page


def _static(route: Route) -> None:
    """Serve static files of the checkout instead of collected ones; a hash in the name is ignored."""
    path = re.sub(r"\.[0-9a-f]{12}(?=\.\w+$)", "", urlsplit(route.request.url).path.partition("/static/")[2])
    file = STATIC / path
    route.fulfill(path=file, headers={"Content-Type": TYPES.get(file.suffix, "text/plain")})


@pytest.fixture
def cell(grid: Page) -> Callable[[str, str], Locator]:
    return lambda column, name: grid.locator(f'tr[data-name="{column}"] [data-cell="{name}"]')


def column(name: str) -> TargetColumn:
    return TargetColumn.objects.get(dataset__name="rc_air_airport", name=name)


def saved(page: Page) -> None:
    """Wait until all cells are saved."""
    expect(page.locator("#columns [aria-busy]")).to_have_count(0)


def names(page: Page) -> list[str]:
    return [line.get_attribute("data-name") for line in page.locator("tr[data-name]").all()]


def test_arrow_keys_move_in_the_grid_and_tab_leaves_it(grid: Page, cell: Callable):
    cell("icao", "type").click()
    grid.keyboard.press("ArrowDown")
    expect(cell("name", "type")).to_be_focused()
    grid.keyboard.press("ArrowRight")
    expect(cell("name", "nullable")).to_be_focused()
    grid.keyboard.press("Home")
    expect(cell("name", "name")).to_be_focused()
    grid.keyboard.press("Control+End")
    grid.keyboard.press("Control+Home")
    assert grid.evaluate("document.activeElement.innerText.trim()") == "rc_air_airport_key"
    assert grid.locator('[data-grid] tbody [tabindex="0"]').count() == 1
    grid.keyboard.press("Tab")
    assert grid.evaluate("document.activeElement.closest('[data-grid]')") is None


@pytest.mark.core
def test_grid_typing_edits_a_cell_and_enter_or_tab_saves_it(grid: Page, cell: Callable):
    cell("icao", "owner").click()
    grid.keyboard.type("Kim")
    grid.keyboard.press("Enter")
    expect(cell("name", "owner")).to_be_focused()
    grid.keyboard.type("Lou")
    grid.keyboard.press("Tab")
    expect(cell("name", "tags")).to_be_focused()
    grid.keyboard.type("a, b")
    grid.keyboard.press("Tab")
    grid.keyboard.press("Space")
    saved(grid)
    assert (column("icao").owner, column("name").owner, column("name").tags) == ("Kim", "Lou", ["a", "b"])
    assert column("name").pii
    expect(cell("name", "tags").locator(".chip")).to_have_text(["a", "b"])


def test_an_editor_that_is_open_survives_its_line_being_replaced(grid: Page, cell: Callable):
    cell("name", "type").click()
    grid.keyboard.press("F2")
    grid.keyboard.type("string(40)")
    grid.keyboard.press("Tab")
    cell("name", "description").click()
    grid.keyboard.type("Who it is, ")
    saved(grid)
    grid.keyboard.type("said in English")
    grid.keyboard.press("Enter")
    saved(grid)
    assert (str(column("name").type), column("name").description) == ("string(40)", "Who it is, said in English")


def test_the_last_save_is_undone_by_keyboard(grid: Page, cell: Callable):
    cell("icao", "owner").click()
    grid.keyboard.type("Kim")
    grid.keyboard.press("Enter")
    expect(grid.locator("#grid-saved")).to_have_text("Saved: owner of icao. Undo")
    grid.keyboard.press("Control+z")
    expect(grid.get_by_role("heading", name="Undo change")).to_be_visible()
    grid.get_by_role("button", name="Undo 1 change").press("Enter")
    expect(cell("icao", "owner")).to_have_text("")
    assert column("icao").owner == ""


def test_escape_discards_the_edit_of_a_cell(grid: Page, cell: Callable):
    cell("name", "owner").click()
    grid.keyboard.type("Kim")
    grid.keyboard.press("Escape")
    expect(cell("name", "owner")).to_be_focused()
    expect(cell("name", "owner")).to_have_text("")
    assert column("name").version == 1


def test_refused_cell_value_is_kept_in_its_editor_with_the_reason(grid: Page, cell: Callable):
    cell("name", "type").click()
    grid.keyboard.press("Enter")
    grid.keyboard.type("strig")
    grid.keyboard.press("Enter")
    editor = grid.locator(".cell-editor")
    expect(editor).to_have_value("strig")
    expect(editor).to_be_focused()
    expect(cell("name", "type").get_by_role("alert")).to_contain_text("is not a type")
    editor.fill("string(7)")
    grid.keyboard.press("Enter")
    saved(grid)
    expect(cell("name", "type")).to_have_text("string(7)")
    assert str(column("name").type) == "string(7)"


def test_cell_value_is_kept_and_saved_later_if_the_server_does_not_respond(grid: Page, cell: Callable):
    grid.route("**/cell/", lambda route: route.abort())
    cell("name", "owner").click()
    grid.keyboard.type("Kim")
    grid.keyboard.press("Enter")
    expect(cell("name", "owner")).to_contain_text("No answer from the server")
    grid.unroute("**/cell/")
    cell("name", "owner").click()
    grid.keyboard.press("Enter")
    expect(grid.locator(".cell-editor")).to_have_value("Kim")
    grid.keyboard.press("Enter")
    saved(grid)
    assert column("name").owner == "Kim"


def test_typed_text_is_kept_when_the_session_ends(grid: Page, cell: Callable):
    grid.context.clear_cookies(name="sessionid")
    cell("name", "owner").click()
    grid.keyboard.type("Kim")
    grid.keyboard.press("Enter")
    expect(cell("name", "owner")).to_contain_text("Your session has ended")
    expect(cell("name", "owner")).to_contain_text("Kim")


def test_alt_and_arrows_move_a_column_with_the_focus(grid: Page, cell: Callable):
    cell("name", "type").click()
    grid.keyboard.press("Alt+ArrowDown")
    expect(cell("name", "type")).to_be_focused()
    assert names(grid) == ["icao", "elevation", "name"]
    grid.keyboard.press("Alt+ArrowDown")
    expect(grid.locator("#grid-status")).to_have_text("name cannot move further down.")
    with grid.expect_response("**/move/"):
        pass
    expect(cell("name", "type")).to_be_focused()
    assert column("name").ordinal > column("elevation").ordinal
    assert names(grid) == ["icao", "elevation", "name"]


def test_row_menu_opens_by_keyboard_and_links_to_actions(grid: Page, cell: Callable):
    cell("name", "type").click()
    grid.keyboard.press("End")
    grid.keyboard.press("Enter")
    expect(grid.get_by_role("link", name="Edit column")).to_be_focused()
    grid.keyboard.press("ArrowDown")
    grid.keyboard.press("Escape")
    expect(grid.locator('tr[data-name="name"] .cell-menu')).to_be_focused()
    grid.keyboard.press("Home")
    grid.keyboard.press("Enter")
    expect(grid).to_have_url(re.compile("/rename/$"))


def test_a_block_from_a_spreadsheet_is_shown_and_saved(grid: Page, cell: Callable):
    cell("name", "description").click()
    grid.evaluate(PASTE, "Who it is\tKim\nHow high\tLou")
    expect(grid.locator("#paste-preview")).to_be_focused()
    expect(grid.locator("#paste-preview")).to_contain_text("2 columns to change")
    assert column("name").owner == ""
    grid.get_by_role("button", name="Save all").click()
    expect(grid.get_by_text("2 columns changed.")).to_be_visible()
    assert (column("name").description, column("elevation").owner) == ("Who it is", "Lou")


def test_pasted_single_value_fills_the_cell_editor(grid: Page, cell: Callable):
    cell("name", "owner").click()
    grid.evaluate(PASTE, "Kim\n")
    expect(grid.locator(".cell-editor")).to_have_value("Kim")


def test_conflicting_cell_edit_shows_both_values_and_can_overwrite(grid: Page, cell: Callable):
    with acting_as(someone("bob", Role.EDITOR)):
        update_target_column(column=column("name"), expected_version=1, owner="Bob")
    cell("name", "owner").click()
    grid.keyboard.type("Mia")
    grid.keyboard.press("Enter")
    expect(grid.locator("#conflict")).to_be_focused()
    expect(grid.locator("#conflict")).to_contain_text("bob changed rawcore.rc_air_airport.name")
    expect(cell("name", "owner")).to_contain_text("Mia")
    grid.get_by_role("button", name="Overwrite with mine").click()
    expect(cell("name", "owner")).to_have_text("Mia")
    assert column("name").owner == "Mia"


def test_grid_cell_can_be_edited_at_phone_width(grid: Page, cell: Callable):
    grid.set_viewport_size({"width": 390, "height": 844})
    cell("name", "type").click()
    cell("name", "type").click()
    grid.locator(".cell-editor").fill("string(9)")
    grid.keyboard.press("Enter")
    saved(grid)
    assert str(column("name").type) == "string(9)"
    assert grid.evaluate("document.documentElement.scrollWidth") == 390
