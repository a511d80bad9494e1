"""A person signs in, starts a load from the page, watches it finish and reads one airport's history."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.conftest import PASSWORD, USER, Installation

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.services, pytest.mark.embedded]

ARTIFACTS = Path(__file__).resolve().parents[1] / "artifacts"
# Spark starts cold on a busy machine; how long it takes is measured in bench/, not here.
FINISHED_WITHIN = 240_000

FRANKFURT = ("EDDF", "FRA", "Frankfurt am Main", "Frankfurt", "Hesse", "DE", "364", "50.03", "8.57", "Europe/Berlin")
TEMPELHOF = ("EDDI", "THF", "Tempelhof", "Berlin", "Berlin", "DE", "167", "52.47", "13.4", "Europe/Berlin")
HEATHROW = ("EGLL", "LHR", "London Heathrow", "London", "England", "GB", "83.0", "51.47", "-0.45", "Europe/London")


def start_load(page: Page, address: str) -> None:
    page.goto(f"{address}/load-runs/")
    page.get_by_text("Start a load").click()
    page.get_by_role("button", name="Start", exact=True).click()
    page.wait_for_url(re.compile(r"/load-runs/[^/]+/$"))


def watch_it_finish(page: Page) -> None:
    """The page brings the end by itself: nothing is reloaded here."""
    expect(page.locator("#run").get_by_role("status").first).to_have_text("succeeded", timeout=FINISHED_WITHIN)


def sign_in(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_label("User name").fill(USER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{address}/")


def sideways(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_from_sign_in_to_one_airports_history(page: Page, installation: Installation):
    installation.deliver_airports([FRANKFURT, TEMPELHOF, HEATHROW])
    sign_in(page, installation.address)
    start_load(page, installation.address)
    watch_it_finish(page)

    renamed = (*FRANKFURT[:2], "Frankfurt Airport", *FRANKFURT[3:])
    installation.deliver_airports([renamed, HEATHROW])
    start_load(page, installation.address)
    watch_it_finish(page)
    row = page.locator("#run").get_by_role("row").filter(has_text="rc_air_airport")
    expect(row.first).to_contain_text("rc_air_airport")
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "load-run-wide.png", full_page=True)

    page.goto(f"{installation.address}/datasets/")
    page.get_by_role("link", name=re.compile(r"rc_air_airport$")).first.click()
    page.get_by_role("link", name="Data", exact=True).click()
    page.get_by_role("link", name="Versions of a key", exact=True).click()
    page.get_by_label("Business key starts with").fill("EDDF")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name="EDDF", exact=True).click(timeout=60_000)
    expect(page.get_by_text("Version 2", exact=True)).to_be_visible(timeout=60_000)
    changed = page.get_by_label("Changed against version 1")
    expect(changed.locator("del")).to_have_text("Frankfurt am Main")
    expect(changed.locator("ins")).to_have_text("Frankfurt Airport")
    page.screenshot(path=ARTIFACTS / "history-wide.png", full_page=True)

    page.set_viewport_size({"width": 390, "height": 844})
    assert sideways(page) == 0
    page.screenshot(path=ARTIFACTS / "history-narrow.png", full_page=True)
