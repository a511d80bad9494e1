"""Parsing and writing of files outside of transactions, which would block all writers on SQLite."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from elevata.api.parsers import StrictJson
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError
from loader.api import maintenance
from metadata.models import TargetDataset
from metadata.services.exchange import metadata_files as files
from tests.elevata.api.requests import send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

SCHEMA = "format: metadata/v1\nschemas:\n- name: mart\n  layer: serving\n"


@pytest.fixture
def in_transaction(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[bool]]:
    """Return a function that records for each call of a function whether a transaction was open."""

    def watch(module: Any, name: str) -> list[bool]:
        states, original = [], getattr(module, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            states.append(connection.in_atomic_block)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, watched)
        return states

    return watch


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}], ids=["plain", "keyed"])
@pytest.mark.parametrize("check", [True, False], ids=["check", "import"])
def test_yaml_is_parsed_before_the_transaction(operator: Client, in_transaction, headers: dict, check: bool):
    parsed = in_transaction(files, "parse_yaml")
    body = {"files": [{"name": "a.yaml", "content": SCHEMA}], "check": check}
    assert send(operator, "post", "metadata/import/", body, **headers).status_code == 200
    assert parsed == [False]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}], ids=["plain", "keyed"])
def test_json_is_parsed_before_the_transaction(operator: Client, in_transaction, headers: dict):
    parsed = in_transaction(StrictJson, "parse")
    assert send(operator, "post", "schemas/", {"name": "mart", "layer": "serving"}, **headers).status_code == 201
    assert parsed == [False]


@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "k1"}], ids=["plain", "keyed"])
def test_files_of_a_batch_are_stored_before_the_transaction(
    operator: Client, airport: Any, settings: Any, tmp_path: Path, in_transaction, headers: dict
):
    settings.BATCH_FOLDER = str(tmp_path)
    policy = {"input": "batch_files", "time": "_fivetran_start", "null_string": "NULL"}
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy=policy)
    stored = in_transaction(maintenance, "keep_batch")
    fields = {"dataset": str(airport.key), "upsert": io.BytesIO(b"icao,name\nEDDF,Frankfurt\n")}
    assert operator.post("/api/v1/history-batches/", fields, headers=headers).status_code == 202
    assert stored == [False]


def test_yaml_is_written_after_the_transaction(operator: Client, airport: Any, in_transaction):
    written = in_transaction(files, "dump_yaml")
    assert operator.get("/api/v1/metadata/export/").status_code == 200
    assert written
    assert not any(written)


def test_an_export_reads_in_a_transaction_that_takes_no_write_lock():
    with CaptureQueriesContext(connection) as captured:
        files.exported_files()
    begins = [query["sql"] for query in captured if query["sql"].startswith(("BEGIN", "SET TRANSACTION"))]
    reading = {"sqlite": "BEGIN DEFERRED", "postgresql": "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"}
    assert reading[connection.vendor] in begins
    assert "BEGIN IMMEDIATE" not in begins


def test_a_large_import_does_not_ask_the_database_for_every_column():
    """Check that an import with three hundred more columns needs no more queries than there are batches of rows."""

    def queries(name: str, columns: int) -> int:
        rows = "".join(f"  - name: c{at}\n    type: string\n" for at in range(columns))
        text = f"format: metadata/v1\ndataset:\n  schema: mart\n  name: {name}\n  columns:\n{rows}"
        with CaptureQueriesContext(connection) as captured:
            files.import_records(files.read_files({"a.yaml": SCHEMA, "b.yaml": text}))
        return len(captured)

    queries("first", 1)
    assert queries("wide", 310) - queries("narrow", 10) < 30


def test_import_refuses_a_duplicate_business_key_position_with_its_line():
    text = (
        "format: metadata/v1\ndataset:\n  schema: mart\n  name: sales\n  columns:\n"
        "  - name: a\n    type: string\n    business_key: 1\n  - name: b\n    type: string\n    business_key: 1\n"
    )
    with pytest.raises(MetadataError) as refused:
        files.import_records(files.read_files({"a.yaml": SCHEMA, "b.yaml": text}))
    assert (refused.value.code, refused.value.place) == ("invalid", "b.yaml:9:5")
    assert not TargetDataset.objects.exists()


def test_import_gives_a_dataset_another_key_if_its_derived_key_is_taken():
    text = "format: metadata/v1\ndataset:\n  schema: mart\n  name: {}\n  columns:\n  - name: a\n    type: string\n"
    files.import_records(files.read_files({"a.yaml": SCHEMA, "b.yaml": text.format("sales")}))
    key = TargetDataset.objects.get().key
    TargetDataset.objects.update(name="moved")
    files.import_records(files.read_files({"b.yaml": text.format("sales")}))
    assert TargetDataset.objects.get(name="sales").key != key
    assert ChangeLogEntry.objects.filter(subject_kind="dataset", subject_name="mart.sales").count() == 2
