"""Guided path from the kind of a source to the load of its first rows."""

import json
import shutil
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from loader.domain.sources.contract_comparison import NEW, Line, lines_as_text
from loader.domain.sources.sampling import SampledColumn
from loader.models import LoadRun
from metadata.domain.types import BIGINT, STRING, TIMESTAMP, DataType
from metadata.models import SourceDataset, System, TargetDataset
from metadata.services.sources import create_source_dataset
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.loader.factories import DatasetRunFactory, LoadRunFactory
from tests.loader.views.sources.shop import HTMX, ORDERS, choose_columns, choose_load_type, import_page

pytestmark = pytest.mark.django_db

CDC = "id,op,seq,changed,name\n1,I,1,2024-01-01,a\n2,I,2,2024-01-02,b\n"


def summary_of(client: Client, location: str = "orders.csv", **load_type: str) -> str:
    """Return the address of the summary, after the steps before it."""
    columns = choose_columns(client, import_page(client, location))
    return choose_load_type(client, columns.url, **load_type).url


# --- kind and system -----------------------------------------------------------------------------


def test_kinds_of_systems_that_have_sources_are_offered(editor: Client):
    page = read(editor, "/add-source/")
    assert [kind for kind in System.Kind.values if f"/add-source/{kind}/" in page] == ["files", "jdbc", "kafka", "rest"]


def test_an_unknown_kind_has_no_page(editor: Client):
    assert editor.get("/add-source/fax/").status_code == 404


def test_registered_systems_of_the_kind_can_be_chosen(editor: Client, shop: System):
    assert "/systems/shop/discover/" in read(editor, "/add-source/files/")
    assert "/systems/shop/discover/" not in read(editor, "/add-source/jdbc/")


def test_registered_systems_can_be_chosen_at_once(editor: Client, shop: System):
    assert 'href="/systems/shop/discover/"' in read(editor, "/add-source/")


def test_the_short_name_of_a_system_is_derived_from_its_name(editor: Client, landing: Path):
    fields = typed(read(editor, "/add-source/files/"), having="short_name", name="Web shop", location=str(landing))
    editor.post("/add-source/files/", fields)
    assert System.objects.get().short_name == "web_shop"


def test_a_connection_is_tested_before_the_system_is_stored(editor: Client, landing: Path):
    fields = typed(read(editor, "/add-source/files/"), having="short_name", location=str(landing))
    answer = editor.post("/add-source/files/test/", fields, headers=HTMX)
    assert "The folder is there and can be read" in words(html_of(answer))
    assert not System.objects.exists()


def test_failed_connection_test_shows_its_cause(editor: Client, landing: Path):
    fields = typed(read(editor, "/add-source/files/"), having="short_name", location=str(landing / "gone"))
    assert "gone is not there" in words(html_of(editor.post("/add-source/files/test/", fields, headers=HTMX)))


def test_connection_test_without_scripts_keeps_the_typed_form(editor: Client, landing: Path):
    fields = typed(read(editor, "/add-source/files/"), having="short_name", name="Shop", location=str(landing))
    page = html_of(editor.post("/add-source/files/test/", fields))
    assert 'value="Shop"' in page
    assert "The folder is there" in page


def test_the_test_of_a_database_reaches_permitted_hosts_only(editor: Client):
    fields = typed(read(editor, "/add-source/jdbc/"), having="short_name", location="postgresql://a@10.0.0.1/erp")
    assert "HOST_NOT_ALLOWED" in html_of(editor.post("/add-source/jdbc/test/", fields, headers=HTMX))


# --- contents ------------------------------------------------------------------------------------


def delivery_of(client: Client, location: str) -> str:
    return words(html_of(client.get("/systems/shop/delivery/", {"location": location}, headers=HTMX)))


def test_pattern_shows_the_number_size_and_format_of_its_files(editor: Client, shop: System, landing: Path):
    (landing / "orders_2.csv").write_text(ORDERS)
    assert "2 files, 158 bytes: CSV" in delivery_of(editor, "orders*.csv")


def test_pattern_without_a_match_shows_a_message(editor: Client, shop: System):
    assert "matches no file" in delivery_of(editor, "sales_*.csv")


def test_a_location_outside_of_the_roots_is_refused(editor: Client, shop: System):
    assert "OUTSIDE_ROOTS" in delivery_of(editor, "/etc/passwd")


def test_the_first_rows_of_a_pattern_are_read(editor: Client, shop: System):
    assert "all 2 rows of orders.csv" in words(import_page(editor, "ord*.csv"))


def upload(client: Client, name: str, content: bytes = b"id\n1\n"):
    return client.post("/systems/shop/upload/", {"file": SimpleUploadedFile(name, content)})


