"""History batches by REST: upload, format detection, storage for a run, refusals."""

import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.files.uploadedfile import SimpleUploadedFile
from django.http import HttpResponse
from django.test import Client
from django.utils import timezone

from loader.models import LoadRun
from loader.services import uploads
from loader.services.uploads import KEPT_FOR, sweep_uploads
from metadata.models import TargetDataset
from tests.loader.services.test_uploads import compress

pytestmark = pytest.mark.django_db

ROWS = b"icao,name,_fivetran_start\nEDDF,Frankfurt,2026-01-01T00:00:00Z\n"


@pytest.fixture(autouse=True)
def landing(settings, tmp_path: Path) -> Path:
    settings.BATCH_FOLDER = str(tmp_path / "batches")
    return tmp_path / "batches"


@pytest.fixture
def batch_airport(airport: TargetDataset) -> TargetDataset:
    """Return the airports dataset with history batch files as its input."""
    policy = {"input": "batch_files", "time": "_fivetran_start", "null_string": "NULL"}
    TargetDataset.objects.filter(pk=airport.pk).update(history_policy=policy)
    airport.refresh_from_db()
    return airport


def file(content: bytes = ROWS, name: str = "upsert.csv") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, content)


def send(client: Client, dataset: TargetDataset, headers: dict | None = None, **fields: Any) -> HttpResponse:
    return client.post("/api/v1/history-batches/", {"dataset": str(dataset.key), **fields}, headers=headers or {})


def stored_files(landing: Path) -> list[Path]:
    return sorted(path for path in landing.rglob("*") if path.is_file()) if landing.exists() else []


def test_history_batch_stores_its_files_and_queues_a_run(operator: Client, batch_airport: TargetDataset, landing: Path):
    answer = send(
        operator, batch_airport, upsert=file(), delete=[file(name="1"), file(name="2")], changelog_message="late"
    )
    assert answer.status_code == 202, answer.content
    run = LoadRun.objects.get()
    assert answer.headers["Location"] == f"http://testserver/api/v1/load-runs/{run.run_id}/"
    assert (run.kind, run.status, run.reason, run.requested_by.username) == ("history_batch", "queued", "late", "eve")
    response = run.details["asked"]
    assert {kind: len(paths) for kind, paths in response["files"].items()} == {"upsert": 1, "delete": 2}
    (path,) = response["files"]["upsert"]
    assert Path(path).read_bytes() == ROWS
    assert (response["format"], response["compression"]) == ("csv", "none")


def test_compression_is_detected_from_the_bytes_of_a_file(operator: Client, batch_airport: TargetDataset):
    assert send(operator, batch_airport, upsert=file(compress(ROWS), "plain.csv")).status_code == 202
    assert LoadRun.objects.get().details["asked"]["compression"] == "zstd"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/cron.d/x", "..", "a\\..\\b.csv", "x" * 300, "nul\x00.csv"])
def test_uploaded_file_name_does_not_choose_the_stored_path(
    operator: Client, batch_airport: TargetDataset, landing: Path, name: str
):
    """Send the file name unchanged in raw multipart text, because a client library would sanitize it."""
    parts = [("dataset", "", str(batch_airport.key)), ("upsert", f'; filename="{name}"', ROWS.decode())]
    body = "".join(f'--b\r\nContent-Disposition: form-data; name="{n}"{f}\r\n\r\n{v}\r\n' for n, f, v in parts)
    operator.post("/api/v1/history-batches/", f"{body}--b--\r\n", content_type="multipart/form-data; boundary=b")
    outside = [path for path in landing.parent.rglob("*") if path.is_file() and landing not in path.parents]
    assert outside == []
    assert {path.name for path in stored_files(landing)} <= {"upsert-0.csv", "batch.json"}


def test_history_batch_sent_twice_under_one_run_id_queues_one_run(
    operator: Client, batch_airport: TargetDataset, landing: Path
):
    first = send(operator, batch_airport, upsert=file(), run_id="b1")
    again = send(operator, batch_airport, upsert=file(name="another-name.csv"), run_id="b1")
    assert (first.status_code, again.status_code) == (202, 202)
    assert LoadRun.objects.count() == 1
    assert len(stored_files(landing)) == 2


def test_another_batch_under_the_same_id_is_refused(operator: Client, batch_airport: TargetDataset, landing: Path):
    send(operator, batch_airport, upsert=file(), run_id="b1")
    other = send(operator, batch_airport, upsert=file(ROWS * 2), run_id="b1")
    assert (other.status_code, other.json()["code"]) == (409, "RUN_ID_TAKEN")
    assert len(stored_files(landing)) == 2


