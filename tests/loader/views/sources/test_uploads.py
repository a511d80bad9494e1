"""Upload of a source's next delivery: stored, compared with the contract, loaded, and logged."""

import json
import os
from pathlib import Path

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from loader.models import LoadRun
from metadata.domain.scope import DATASET, Scope
from metadata.models import SourceDataset, System, TargetDataset
from tests.elevata.web.forms import words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read, section
from tests.loader.factories import REFUSAL, DatasetRunFactory, LoadRunFactory
from tests.loader.views.sources.shop import ORDERS, imported

pytestmark = pytest.mark.django_db

NEXT = ORDERS + "A3,9,1.00,2024-01-03\n"
FEED = {"input": "append", "deletes": "ignore"}


@pytest.fixture
def orders(editor: Client, shop: System) -> SourceDataset:
    """Return the orders of the shop with their targets, not loaded yet."""
    return imported(editor)


def upload(
    client: Client, source: SourceDataset, content: str, name: str = "orders.csv", **fields: str
) -> HttpResponse:
    file = SimpleUploadedFile(name, content.encode())
    return client.post(f"/sources/{source.key}/upload/", {"file": file, **fields})


def test_the_next_delivery_replaces_the_file_and_is_shown_before_its_load(
    operator: Client, orders: SourceDataset, landing: Path
):
    page = read(operator, upload(operator, orders, NEXT).url)
    assert (landing / "orders.csv").read_text() == NEXT
    assert [path.name for path in landing.iterdir()] == ["orders.csv"]
    assert "Rows 3 Missing columns none New columns none" in words(section(page, "file-head"))
    loading = operator.post(f"/sources/{orders.key}/load/").url
    run = LoadRun.objects.get()
    assert Scope.from_json(run.scope) == Scope(DATASET, "rawcore.rc_shop_orders")
    assert loading == f"/sources/{orders.key}/first-load/{run.run_id}/"


def test_the_change_log_identifies_the_file_before_and_after(editor: Client, orders: SourceDataset):
    upload(editor, orders, NEXT, "orders (1).csv")
    entry = ChangeLogEntry.objects.get(action="uploaded")
    fields = json.loads(entry.changes)
    assert (entry.actor, entry.dataset_key) == ("mia", orders.key)
    assert fields["bytes"] == {"before": len(ORDERS), "after": len(NEXT)}
    assert fields["sha256"].keys() == {"before", "after"}
    assert fields["uploaded_as"] == {"after": "orders (1).csv"}
    assert "orders (1).csv" in section(read(editor, f"/sources/{orders.key}/upload/"), "uploads-head")


def test_an_upload_is_in_the_change_log_before_its_file_is_in_place(
    editor: Client, orders: SourceDataset, landing: Path, monkeypatch: pytest.MonkeyPatch
):
    def refused(path: Path, target: Path) -> None:
        assert ChangeLogEntry.objects.filter(action="uploaded").count() == 1
        raise OSError(5, "refused by the test")

    partial_file = landing / ".upload-00ff"
    partial_file.mkdir()
    os.utime(partial_file, (0, 0))
    monkeypatch.setattr(Path, "replace", refused)
    assert "NOT_WRITTEN" in html_of(upload(editor, orders, NEXT))
    assert (landing / "orders.csv").read_text() == ORDERS
    assert [path.name for path in landing.iterdir()] == ["orders.csv"]
    assert set(ChangeLogEntry.objects.filter(dataset_key=orders.key).values_list("action", flat=True)) >= {
        "uploaded",
        "upload_failed",
    }


def test_a_new_column_is_named_and_the_file_stored(editor: Client, orders: SourceDataset):
    page = read(
        editor,
        upload(
            editor, orders, ORDERS.replace("amount", "colour,amount", 1).replace(",7,", ",7,a,").replace(",8,", ",8,b,")
        ).url,
    )
    assert "New columns colour" in words(section(page, "file-head"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("Order No,customer\nA1,7\n", "lacks 2 columns of the contract: amount, ordered at"),
        ("Order No,customer,amount,ordered at\nA1,7\n", "RAGGED_ROW"),
        (NEXT + "A4,9,much,2024-01-03\n", "1 value in amount not fitting decimal(18,2), first in record 4"),
        (NEXT + ",9,1.00,2024-01-03\n", "NULL_KEY"),
        (NEXT + "A3,9,2.00,2024-01-03\n", "1 key with rows that differ, first in the records 3 and 4"),
    ],
)
def test_a_file_that_a_load_would_refuse_is_stored_only_if_the_user_insists(
    editor: Client, orders: SourceDataset, landing: Path, content: str, reason: str
):
    answer = upload(editor, orders, content)
    assert answer.status_code == 422
    assert reason in words(html_of(answer))
    assert (landing / "orders.csv").read_text() == ORDERS
    assert upload(editor, orders, content, as_it_is="on").status_code == 302
    assert (landing / "orders.csv").read_text() == content