def test_an_uploaded_file_is_stored_and_logged(editor: Client, shop: System, landing: Path):
    assert upload(editor, "new.csv").url == "/systems/shop/import/?location=new.csv"
    assert (landing / "new.csv").read_bytes() == b"id\n1\n"
    entry = ChangeLogEntry.objects.get(action="uploaded")
    assert (entry.subject_key, '"new.csv"' in entry.changes) == ("shop", True)


def test_the_first_upload_creates_the_systems_folder(editor: Client, shop: System, landing: Path):
    shutil.rmtree(landing)
    upload(editor, "new.csv")
    assert (landing / "new.csv").read_bytes() == b"id\n1\n"


def test_upload_over_an_existing_file_is_refused(editor: Client, shop: System, landing: Path):
    answer = upload(editor, "orders.csv")
    assert answer.status_code == 422
    assert "has a file orders.csv already" in words(html_of(answer))
    assert (landing / "orders.csv").read_text() == ORDERS


@pytest.mark.parametrize("name", [".hidden.csv", "_part.csv", "program.exe"])
def test_a_file_that_no_load_would_read_is_refused(editor: Client, shop: System, landing: Path, name: str):
    assert upload(editor, name).status_code == 422
    assert [path.name for path in landing.iterdir()] == ["orders.csv"]


def test_upload_beyond_the_size_limit_is_refused_without_a_file(editor: Client, shop: System, landing: Path, settings):
    settings.BATCH_MAX_BYTES = 10
    assert upload(editor, "new.csv", b"id\n" * 100).status_code == 413
    assert [path.name for path in landing.iterdir()] == ["orders.csv"]


# --- columns, load type, summary -----------------------------------------------------------------


def test_chosen_columns_are_kept_as_a_draft_without_creating_a_source(editor: Client, shop: System):
    answer = choose_columns(editor, import_page(editor), c0__target_name="order_number")
    assert answer.url == "/systems/shop/import/load-type/?location=orders.csv"
    again = read(editor, "/systems/shop/import/?location=orders.csv&draft=1")
    assert 'value="order_number"' in again
    assert not SourceDataset.objects.exists()


def test_load_type_step_links_back_to_the_chosen_columns(editor: Client, shop: System):
    load_type = choose_columns(editor, import_page(editor), c0__target_name="order_number").url
    assert "/systems/shop/import/?location=orders.csv&amp;draft=1" in read(editor, load_type)


def test_sampled_values_are_not_stored_in_the_session(editor: Client, shop: System):
    choose_columns(editor, import_page(editor))
    assert "12.50" not in str(dict(editor.session))


@pytest.mark.parametrize("step", ["load-type", "summary"])
def test_step_without_columns_redirects_to_the_columns(editor: Client, shop: System, step: str):
    answer = editor.get(f"/systems/shop/import/{step}/", {"location": "orders.csv"})
    assert answer.url == "/systems/shop/import/?location=orders.csv"


def test_summary_without_a_load_type_redirects_to_the_load_type(editor: Client, shop: System):
    choose_columns(editor, import_page(editor))
    answer = editor.get("/systems/shop/import/summary/", {"location": "orders.csv"})
    assert answer.url == "/systems/shop/import/load-type/?location=orders.csv"


def test_summary_redirects_to_the_load_type_if_it_no_longer_fits_the_columns(
    editor: Client, shop: System, landing: Path
):
    (landing / "feed.csv").write_text(CDC)
    summary = summary_of(editor, "feed.csv", input="cdc", time="changed", op="op")
    choose_columns(editor, import_page(editor, "feed.csv"), c3__take=None)
    for answer in (editor.get(summary), editor.post(summary)):
        assert answer.url == "/systems/shop/import/load-type/?location=feed.csv"
    assert not SourceDataset.objects.exists()


def test_existing_name_is_refused_at_its_field(editor: Client, shop: System):
    create_source_dataset(system=shop, name="orders", location="other.csv")
    answer = choose_columns(editor, import_page(editor))
    page = html_of(answer)
    assert answer.status_code == 422
    assert 'id="id_name_error"' in page


def test_a_name_that_was_taken_meanwhile_is_refused_by_the_last_step(editor: Client, shop: System):
    summary = summary_of(editor)
    create_source_dataset(system=shop, name="orders", location="other.csv")
    answer = editor.post(summary)
    assert answer.status_code == 422
    assert "Nothing was created" in html_of(answer)
    assert not TargetDataset.objects.exists()


def test_a_load_type_without_its_column_is_refused_at_its_field(editor: Client, shop: System, landing: Path):
    (landing / "feed.csv").write_text(CDC)
    columns = choose_columns(editor, import_page(editor, "feed.csv"))
    answer = choose_load_type(editor, columns.url, input="cdc")
    assert answer.status_code == 422
    assert "Must name a column" in words(html_of(answer))


