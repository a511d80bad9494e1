"""Tests of a mart: built by the guided builder, refused by its check, repaired, approved, shown in column lineage."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import PASSWORD, Installation
from tests.e2e.people import DONE_WITHIN, Person
from tests.services.browser import ARTIFACTS

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.services, pytest.mark.nightly]

FRANKFURT = ("EDDF", "FRA", "Frankfurt am Main", "Frankfurt", "Hesse", "DE", "364", "50.03", "8.57", "Europe/Berlin")
HEATHROW = ("EGLL", "LHR", "London Heathrow", "London", "England", "GB", "83.0", "51.47", "-0.45", "Europe/London")
# Its elevation is NULL.
TEMPELHOF = ("EDDI", "THF", "Tempelhof", "Berlin", "Berlin", "XB", "", "52.47", "13.4", "Europe/Berlin")

ROLES = {"nora": ("editor",), "otto": ("approver",), "lena": ("operator", "admin")}


@pytest.fixture
def at(browser: Browser, installation: Installation) -> Iterator[Callable[[str], Person]]:
    """Yield a function that returns the browser of nora, otto or lena, whose roles are in ``ROLES``."""
    for name, roles in ROLES.items():
        chosen = [part for role in roles for part in ("--role", role)]
        installation.manage("create_user", name, *chosen, "--password", PASSWORD)
    people = {name: Person(browser, installation, name) for name in ROLES}
    yield people.__getitem__
    for name, person in people.items():
        ARTIFACTS.mkdir(exist_ok=True)
        person.page.screenshot(path=ARTIFACTS / f"mart-{name}.png", full_page=True)
        person.close()


def load(lena: Person, dataset: str, *, ends: str) -> Page:
    page = lena.go(f"/load-runs/?start={dataset}#start")
    lena.press("Start load")
    page.wait_for_url(re.compile(r"/load-runs/[^/?]+/$"))
    expect(page.locator("#run").get_by_role("status").first).to_have_text(ends, timeout=DONE_WITHIN)
    return page


def build(nora: Person, *picks: tuple[str, str, str], condition: tuple[str, str] | None = None) -> None:
    """Choose columns of the airports, each with its function and name, and save the model."""
    page = nora.page
    for column, function, name in picks:
        page.get_by_role("checkbox", name=column, exact=True).check()
        page.get_by_label(f"Result of {column}", exact=True).select_option(function)
        page.get_by_label(f"Name of {column}", exact=True).fill(name)
    if condition is not None:
        page.get_by_label("Column of the condition").last.select_option(label=condition[0])
        page.get_by_label("Comparison").last.select_option(condition[1])
    nora.press("Write SELECT")
    expect(page.get_by_text("The SELECT below is written.")).to_be_visible()


def report(nora: Person) -> str:
    """Create a report on all changes; return its address."""
    page = nora.go("/reports/")
    if not page.get_by_role("button", name="Scan and create report").is_visible():
        page.locator("summary", has_text="Create report").click()
    nora.press("Scan and create report")
    page.wait_for_url(re.compile(r"/reports/[0-9a-f-]{36}/$"), timeout=DONE_WITHIN)
    return page.url


def carry_out(otto: Person, lena: Person, address: str) -> None:
    """Approve, preview and execute the report."""
    otto.go(address)
    otto.press("Approve")
    expect(otto.page.get_by_text("The report has all required approvals.")).to_be_visible()
    lena.go(address)
    if not lena.page.locator("#execute").get_by_role("button").is_visible():
        lena.press("Scan and preview again")
        lena.page.wait_for_url(f"{address}#preview", timeout=DONE_WITHIN)
    lena.page.locator("#execute").get_by_role("button").click()
    done = lena.page.locator("#execution").get_by_role("status").first
    expect(done).to_have_text("succeeded", timeout=DONE_WITHIN)


def test_a_mart_is_built_fails_its_check_and_is_repaired(at: Callable[[str], Person], installation: Installation):
    installation.deliver_airports([FRANKFURT, HEATHROW, TEMPELHOF])
    nora, otto, lena = at("nora"), at("otto"), at("lena")
    load(lena, "rawcore.rc_air_airport", ends="succeeded")
    lena.go("/policies/dev/").get_by_label("Approvals for safe").fill("1")
    lena.press("Save policy")
    lena.go("/schemas/new/").get_by_label("Name", exact=True).fill("mart")
    lena.page.get_by_label("Layer", exact=True).select_option("serving")
    lena.press("Create schema")

    page = nora.go("/models/new/?schema=mart")
    nora.press("Open builder")
    page.get_by_label("Add a dataset").fill("rawcore.rc_air_airport")
    nora.press("Add or update")
    build(nora, ("country", "", "country"), ("icao", "count", "airports"), ("elevation", "min", "lowest"))
    page.get_by_label("Name", exact=True).fill("airports_by_country")
    nora.press("Create model")
    expect(page.get_by_role("heading", level=1, name="airports_by_country")).to_be_visible()
    dataset = page.url.rstrip("/")
    page.get_by_role("link", name="Quality", exact=True).click()
    page.get_by_role("link", name="Add check").first.click()
    page.get_by_role("link", name="Not null", exact=True).click()
    page.get_by_label("Name", exact=True).fill("lowest is known")
    page.get_by_label("Columns", exact=True).select_option("lowest")
    page.get_by_label("Severity", exact=True).select_option("stop")
    nora.press("Create check")
    carry_out(otto, lena, report(nora))

    run = load(lena, "mart.airports_by_country", ends="failed")
    expect(run.get_by_text("QUALITY_STOPPED").first).to_be_visible()
    expect(run.get_by_text("lowest is known").first).to_be_visible()

    nora.go(dataset).get_by_role("link", name="Edit model", exact=True).click()
    nora.press("Open builder")
    build(nora, condition=("rc_air_airport.elevation", "is not null"))
    nora.press("Save model")
    expect(page).to_have_url(re.compile(re.escape(dataset)))
    carry_out(otto, lena, report(nora))
    load(lena, "mart.airports_by_country", ends="succeeded")
    lena.go(f"{dataset}/data/")
    expect(lena.page.get_by_role("cell", name="GB", exact=True)).to_be_visible(timeout=DONE_WITHIN)
    expect(lena.page.get_by_role("cell", name="XB", exact=True)).to_have_count(0)

    nora.go("/lineage/columns/?focus=mart.airports_by_country.lowest")
    drawing = page.locator("[data-graph] svg")
    for text in ("airports_by_country", "rc_air_airport", "lowest", "elevation"):
        expect(drawing.get_by_text(text, exact=True).first).to_be_visible()
