"""Long work is done before a request's transaction begins: on SQLite that would keep every writer waiting."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from loader.api import batches
from metadata.api.json_body import StrictJson
from metadata.models import TargetDataset
from metadata.services import exchange as files
from tests.api.asking import send

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

SCHEMA = "format: metadata/v1\nschemas:\n- name: mart\n  layer: serving\n"


@pytest.fixture
def in_transaction(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[bool]]:
    """Note of a function's calls whether a transaction was open."""

    def watch(module: Any, name: str) -> list[bool]:
        seen, before = [], getattr(module, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            seen.append(connection.in_atomic_block)
            return before(*args, **kwargs)

        monkeypatch.setattr(module, name, watched)
        return seen

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
    stored = in_transaction(batches, "keep_batch")
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
