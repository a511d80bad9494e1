"""Sample values of load runs, dry runs and sources outside of the data pages, and the permission to see them."""

from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from elevata.accounts.services.users import ensure_user, grant_role
from elevata.audit.models import ChangeLogEntry
from loader.models import DatasetRun, LoadRun
from loader.selectors.readable_windows import with_readable_windows
from metadata.domain.sensitivity import MASK
from metadata.models import SourceColumn, SourceDataset, System, TargetDataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import words
from tests.factories import SourceColumnFactory, SourceDatasetFactory

pytestmark = pytest.mark.django_db
EXAMPLE = "n/a"
CUSTOMER = "Zebedee"


@pytest.fixture
def vera_client(warehouse: TargetDataset) -> Client:
    """Return the client of Vera, who reads the data of another schema than the failed dataset's."""
    vera = ensure_user(name="vera", roles=[])
    grant_role(user=vera, role="viewer", schema="rawcore")
    client = Client()
    client.force_login(vera)
    return client


def test_examples_of_a_failed_load_are_shown_only_with_the_permission_to_read_data(vera_client: Client, reader: Client):
    row = DatasetRun.objects.get(run__run_id="bad", qualified_name__startswith="raw.")
    pages = ("/load-runs/bad/", f"/datasets/{row.dataset_key}/runs/")
    for address in pages:
        assert EXAMPLE in words(html_of(reader.get(address)))
        page = words(html_of(vera_client.get(address)))
        assert EXAMPLE not in page
        assert "to see examples" in page
    datasets = {client: client.get("/api/v1/load-runs/bad/").json()["datasets"] for client in (reader, vera_client)}
    assert any(entry["error"] and EXAMPLE in entry["error"]["samples"] for entry in datasets[reader])
    assert not any(entry["error"] and "samples" in entry["error"] for entry in datasets[vera_client])
    assert any(entry["error"] and entry["error"]["count"] == 3 for entry in datasets[vera_client])


def test_faults_hide_examples_from_a_user_without_the_permission_to_read_data(vera_client: Client, reader: Client):
    row = DatasetRun.objects.get(run__run_id="bad", qualified_name__startswith="raw.")
    fault = {"code": "NULL_KEY", "message": "no key", "column": "icao", "samples": [f"line 3: {CUSTOMER}"]}
    DatasetRun.objects.filter(pk=row.pk).update(faults=fault | {"faults": [fault, fault | {"code": "NULL_VALUE"}]})
    rows = f"/datasets/{row.dataset_key}/rejected/bad/"
    for client, sees in ((reader, True), (vera_client, False)):
        page = html_of(client.get("/load-runs/bad/"))
        assert ("NULL_VALUE" in page, CUSTOMER in page, rows in page) == (True, sees, sees)
        (failed_entry,) = (
            entry for entry in client.get("/api/v1/load-runs/bad/").json()["datasets"] if entry["faults"]
        )
        assert [bool(entry.get("samples")) for entry in failed_entry["faults"]["faults"]] == [sees, sees]


def windows(client: Client) -> tuple[str, dict]:
    """Return the page of the run in words, and the window of its raw dataset by REST."""
    page = words(html_of(client.get("/load-runs/good/")))
    (window,) = (row["window"] for row in client.get("/api/v1/load-runs/good/").json()["datasets"] if row["window"])
    return page, window


def test_watermark_values_are_shown_only_with_the_permission_to_read_data(vera_client: Client, reader: Client):
    window = {"from": {"elevation": "7"}, "to": {"elevation": "9"}, "ahead": {"elevation": 2}}
    DatasetRun.objects.filter(run__run_id="good", kind="raw").update(window=window)
    page, window_text = windows(reader)
    assert "read from elevation 7, up to elevation 9, and 2 rows ahead" in page
    assert (window_text["from"], window_text["to"]) == (window["from"], window["to"])
    page, window_text = windows(vera_client)
    assert "read from elevation hidden, up to elevation hidden, and 2 rows ahead" in page
    assert (window_text["from"], window_text["to"]) == ({"elevation": "hidden"}, {"elevation": "hidden"})


@pytest.mark.parametrize("column", ["elevation", "undescribed"])
def test_watermark_values_of_a_sensitive_or_undescribed_column_are_hidden_from_every_user(
    reader: Client, warehouse: TargetDataset, column: str
):
    rows = DatasetRun.objects.filter(run__run_id="good", kind="raw")
    rows.update(window={"from": None, "to": {column: CUSTOMER}})
    rows.get().dataset.columns.filter(name="elevation").update(pii=True)
    page, window_text = windows(reader)
    assert (f"read whole, up to {column} hidden" in page, CUSTOMER in page) == (True, False)
    assert window_text == {"from": None, "to": {column: "hidden"}}


def test_watermark_values_of_more_datasets_take_no_more_queries(person: User, warehouse: TargetDataset):
    run = LoadRun.objects.select_related("environment").get(run_id="good")

    def count(datasets: list[TargetDataset]) -> int:
        rows = [
            DatasetRun(pk=dataset.pk, dataset=dataset, qualified_name=str(dataset), window={"from": None, "to": {}})
            for dataset in datasets
        ]
        with CaptureQueriesContext(connection) as queries:
            with_readable_windows(run, rows, person)
        return len(queries)

    raw = list(TargetDataset.objects.filter(schema__layer="raw").select_related("schema"))
    assert len(raw) > 1
    count(raw)
    assert count(raw) == count(raw[:1])