def test_created_source_has_the_chosen_load_type(editor: Client, shop: System, landing: Path):
    (landing / "feed.csv").write_text(CDC)
    editor.post(summary_of(editor, "feed.csv", input="cdc", time="changed", op="op"))
    source = SourceDataset.objects.get()
    assert source.history_policy == {"input": "cdc", "time": "changed", "op": "op"}
    assert source.historize


@pytest.mark.parametrize(
    ("load_type", "label", "layers"),
    [({}, "Append.", {"raw", "stage", "rawcore"}), ({"input": "snapshot"}, "Full.", {"raw", "stage"})],
)
def test_source_without_a_key_is_appended_unless_snapshots_are_chosen(
    editor: Client, shop: System, landing: Path, load_type: dict[str, str], label: str, layers: set[str]
):
    (landing / "events.csv").write_text("kind\na\na\n")
    columns = choose_columns(editor, import_page(editor, "events.csv"))
    assert "No business key: rows are added to rawcore" in words(read(editor, columns.url))
    summary = choose_load_type(editor, columns.url, **load_type).url
    assert label in words(read(editor, summary))
    editor.post(summary)
    source = SourceDataset.objects.get()
    assert not source.historize
    assert {dataset.schema.layer for dataset in source.generated.all()} == layers


def orders_of_a_database(editor: Client) -> str:
    """Return the address of the step of load types of a database table with a key and a time of changes."""
    System.objects.update(kind="jdbc", location="postgresql://reader@db.example.org/erp")
    types = {"id": DataType(BIGINT), "name": DataType(STRING), "changed_at": DataType(TIMESTAMP)}
    lines = [Line(NEW, name, type_, True, sampled=SampledColumn(name, type_, "")) for name, type_ in types.items()]
    sent = {"name": "orders", "short_name": "orders", "location": "shop.orders", "format": "table"}
    sent |= {"lines": lines_as_text(lines), "c0-key_ordinal": "1"}
    for place, type_ in enumerate(types.values()):
        sent |= {f"c{place}-take": "on", f"c{place}-type": str(type_)}
    return editor.post("/systems/shop/import/", sent | {"options": "{}"}).url


def test_table_of_a_database_is_read_from_a_watermark_on_if_it_is_chosen(editor: Client, shop: System):
    step = orders_of_a_database(editor)
    page = words(read(editor, step))
    assert "All rows, at each load Only new and changed rows, by changed_at Only new and changed rows, by id" in page
    summary = choose_load_type(editor, step, watermark="changed_at").url
    assert "Rows to read Only new and changed rows, by changed_at" in words(read(editor, summary))
    editor.post(summary, {"create_only": "yes"})
    source = SourceDataset.objects.get()
    assert source.intake == {"watermark": ["changed_at"]}
    assert source.history_policy == {"input": "delta", "delete_detection": "key_list"}


def test_rows_that_are_appended_are_not_read_from_a_watermark_on(editor: Client, shop: System):
    answer = choose_load_type(editor, orders_of_a_database(editor), input="append", watermark="changed_at")
    assert answer.status_code == 422
    assert "append would add rows that are read again" in words(html_of(answer))


def test_files_are_not_offered_a_watermark(editor: Client, shop: System):
    assert "Only new and changed rows" not in read(editor, choose_columns(editor, import_page(editor)).url)


def test_debezium_topic_without_a_key_is_appended(editor: Client, shop: System):
    """Check that the delivery type of change events, which needs a key, is not proposed without one."""
    System.objects.update(kind="kafka", location="kafka://broker.example.org")
    columns = {"name": DataType(STRING), "_op": DataType(STRING), "_sequence": DataType(BIGINT)}
    lines = [Line(NEW, name, type_, True, sampled=SampledColumn(name, type_, "")) for name, type_ in columns.items()]
    sent = {
        "name": "events",
        "short_name": "events",
        "location": "events",
        "format": "kafka",
        "lines": lines_as_text(lines),
    }
    for place, type_ in enumerate(columns.values()):
        sent |= {f"c{place}-take": "on", f"c{place}-type": str(type_)}
    answer = editor.post("/systems/shop/import/", sent | {"options": json.dumps({"envelope": "debezium"})})
    editor.post(choose_load_type(editor, answer.url).url)
    source = SourceDataset.objects.get()
    assert (source.history_policy, source.historize) == ({"input": "append"}, False)


def test_an_append_with_a_key_keeps_no_history(editor: Client, shop: System):
    """Check that choices that do not apply to added rows are left out, not refused."""
    summary = summary_of(editor, input="append", time="ordered at", historize="on")
    assert "Append." in words(read(editor, summary))
    editor.post(summary)
    source = SourceDataset.objects.get()
    assert (source.history_policy, source.historize) == ({"input": "append"}, False)


