"""Maintenance runs and history checks by REST: requester, reason, refusals, repetition."""

from typing import Any

import pytest
from django.test import Client

from loader.models import LoadRun, ReadRequest
from metadata.models import TargetDataset
from tests.loader.factories import DatasetRunFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


def post(client: Client, path: str, headers: dict | None = None, **body: Any) -> Any:
    return client.post(f"/api/v1/{path}/", body, content_type="application/json", headers=headers or {})


@pytest.fixture
def applied_run(airport: TargetDataset) -> LoadRun:
    """Return a run that is applied to the airports' history."""
    run = LoadRunFactory(run_id="r1")
    DatasetRunFactory(run=run, dataset=airport, sequence=1)
    return run


def test_revert_queues_a_maintenance_run_with_its_reason(
    operator: Client, airport: TargetDataset, applied_run: LoadRun
):
    body = {"dataset": str(airport.key), "of_run": "r1", "changelog_message": "test data"}
    made = post(operator, "history-reverts", **body)
    assert made.status_code == 202, made.content
    run = LoadRun.objects.get(kind="revert")
    assert made.headers["Location"] == f"http://testserver/api/v1/load-runs/{run.run_id}/"
    assert (run.details["asked"], run.reason, run.requested_by.username) == ({"run_id": "r1"}, "test data", "eve")


def test_revert_without_a_reason_or_a_known_run_is_refused(operator: Client, airport: TargetDataset, applied_run: Any):
    body = {"dataset": str(airport.key), "of_run": "r1"}
    assert post(operator, "history-reverts", **body).status_code == 400  # no reason
    refused = post(operator, "history-reverts", **body | {"of_run": "r9"}, changelog_message="x")
    assert (refused.status_code, refused.json()["code"]) == (422, "UNKNOWN_RUN")
    assert not LoadRun.objects.exclude(run_id="r1").exists()


def test_prune_archives_rows_in_the_warehouse_unless_archive_is_false(
    operator: Client, airport: TargetDataset, settings
):
    body = {"dataset": str(airport.key), "ended_before": "2024-01-31", "changelog_message": "old"}
    assert post(operator, "history-prunes", **body).status_code == 202
    assert post(operator, "history-prunes", **body, archive=False).status_code == 202
    with_archive, without_archive = (run.details["asked"] for run in LoadRun.objects.order_by("pk"))
    assert with_archive["archive"] == f"{settings.WAREHOUSE}/.archive/{airport.history.key}"
    assert (with_archive["ended_before"], without_archive["archive"]) == ("2024-01-31T00:00:00+00:00", None)
    response = post(operator, "history-prunes", **body, older_than_days=3)
    assert (response.status_code, response.json()["code"]) == (422, "NO_DATE")


def test_prune_repeated_with_one_idempotency_key_queues_one_run(operator: Client, airport: TargetDataset):
    body = {"dataset": str(airport.key), "older_than_days": 3, "changelog_message": "old"}
    headers = {"Idempotency-Key": "one"}
    first, second = (post(operator, "history-prunes", headers, **body) for _ in range(2))
    assert (first.status_code, second.status_code, first.json()) == (202, 202, second.json())
    assert LoadRun.objects.count() == 1


def test_a_table_is_accepted_with_a_reason(operator: Client, airport: TargetDataset):
    body = {"dataset": str(airport.key), "changelog_message": "restored from the backup"}
    made = post(operator, "table-acceptances", **body)
    assert (made.status_code, made.json()["kind"]) == (202, "accept"), made.content
    run = LoadRun.objects.get()
    assert (run.scope["name"], run.reason) == (str(airport), "restored from the backup")
    assert post(operator, "table-acceptances", dataset=body["dataset"]).status_code == 400
    raw = TargetDataset.objects.filter(schema__layer="stage").first()
    refused = post(operator, "table-acceptances", **body | {"dataset": str(raw.key)})
    assert (refused.status_code, refused.json()["code"]) == (422, "NOT_LOADED")


def test_history_check_is_queued_and_returns_its_findings(operator: Client, reader: Client, airport: TargetDataset):
    made = post(operator, "history-checks", dataset=str(airport.key), samples=2)
    assert (made.status_code, made.json()["status"], made.json()["answer"]) == (202, "queued", None)
    read = ReadRequest.objects.get()
    assert (read.kind, read.arguments) == ("check", {"samples": 2})
    finding = {"code": "OVERLAP", "message": "versions overlap", "count": 1, "samples": [{"key": {"icao": "EDDF"}}]}
    ReadRequest.objects.update(
        status="succeeded", answer={"versions": 7, "findings": [finding], "rawcore_behind": False}
    )
    where = made.headers["Location"].removeprefix("http://testserver")
    answer = operator.get(where).json()["answer"]
    assert answer == {"versions": 7, "findings": [finding], "rawcore_behind": False}
    assert reader.get(where).status_code == 404


def test_history_check_of_a_dataset_without_history_is_refused(operator: Client, airport: TargetDataset):
    raw = TargetDataset.objects.filter(schema__layer="raw").first()
    refused = post(operator, "history-checks", dataset=str(raw.key))
    assert (refused.status_code, refused.json()["code"]) == (422, "NO_HISTORY")


def test_reader_may_check_a_history_but_not_change_it(reader: Client, airport: TargetDataset, applied_run: LoadRun):
    body = {"dataset": str(airport.key), "changelog_message": "x"}
    assert post(reader, "history-reverts", **body, of_run="r1").status_code == 403
    assert post(reader, "history-prunes", **body, older_than_days=1).status_code == 403
    assert post(reader, "table-acceptances", **body).status_code == 403
    assert post(reader, "history-checks", dataset=str(airport.key)).status_code == 202


def test_vacuum_queues_a_run_with_a_default_retention_of_one_week(operator: Client, airport: TargetDataset):
    body = {"dataset": str(airport.key), "changelog_message": "full"}
    made = post(operator, "vacuums", **body, dry_run=True)
    assert made.status_code == 202, made.content
    run = LoadRun.objects.get(kind="vacuum")
    assert (run.details["asked"], run.reason) == ({"retention_hours": 168, "dry_run": True}, "full")
    assert post(operator, "vacuums", **body, retention_hours=24).status_code == 400