def test_upload_accepts_faulty_rows_where_they_are_quarantined(editor: Client, orders: SourceDataset):
    SourceDataset.objects.update(options={"faulty_rows": "quarantine"})
    assert upload(editor, orders, ORDERS + "A3,9\n").status_code == 302
    assert upload(editor, orders, ORDERS + "A3,9,much,2024-01-03\n,9,1.00,2024-01-03\n").status_code == 302


def test_upload_refuses_an_empty_file_although_faulty_rows_are_quarantined(
    editor: Client, orders: SourceDataset, landing: Path
):
    SourceDataset.objects.update(options={"faulty_rows": "quarantine"})
    assert upload(editor, orders, "").status_code == 422
    assert (landing / "orders.csv").read_text() == ORDERS


def test_identical_rows_of_a_key_are_stored(editor: Client, orders: SourceDataset):
    assert upload(editor, orders, NEXT + "A3,9,1.0,2024-01-03\n").status_code == 302


def test_upload_that_matches_the_pattern_is_added_to_the_other_files(
    editor: Client, orders: SourceDataset, landing: Path
):
    SourceDataset.objects.update(location="ord*.csv")
    assert upload(editor, orders, NEXT, "orders_2.csv").status_code == 302
    assert {path.name for path in landing.iterdir()} == {"orders.csv", "orders_2.csv"}
    assert "does not match ord*.csv" in words(html_of(upload(editor, orders, NEXT, "customers.csv")))


def test_a_loaded_file_of_a_feed_is_not_replaced(editor: Client, orders: SourceDataset, landing: Path):
    SourceDataset.objects.update(location="ord*.csv")
    TargetDataset.objects.filter(name="rc_shop_orders").update(historize=False, history_policy=FEED)
    os.utime(landing / "orders.csv", (0, 0))
    assert upload(editor, orders, ORDERS).status_code == 302
    os.utime(landing / "orders.csv", (0, 0))
    raw = TargetDataset.objects.get(name="raw_shop_orders")
    DatasetRunFactory(run=LoadRunFactory(status="succeeded"), dataset=raw, kind="raw", status="succeeded")
    assert "LOADED_ALREADY" in html_of(upload(editor, orders, NEXT))
    SourceDataset.objects.update(options={"changed_files": "reload"})
    assert upload(editor, orders, NEXT).status_code == 302


def test_a_file_is_not_replaced_while_a_load_reads_it(editor: Client, orders: SourceDataset, landing: Path):
    raw = TargetDataset.objects.get(name="raw_shop_orders")
    DatasetRunFactory(run=LoadRunFactory(status="running"), dataset=raw, kind="raw", status="running")
    assert "BEING_READ" in html_of(upload(editor, orders, NEXT))
    assert (landing / "orders.csv").read_text() == ORDERS


def test_a_source_without_files_has_no_upload(editor: Client, orders: SourceDataset):
    System.objects.update(kind="jdbc")
    assert editor.get(f"/sources/{orders.key}/upload/").status_code == 404


def test_a_failed_first_load_can_be_repeated_with_a_corrected_file(operator: Client, orders: SourceDataset):
    first = operator.post(f"/sources/{orders.key}/load/").url
    LoadRun.objects.update(status="failed", error={"code": "X", "message": "1 dataset failed"})
    raw = TargetDataset.objects.get(name="raw_shop_orders")
    DatasetRunFactory(run=LoadRun.objects.get(), dataset=raw, kind="raw", status="failed", counts={}, error=REFUSAL)
    page = read(operator, first)
    assert "First load of orders" in words(page)
    assert "Load again Upload corrected file" in words(page)
    assert f'action="/sources/{orders.key}/load/"' in read(operator, f"/sources/{orders.key}/")
    assert operator.post(f"/sources/{orders.key}/load/").url != first
    assert LoadRun.objects.count() == 2


def test_run_page_offers_to_load_the_rest_after_faulty_rows(operator: Client, viewer: Client, orders: SourceDataset):
    raw = TargetDataset.objects.get(name="raw_shop_orders")
    error = REFUSAL | {"faults": [{"code": "NULL_KEY", "count": 1, "message": "1 row has no key"}]}
    run = LoadRunFactory(status="failed")
    DatasetRunFactory(run=run, dataset=raw, kind="raw", status="failed", counts={}, error=error)
    page = read(operator, f"/load-runs/{run.run_id}/")
    assert "Correct the file and load again, or load the rest, with Faulty rows of" in words(page)
    address = f"/sources/{orders.key}/load-rest/"
    assert address in page
    assert address not in read(viewer, f"/load-runs/{run.run_id}/")
    SourceDataset.objects.update(options={"faulty_rows": "quarantine"})
    assert "load the rest" not in read(operator, f"/load-runs/{run.run_id}/")