def test_refused_data_page_names_the_roles_that_may_read_data(vera_client: Client, warehouse: TargetDataset):
    raw = TargetDataset.objects.filter(schema__layer="raw").first()
    answer = vera_client.get(f"/datasets/{raw.key}/data/")
    assert answer.status_code == 403
    assert f"Data of {raw}: reading data needs the viewer" in words(html_of(answer))
    assert "read_data" not in html_of(answer)


def test_home_page_hides_values_from_a_user_without_the_permission_to_read_data(vera_client: Client, reader: Client):
    DatasetRun.objects.filter(run__run_id="busy").delete()
    message = f"raw.raw_air_airport: the value '{CUSTOMER}' cannot be cast"
    DatasetRun.objects.filter(run__run_id="bad", qualified_name__startswith="raw.").update(
        error={"code": "UNEXPECTED", "message": message}
    )
    assert CUSTOMER in html_of(reader.get("/"))
    page = html_of(vera_client.get("/"))
    assert CUSTOMER not in page
    assert "it failed" in page


@pytest.mark.usefixtures("warehouse")
def test_examples_of_an_earlier_failure_are_withheld_once_the_column_is_classified(reader: Client):
    row = DatasetRun.objects.get(run__run_id="bad", qualified_name__startswith="raw.")
    pages = ("/load-runs/bad/", f"/datasets/{row.dataset_key}/runs/", "/api/v1/load-runs/bad/")
    assert all(EXAMPLE in html_of(reader.get(address)) for address in pages)
    SourceColumn.objects.filter(dataset__name="airport", name="elevation").update(pii=True)
    assert not any(EXAMPLE in html_of(reader.get(address)) for address in pages)


# --- sources -----------------------------------------------------------------------------------


@pytest.fixture
def orders(shop: System, landing: Path) -> SourceDataset:
    """Return a described source whose column ``customer`` is personal."""
    (landing / "orders.csv").write_text(f"order_no,customer\nA1,{CUSTOMER}\nA2,Yolanda\n")
    source = SourceDatasetFactory(system=shop, name="orders", location="orders.csv", format="csv", options={})
    SourceColumnFactory(dataset=source, name="order_no", key_ordinal=1)
    SourceColumnFactory(dataset=source, name="customer", pii=True)
    return source


def samples_of(client: Client, source: SourceDataset) -> list[str]:
    """Return the samples that the comparison and an import of the same file show."""
    again = f"/systems/{source.system.short_name}/import/?location={source.location}&format=csv&show=now"
    answers = [client.get(f"/sources/{source.key}/columns/?show=now"), client.get(again)]
    assert [answer.status_code for answer in answers] == [200, 200]
    return [html_of(answer) for answer in answers]


def test_samples_of_a_personal_source_column_are_masked(editor: Client, orders: SourceDataset):
    for text in samples_of(editor, orders):
        assert CUSTOMER not in text
        assert MASK in text
    assert not ChangeLogEntry.objects.filter(subject_kind="data").exists()


@pytest.mark.parametrize("reading", ["delimiter=|", "delimiter=,&no_header=on"])
def test_samples_of_a_personal_source_are_masked_with_any_reading_option(
    editor: Client, orders: SourceDataset, reading: str
):
    shop = orders.system.short_name
    answer = html_of(editor.get(f"/systems/{shop}/import/?location=orders.csv&format=csv&show=now&{reading}"))
    assert MASK in answer
    assert CUSTOMER not in answer


def test_samples_are_masked_when_a_personal_column_is_renamed(editor: Client, orders: SourceDataset):
    SourceColumn.objects.filter(dataset=orders, name="customer").update(name="client")
    assert not any(CUSTOMER in text for text in samples_of(editor, orders))


def test_a_refusal_to_read_a_personal_source_has_no_examples(editor: Client, orders: SourceDataset, landing: Path):
    (landing / "orders.csv").write_text(f"order_no,customer\n{CUSTOMER}\n")
    for text in samples_of(editor, orders):
        assert "1 field, where the header has 2" in text
        assert f"<code>{CUSTOMER}" not in text


def test_steward_sees_unmasked_samples_and_each_read_is_logged(orders: SourceDataset):
    stella = ensure_user(name="stella", roles=["editor", "steward"])
    client = Client()
    client.force_login(stella)
    assert any(CUSTOMER in text for text in samples_of(client, orders))
    entries = ChangeLogEntry.objects.filter(subject_kind="data")
    assert [(entry.actor, CUSTOMER in entry.changes) for entry in entries] == [("stella", False)] * 2


def test_a_sample_of_a_source_needs_the_permission_to_read_data(orders: SourceDataset, warehouse: TargetDataset):
    mia = ensure_user(name="mia", roles=[])
    grant_role(user=mia, role="editor", schema=warehouse.schema.name)
    client = Client()
    client.force_login(mia)
    assert client.get(f"/sources/{orders.key}/columns/?show=now").status_code == 403
