"""Tests of an installation with Spark: an airport's history, and a change set from edit to sealed record."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.e2e.conftest import PASSWORD, USER, Installation
from tests.e2e.people import DONE_WITHIN, Person, sideways
from tests.services.browser import ARTIFACTS

pytestmark = [pytest.mark.browser, pytest.mark.spark, pytest.mark.servers, pytest.mark.takes(seconds=65)]

FRANKFURT = ("EDDF", "FRA", "Frankfurt am Main", "Frankfurt", "Hesse", "DE", "364", "50.03", "8.57", "Europe/Berlin")
TEMPELHOF = ("EDDI", "THF", "Tempelhof", "Berlin", "Berlin", "DE", "167", "52.47", "13.4", "Europe/Berlin")
HEATHROW = ("EGLL", "LHR", "London Heathrow", "London", "England", "GB", "83.0", "51.47", "-0.45", "Europe/London")


def start_load(page: Page, address: str) -> None:
    page.goto(f"{address}/load-runs/")
    page.locator("summary", has_text="Start load").click()
    page.get_by_role("button", name="Start load", exact=True).click()
    page.wait_for_url(re.compile(r"/load-runs/[^/]+/$"))


def expect_success(page: Page) -> None:
    """Wait until the page shows the end of the run, without reloading it."""
    expect(page.locator("#run").get_by_role("status").first).to_have_text("succeeded", timeout=DONE_WITHIN)


def sign_in(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_label("User name").fill(USER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page).to_have_url(f"{address}/")


@pytest.mark.nightly
def test_airport_history_is_shown_after_two_loads_in_the_browser(page: Page, installation: Installation):
    installation.deliver_airports([FRANKFURT, TEMPELHOF, HEATHROW])
    sign_in(page, installation.address)
    start_load(page, installation.address)
    expect_success(page)

    renamed = (*FRANKFURT[:2], "Frankfurt Airport", *FRANKFURT[3:])
    installation.deliver_airports([renamed, HEATHROW])
    start_load(page, installation.address)
    expect_success(page)
    row = page.locator("#run").get_by_role("row").filter(has_text="rc_air_airport")
    expect(row.first).to_contain_text("rc_air_airport")
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "load-run-wide.png", full_page=True)

    page.goto(f"{installation.address}/datasets/")
    page.get_by_role("link", name=re.compile(r"rc_air_airport$")).first.click()
    page.get_by_role("link", name="Data", exact=True).click()
    page.get_by_role("link", name="Versions of a key", exact=True).click()
    page.get_by_label("Business key contains").fill("EDDF")
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


@pytest.mark.nightly
def test_a_source_is_added_and_its_first_rows_are_shown(page: Page, installation: Installation):
    """Check the guided path with a real load, from a folder with a file to its rows in rawcore."""
    folder = installation.data_dir / "landing" / "shop"
    folder.mkdir(parents=True)
    (folder / "customers.csv").write_text("id,name\n1,Ada\n2,Ben\n")
    sign_in(page, installation.address)
    page.goto(f"{installation.address}/add-source/files/")
    page.get_by_label("Name", exact=True).fill("Shop")
    page.get_by_label("Short name").fill("shop")
    page.get_by_label("Location").fill("{{ data_dir }}/landing/shop")
    page.get_by_role("button", name="Register system").click()
    page.get_by_role("link", name="Choose customers.csv").click()
    page.get_by_role("button", name="Choose load type").click()
    page.get_by_role("button", name="Show summary").click()
    page.get_by_role("button", name="Create and load").click()
    expect(page.get_by_role("cell", name="Ada")).to_be_visible(timeout=DONE_WITHIN)
    page.screenshot(path=ARTIFACTS / "add-source-first-rows.png", full_page=True)


def people(installation: Installation) -> dict[str, str]:
    """Create an editor (mia), two approvers (mia, ben), an operator (olga) and an admin (rita); return their tokens."""
    roles = {"mia": ("editor", "approver"), "ben": ("approver",), "olga": ("operator",), "rita": ("admin",)}
    tokens = {}
    for name, user_roles in roles.items():
        chosen = [part for role in user_roles for part in ("--role", role)]
        made = installation.manage("create_user", name, *chosen, "--password", PASSWORD, "--token", "--json")
        tokens[name] = json.loads(made.stdout)["token"]
    return tokens


def edit(installation: Installation, token: str, folder: Path) -> None:
    """Import a change set as mia: a rename on a historized table, a widening, a new dataset, a retired column."""
    installation.manage("export_metadata", str(folder))
    routes = folder / "targets" / "rawcore" / "rc_net_route.yaml"
    described: dict[str, Any] = yaml.safe_load(routes.read_text())
    columns = {column["name"]: column for column in described["dataset"]["columns"]}
    columns["airline"]["name"] = "carrier"
    columns["distance_nm"]["type"] = "bigint"
    columns["seasonal"] |= {"retired_at": "2026-11-21T08:00:00+00:00", "retired_by": "person"}
    routes.write_text(yaml.safe_dump(described, sort_keys=False))
    carriers = {
        "schema": "rawcore",
        "name": "rc_net_carrier",
        "historize": True,
        "columns": [{"name": "code", "type": "string", "business_key": 1}, {"name": "title", "type": "string"}],
    }
    new = folder / "targets" / "rawcore" / "rc_net_carrier.yaml"
    new.write_text(yaml.safe_dump({"format": "metadata/v1", "dataset": carriers}, sort_keys=False))
    installation.manage("import_metadata", str(folder), environment={"ELEVATA_TOKEN": token})


def test_change_set_is_approved_executed_and_recorded(browser: Browser, installation: Installation, tmp_path: Path):
    installation.deliver_airports([FRANKFURT, HEATHROW])
    tokens = people(installation)
    rita = Person(browser, installation, "rita")
    start_load(rita.page, installation.address)
    expect_success(rita.page)
    rita.go("/policies/dev/").get_by_label("Approvals for safe").fill("1")
    rita.press("Save policy")
    expect(rita.page.get_by_text("The policy is in force")).to_be_visible()

    edit(installation, tokens["mia"], tmp_path / "metadata")
    mia = Person(browser, installation, "mia")
    mia.go("/reports/")
    if not mia.page.get_by_role("button", name="Scan and create report").is_visible():
        mia.page.locator("summary", has_text="Create report").click()
    mia.press("Scan and create report")
    mia.page.wait_for_url(re.compile(r"/reports/[0-9a-f-]{36}/$"), timeout=DONE_WITHIN)
    report = mia.page.url
    operations = mia.page.locator("#operations")
    for text in ("airline → carrier", "distance_nm: integer → bigint", "create_table", "retire_column"):
        expect(operations.get_by_text(text).first).to_be_visible()
    expect(mia.page.locator("#approvals").get_by_text("OWN_CHANGE")).to_be_visible()
    expect(mia.page.get_by_role("button", name="Approve", exact=True)).to_be_disabled()

    ben = Person(browser, installation, "ben")
    ben.go(report).get_by_label("Note").fill("Agreed with the network team.")
    expect(ben.page.get_by_text("Up to date")).to_be_visible()
    ben.press("Approve")
    expect(ben.page.get_by_text("The report has all required approvals.")).to_be_visible()

    olga = Person(browser, installation, "olga")
    olga.go(report)
    olga.press("Scan and preview again")
    olga.page.wait_for_url(f"{report}#preview", timeout=DONE_WITHIN)
    expect(olga.page.locator("#preview").get_by_text("RENAME COLUMN").first).to_be_visible()
    ARTIFACTS.mkdir(exist_ok=True)
    olga.page.screenshot(path=ARTIFACTS / "report-wide.png", full_page=True)
    olga.page.locator("#execute").get_by_role("button").click()
    expect(olga.page.locator("#execution").get_by_role("status").first).to_have_text("succeeded", timeout=DONE_WITHIN)

    with olga.page.expect_download() as download:
        olga.page.get_by_role("link", name="Download record").click()
    record = tmp_path / "record.json"
    download.value.save_as(record)
    document = json.loads(record.read_text())["document"]
    assert [approval["person"] for approval in document["approvals"]] == ["ben"]
    assert (document["requested_by"], document["outcome"]) == ("olga", "succeeded")
    installation.manage("verify_artifact", str(record))
    installation.manage("verify_audit", "--against", str(record))
    assert json.loads(installation.manage("plan", "--json").stdout)["status"] == "no_changes"

    olga.page.set_viewport_size({"width": 390, "height": 844})
    for page in (olga.page.url, report, "/reports/", "/drift/", "/policies/dev/", "/changes/"):
        assert sideways(olga.go(page)) == 0, page
    olga.go(report).screenshot(path=ARTIFACTS / "report-narrow.png", full_page=True)
    for someone in (rita, mia, ben, olga):
        someone.close()