def test_idempotency_key_replays_the_answer_for_the_same_files_only(operator: Client, batch_airport: TargetDataset):
    headers = {"Idempotency-Key": "one"}
    first = send(operator, batch_airport, headers, upsert=file())
    again = send(operator, batch_airport, headers, upsert=file())
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["run_id"] == first.json()["run_id"]
    assert send(operator, batch_airport, headers, upsert=file(ROWS * 2)).status_code == 422


# --- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "status", "code"),
    [
        ({}, 422, "NO_FILES"),
        ({"upsert": (b"PK\x03\x04",)}, 422, "NOT_A_BATCH_FILE"),
        ({"upsert": (b"",)}, 422, "NOT_A_BATCH_FILE"),
        ({"upsert": (ROWS,), "delete": (compress(ROWS),)}, 422, "MIXED_FILES"),
        ({"insert": (ROWS,)}, 400, "invalid"),
        ({"upsert": "no file"}, 400, "invalid"),
        ({"upsert": (ROWS,), "run_id": "../x"}, 400, "invalid"),
    ],
)
def test_invalid_history_batch_is_refused_and_stores_no_file(
    operator: Client, batch_airport: TargetDataset, landing: Path, fields: dict, status: int, code: str
):
    sent = {name: file(value[0]) if isinstance(value, tuple) else value for name, value in fields.items()}
    refused = send(operator, batch_airport, **sent)
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert stored_files(landing) == []
    assert not LoadRun.objects.exists()


def test_batch_file_too_large_after_decompression_is_refused(
    operator: Client, batch_airport: TargetDataset, settings, landing: Path
):
    settings.BATCH_MAX_UNPACKED_BYTES = 1000
    refused = send(operator, batch_airport, upsert=file(compress(b"0" * 5000)))
    assert (refused.status_code, refused.json()["code"]) == (413, "TOO_LARGE_UNPACKED")
    assert stored_files(landing) == []


def test_a_request_that_is_too_large_is_refused_unread(operator: Client, batch_airport: TargetDataset, settings):
    settings.BATCH_MAX_BYTES = 100
    assert send(operator, batch_airport, upsert=file()).status_code == 413


def test_history_batch_is_refused_when_too_many_are_queued(
    operator: Client, batch_airport: TargetDataset, landing: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(uploads, "MOST_BATCHES", 1)
    assert send(operator, batch_airport, upsert=file()).status_code == 202
    refused = send(operator, batch_airport, upsert=file())
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (
        429,
        "TOO_MANY_BATCHES",
        "2",
    )
    assert len(stored_files(landing)) == 2


def test_history_batch_is_refused_for_a_dataset_without_batch_file_input(
    operator: Client, airport: TargetDataset, landing: Path
):
    refused = send(operator, airport, upsert=file())
    assert (refused.status_code, refused.json()["code"]) == (422, "NOT_BY_BATCH_FILES")
    assert stored_files(landing) == []


def test_history_batch_requires_the_permission_to_start_loads(
    reader: Client, batch_airport: TargetDataset, person: User, landing: Path
):
    assert send(reader, batch_airport, upsert=file()).status_code == 403
    assert stored_files(landing) == []


# --- deletion ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "ago", "remaining"),
    [
        ("queued", timedelta(0), 2),
        ("succeeded", timedelta(0), 0),
        ("failed", timedelta(0), 2),
        ("failed", KEPT_FOR + timedelta(days=1), 0),
    ],
)
def test_sweep_deletes_batch_files_that_their_run_no_longer_needs(
    operator: Client, batch_airport: TargetDataset, landing: Path, status: str, ago: timedelta, remaining: int
):
    send(operator, batch_airport, upsert=file())
    finished = None if status == "queued" else timezone.now() - ago
    LoadRun.objects.update(status=status, finished_at=finished)
    sweep_uploads()
    assert len(stored_files(landing)) == remaining


def test_sweep_deletes_incomplete_uploads_once_they_are_old(landing: Path):
    half = landing / ".half"
    half.mkdir(parents=True)
    (half / "upsert-0").write_bytes(b"x")
    assert sweep_uploads() == 0
    os.utime(half, (time.time() - 7200,) * 2)
    assert sweep_uploads() == 1