def test_a_draft_has_no_csrf_token(editor: Client, shop: System):
    summary_of(editor)
    assert "csrfmiddlewaretoken" not in str(dict(editor.session))


def test_default_load_type_skips_to_the_summary(editor: Client, shop: System):
    columns = choose_columns(editor, import_page(editor, "orders.csv"), summary="yes")
    assert columns.url == "/systems/shop/import/summary/?location=orders.csv"
    assert "SCD 2. Every version of a row is kept in a history" in words(read(editor, columns.url))


def test_summary_lists_the_created_objects(editor: Client, shop: System):
    text = words(read(editor, summary_of(editor)))
    history = "SCD 2. Every version of a row is kept in a history"
    for expected in ("Full snapshots", history, "rawcore.rc_shop_orders_hist", "order_no string"):
        assert expected in text


# --- creating and loading ------------------------------------------------------------------------


def test_creating_makes_source_and_targets_and_starts_the_load_of_rawcore(operator: Client, shop: System):
    answer = operator.post(summary_of(operator))
    source, run = SourceDataset.objects.get(), LoadRun.objects.get()
    assert answer.url == f"/sources/{source.key}/first-load/{run.run_id}/"
    assert run.scope == {"kind": "dataset", "name": "rawcore.rc_shop_orders", "target_only": False}
    assert source.generated.count() == 4


def test_editor_without_the_permission_to_start_loads_creates_the_source_only(editor: Client, shop: System):
    summary = summary_of(editor)
    assert "Create and load" not in read(editor, summary)
    assert editor.post(summary).url == f"/sources/{SourceDataset.objects.get().key}/first-load/"
    assert not LoadRun.objects.exists()


def test_editor_without_the_permission_to_start_loads_gets_a_text_for_operators(
    operator: Client, editor: Client, shop: System
):
    page = words(read(editor, editor.post(summary_of(editor)).url))
    assert "nothing is loaded yet" in page
    assert " shop.orders and its targets are created. Please start the first load of rawcore.rc_shop_orders." in page


def test_the_first_rows_are_shown_once_another_user_has_loaded(editor: Client, shop: System):
    address = editor.post(summary_of(editor)).url
    assert editor.get(address, headers={"HX-Request": "true"}).status_code == 204
    run = LoadRunFactory(status="succeeded")
    DatasetRunFactory(run=run, dataset=TargetDataset.objects.get(name="rc_shop_orders"), counts={"rows": 2})
    assert "First rows" in read(editor, address)


def test_second_submission_of_the_summary_creates_no_second_source(operator: Client, shop: System):
    summary = summary_of(operator)
    operator.post(summary)
    assert operator.post(summary).url == "/systems/shop/import/?location=orders.csv"
    assert SourceDataset.objects.count() == 1


def test_viewer_is_refused_at_each_step(viewer: Client, shop: System):
    steps = ("/add-source/", "/add-source/files/", "/systems/shop/discover/", "/systems/shop/import/load-type/")
    assert [viewer.get(step).status_code for step in steps] == [403] * len(steps)


@pytest.fixture
def first_load(operator: Client, shop: System) -> str:
    """Return the address of the page of a first load that was just requested."""
    return operator.post(summary_of(operator)).url


def test_first_load_page_polls_while_the_run_is_queued(operator: Client, first_load: str):
    page = read(operator, first_load)
    assert 'hx-trigger="every 1s"' in page
    assert "queued" in page


def test_finished_first_load_requests_its_first_rows_and_links_its_results(operator: Client, first_load: str):
    run, dataset = LoadRun.objects.get(), TargetDataset.objects.get(name="rc_shop_orders")
    LoadRun.objects.update(status="succeeded")
    DatasetRunFactory(run=run, dataset=dataset, counts={"rows": 2})
    page = read(operator, first_load)
    made = (f"/datasets/{dataset.key}/reads/", f"/datasets/{dataset.history.key}/history/", f"/load-runs/{run}/")
    assert all(address in page for address in made)
    assert 'hx-trigger="every 1s"' not in page


def test_blocked_first_load_links_the_change_report(operator: Client, first_load: str):
    LoadRun.objects.update(status="blocked", error={"code": "BLOCKED", "message": "4 pending changes need a person"})
    assert "/reports/?dataset=rawcore.rc_shop_orders#build" in read(operator, first_load)


def test_failed_first_load_shows_the_error_of_its_dataset(operator: Client, first_load: str):
    LoadRun.objects.update(status="failed", error={"code": "X", "message": "1 dataset failed"})
    raw = TargetDataset.objects.get(name="raw_shop_orders")
    error = {"code": "MISSING_FILE", "message": "orders.csv is not there"}
    DatasetRunFactory(run=LoadRun.objects.get(), dataset=raw, status="failed", counts={}, error=error)
    assert "orders.csv is not there" in read(operator, first_load)
