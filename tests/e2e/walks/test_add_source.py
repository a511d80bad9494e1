"""Tests of adding a source in Chromium by keyboard: a CSV file, a table of PostgreSQL, an API."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from elevata.accounts.roles import Role
from elevata.jobs.models import Worker
from loader.models import LoadRun, ReadRequest
from metadata.models import SourceDataset, System, TargetDataset
from tests.architecture.world import person
from tests.e2e.walks.conftest import Walker, at_both_widths
from tests.loader.factories import DatasetRunFactory, WorkerFactory
from tests.loader.readers.rest.api_server import HERE, Answer, api_server
from tests.services.axe import AXE, accessible_faults

pytestmark = [pytest.mark.browser, pytest.mark.services]

CUSTOMERS = "id,name,since\n1,Ada,2024-01-02\n2,Ben,2024-02-03\n"


@pytest.fixture
def edda(site: str, width: str, walkers: Callable[..., Walker]) -> Walker:
    """Return a walker of an editor who may start loads, beside a running worker."""
    WorkerFactory()
    walker = walkers(person("edda", Role.EDITOR, Role.OPERATOR), width)
    walker.context.add_init_script(path=AXE)
    return walker


def look(walker: Walker, heading: str | re.Pattern, picture: str) -> None:
    """Check that a step is shown without axe violations, and take its picture."""
    expect(walker.page.get_by_role("heading", level=1, name=heading)).to_be_visible()
    expect(walker.page.locator("[aria-busy]")).to_have_count(0)
    assert accessible_faults(walker.page) == []
    walker.picture(f"add-source-{picture}")


def finish_load(name: str, rows: int) -> None:
    """Finish the run as a worker does: it succeeds, and the table has rows."""
    run, dataset = LoadRun.objects.get(), TargetDataset.objects.get(name=name)
    DatasetRunFactory(run=run, dataset=dataset, counts={"rows": rows, "new": rows})
    LoadRun.objects.update(status="succeeded")
    # The previous steps may have taken longer than the timeout of a worker's heartbeat.
    Worker.objects.update(heartbeat_at=timezone.now())


def answer_read(columns: list[str], *rows: list) -> None:
    """Answer the request for the first rows as a worker does."""
    answer = {"columns": columns, "types": ["string"] * len(columns), "rows": list(rows)}
    answer |= {"truncated": False, "table_version": 1}
    ReadRequest.objects.update(answer=answer, status="succeeded")


def choose_defaults(walker: Walker, name: str) -> None:
    """Go from the columns to the summary with the proposed values."""
    walker.use("button", "Choose load type")
    look(walker, f"Load type of {name}", "load-type")
    walker.use("button", "Show summary")


@at_both_widths
def test_uploaded_csv_file_is_added_as_a_source_and_loaded(edda: Walker, tmp_path: Path, settings):
    landing = tmp_path / "landing"
    landing.mkdir()
    settings.SOURCE_ROOTS = [str(landing)]
    page = edda.go("/sources/")
    edda.use("link", "Add source")
    look(edda, "Add a source", "kind")
    edda.use("link", "Files")
    edda.fill("Name", "Shop")
    edda.fill("Short name", "shop")
    edda.fill("Location", str(landing / "gone"))
    edda.use("button", "Test connection")
    expect(page.locator("#answer")).to_contain_text("gone is not there")
    edda.fill("Location", str(landing))
    edda.use("button", "Test connection")
    expect(page.locator("#answer")).to_contain_text("The folder is there")
    look(edda, "Choose a system", "system")
    edda.use("button", "Register system")

    page.get_by_label("Files", exact=True).set_input_files(
        {"name": "customers.csv", "mimeType": "text/csv", "buffer": CUSTOMERS.encode()}
    )
    look(edda, "Choose what to load from Shop", "contents")
    edda.use("button", "Upload files")
    expect(page.locator("main")).to_contain_text("customers.csv is stored")
    expect(page.get_by_label("Type of since")).to_have_value("date")
    look(edda, "Columns of customers.csv", "columns")
    edda.fill("Name in the warehouse of name", "full_name")
    choose_defaults(edda, "customers")
    look(edda, "Create shop.customers", "summary")
    expect(page.locator("main")).to_contain_text("full_name string")
    page.reload()
    assert not SourceDataset.objects.exists()
    edda.use("button", "Create and load")

    look(edda, "First load of customers", "waiting")
    finish_load("rc_shop_customers", 2)
    expect(page.get_by_role("heading", name="First rows")).to_be_visible()
    expect(page.locator("#first-load")).to_contain_text("Waiting for the worker")
    answer_read(["id", "full_name", "since"], ["1", "Ada", "2024-01-02"], ["2", "Ben", "2024-02-03"])
    expect(page.get_by_role("cell", name="Ada")).to_be_visible()
    look(edda, "First load of customers", "first-rows")
    edda.use("link", "Open dataset")
    expect(page.get_by_role("heading", level=1, name="rc_shop_customers")).to_be_visible()


def test_dropped_file_is_loaded_in_few_clicks(edda: Walker, shop: System):
    """Check that the path from the list of sources to the first rows takes six clicks, one of them for the file."""
    page = edda.go("/sources/")
    edda.use("link", "Add source")
    edda.use("link", "Shop")
    page.get_by_label("Files", exact=True).set_input_files(
        {"name": "customers.csv", "mimeType": "text/csv", "buffer": CUSTOMERS.encode()}
    )
    edda.use("button", "Upload files")
    edda.use("button", "Use default load type")
    edda.use("button", "Create and load")
    expect(page.get_by_role("heading", level=1, name="First load of customers")).to_be_visible()
    finish_load("rc_shop_customers", 2)
    expect(page.locator("#first-load")).to_contain_text("Waiting for the worker")
    answer_read(["id", "name"], ["1", "Ada"])
    expect(page.get_by_role("cell", name="Ada")).to_be_visible()


def test_location_pattern_shows_its_matching_files_while_typed(edda: Walker, shop: System, landing: Path):
    (landing / "orders_2.csv").write_text((landing / "orders.csv").read_text())
    page = edda.go("/systems/shop/discover/")
    edda.fill("File, folder or pattern", "ord*.csv")
    expect(page.locator("#delivery")).to_contain_text("2 files")
    edda.fill("File, folder or pattern", "nothing*.csv")
    expect(page.locator("#delivery")).to_contain_text("matches no file")
    edda.fill("File, folder or pattern", "orders.csv")
    expect(page.locator("#delivery")).to_contain_text("1 file")
    edda.use("button", "Read first rows")
    look(edda, "Columns of orders.csv", "location")


def test_postgresql_table_is_added_as_a_source_and_loaded(edda: Walker, database_location: str):
    page = edda.go("/add-source/")
    edda.use("link", "Database (JDBC)")
    edda.fill("Name", "ERP")
    edda.fill("Short name", "erp")
    edda.fill("Location", re.sub(r"//\w+@", "//nobody_here@", database_location))
    edda.use("button", "Test connection")
    expect(page.locator("#answer")).to_contain_text("SIGN_IN_REFUSED")
    edda.fill("Location", database_location)
    edda.use("button", "Test connection")
    expect(page.locator("#answer")).to_contain_text("The database answers")
    look(edda, "Choose a system", "database")
    edda.use("button", "Register system")

    edda.fill("Table name", "shop.")
    expect(page.locator("#found")).to_contain_text("What was sold")
    look(edda, "Choose what to load from ERP", "tables")
    edda.use("link", "Choose shop.orders")
    expect(page.get_by_label("Key of order_no")).to_have_value("1")
    expect(page.locator("#import")).to_contain_text("the table's primary key")
    look(edda, "Columns of shop.orders", "table-columns")
    choose_defaults(edda, "shop.orders")
    look(edda, "Create erp.shop.orders", "table-summary")
    edda.use("button", "Create and load")
    look(edda, "First load of shop.orders", "table-waiting")
    finish_load("rc_erp_shop_orders", 30)
    expect(page.locator("#first-load")).to_contain_text("Waiting for the worker")
    answer_read(["order_no", "customer_name"], ["1", "c1"])
    expect(page.get_by_role("cell", name="c1")).to_be_visible()


def test_postgresql_table_is_loaded_by_its_changes_in_nine_clicks(edda: Walker, database_location: str):
    page = edda.go("/")
    clicks = 0

    def click(role: Any, name: str) -> None:
        nonlocal clicks
        page.get_by_role(role, name=name, exact=True).first.click()
        clicks += 1

    click("link", "Sources")
    click("link", "Add source")
    click("link", "Database (JDBC)")
    edda.fill("Name", "ERP")
    edda.fill("Short name", "erp")
    edda.fill("Location", database_location)
    click("button", "Register system")
    edda.fill("Table name", "shop.orders")
    click("link", "Choose shop.orders")
    click("button", "Choose load type")
    click("radio", "Only new and changed rows, by order_no")
    click("button", "Show summary")
    click("button", "Create and load")
    finish_load("rc_erp_shop_orders", 30)
    expect(page.locator("#first-load")).to_contain_text("Waiting for the worker")
    answer_read(["order_no", "customer_name"], ["1", "c1"])
    expect(page.get_by_role("cell", name="c1")).to_be_visible()
    source = SourceDataset.objects.get()
    assert source.intake == {"watermark": ["order_no"]}
    assert source.history_policy == {"input": "delta", "delete_detection": "key_list"}
    assert clicks <= 9


def test_api_endpoint_is_added_as_a_source_and_loaded(edda: Walker, settings):
    settings.SOURCE_HOSTS = list(HERE)
    with api_server() as api:
        api.serve("/v1/customers", Answer.of({"data": [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Ben"}]}))
        page = edda.go("/add-source/")
        edda.use("link", "REST API")
        edda.fill("Name", "CRM")
        edda.fill("Short name", "crm")
        edda.fill("Location", "http://127.0.0.1:9/v1")
        edda.use("button", "Test connection")
        expect(page.locator("#answer")).to_contain_text("cannot be reached")
        edda.fill("Location", f"{api.url}/v1")
        edda.use("button", "Test connection")
        expect(page.locator("#answer")).to_contain_text("answers")
        look(edda, "Choose a system", "api")
        edda.use("button", "Register system")

        look(edda, "Choose what to load from CRM", "endpoints")
        edda.fill("Endpoint", "customers")
        edda.use("button", "Choose columns")
        expect(page.get_by_label("Key of data")).to_be_visible()
        page.locator("#reading > summary").focus()
        edda.press("Enter")
        edda.fill("Path", "data")
        edda.use("button", "Read again")
        look(edda, "Columns of customers", "endpoint-columns")
        edda.fill("Key of id", "1")
        choose_defaults(edda, "customers")
        look(edda, "Create crm.customers", "endpoint-summary")
        edda.use("button", "Create and load")
        look(edda, "First load of customers", "endpoint-waiting")
    finish_load("rc_crm_customers", 2)
    expect(page.locator("#first-load")).to_contain_text("Waiting for the worker")
    answer_read(["id", "name"], ["1", "Ada"], ["2", "Ben"])
    expect(page.get_by_role("cell", name="Ada")).to_be_visible()
