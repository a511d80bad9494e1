"""Reverting, pruning and checking a history on the pages."""

import pytest
from django.test import Client

from loader.models import LoadRun, ReadRequest
from metadata.models import TargetDataset
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import words
from tests.loader.factories import DatasetRunFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def applied_run(airport: TargetDataset) -> LoadRun:
    """Return a run that is applied to the airports' history."""
    run = LoadRunFactory(run_id="r1")
    DatasetRunFactory(run=run, dataset=airport, sequence=1)
    return run


def test_a_run_is_reverted_from_its_page_with_a_reason(operator: Client, airport: TargetDataset, applied_run: LoadRun):
    assert 'href="/load-runs/r1/revert/"' in html_of(operator.get("/load-runs/r1/"))
    form = html_of(operator.get("/load-runs/r1/revert/"))
    assert "28,130 rows: 2,135 new, 12,788 changed and 2,880 deleted keys" in form
    without = operator.post("/load-runs/r1/revert/", {"dataset": str(airport)})
    assert (without.status_code, b"Enter a reason." in without.content) == (422, True)
    done = operator.post("/load-runs/r1/revert/", {"dataset": str(airport), "reason": "test data"})
    run = LoadRun.objects.get(kind="revert")
    assert done.headers["Location"] == f"/load-runs/{run.run_id}/"
    assert (run.details["asked"], run.reason) == ({"run_id": "r1"}, "test data")


def test_revert_page_explains_why_a_run_cannot_be_reverted(operator: Client, airport: TargetDataset, applied_run):
    later = LoadRunFactory(run_id="r2")
    DatasetRunFactory(run=later, dataset=airport, sequence=2)
    page = html_of(operator.get("/load-runs/r1/revert/"))
    assert "Cannot be reverted: " in page
    assert "rest upon run r1" in page
    assert "Revert run" not in page


def test_a_history_is_pruned_from_its_page(operator: Client, airport: TargetDataset, settings):
    where = f"/datasets/{airport.key}/history/prune/"
    assert f'href="{where}"' in html_of(operator.get(f"/datasets/{airport.key}/history/"))
    neither = operator.post(where, {"reason": "old"})
    assert (neither.status_code, b"Enter either a date or a number of days." in neither.content) == (422, True)
    wrong = operator.post(where, {"ended_before": "yesterday", "reason": "old"})
    assert (wrong.status_code, b"no date like 2024-01-31" in wrong.content) == (422, True)
    done = operator.post(where, {"ended_before": "2024-01-31", "archive": "on", "reason": "old"})
    run = LoadRun.objects.get()
    assert done.headers["Location"] == f"/load-runs/{run.run_id}/"
    fields = {
        "ended_before": "2024-01-31T00:00:00+00:00",
        "archive": f"{settings.WAREHOUSE}/.archive/{airport.history.key}",
    }
    assert (run.kind, run.reason, run.details["asked"]) == ("prune", "old", fields)


def test_a_check_starts_at_the_button_and_shows_its_findings(operator: Client, airport: TargetDataset):
    where = f"/datasets/{airport.key}/history/check/"
    operator.get(where)
    assert not ReadRequest.objects.exists()
    response = operator.post(where)
    read = ReadRequest.objects.get(kind="check")
    assert response.headers["Location"] == f"/reads/{read.pk}/"
    finding = {
        "code": "OVERLAP",
        "message": "versions overlap",
        "count": 3,
        "samples": [{"key": {"icao": "EDDF"}, "start": "2024-01-01"}],
    }
    answer = {"versions": 70, "findings": [finding], "rawcore_behind": False}
    ReadRequest.objects.update(status="succeeded", answer=answer)
    page = html_of(operator.get(f"/reads/{read.pk}/"))
    assert "versions overlap" in page
    assert "icao=EDDF from 2024-01-01" in page
    ReadRequest.objects.update(answer=answer | {"findings": []})
    assert "No findings." in html_of(operator.get(f"/reads/{read.pk}/"))


def test_revert_and_prune_are_not_offered_without_the_permission_to_start_loads(
    reader: Client, airport: TargetDataset, applied_run
):
    assert "Ask for the operator role to revert loads" in html_of(reader.get("/load-runs/r1/"))
    assert "history/prune/" not in html_of(reader.get(f"/datasets/{airport.key}/history/"))


def test_storage_page_shows_the_newest_measure_with_its_time(operator: Client, airport: TargetDataset):
    where = f"/datasets/{airport.key}/storage/"
    assert "Not measured yet" in html_of(operator.get(where))
    use = {"current_files": 3, "current_bytes": 4096, "former_files": 7, "former_bytes": 2048, "log_bytes": 1024}
    listed = {"files": [{"file": "part-1.parquet", "bytes": 2048}], "files_removable": 1, "bytes_removable": 2048}
    details = {"asked": {"dry_run": True}, "tables": {str(airport): use | listed}}
    run = LoadRunFactory(run_id="v1", kind="vacuum", details=details)
    row = DatasetRunFactory(run=run, dataset=airport, counts=use)
    page = html_of(operator.get(where))
    assert f"{row.finished_at:%Y-%m-%d %H:%M:%S}" in page
    assert "part-1.parquet" in page
    assert f'href="{where}vacuum/"' in page


def test_the_storage_page_of_a_raw_dataset_shows_its_deliveries(operator: Client, airport: TargetDataset):
    raw = TargetDataset.objects.get(name="raw_air_airport")
    TargetDataset.objects.filter(pk=raw.pk).update(keep="all", keep_deliveries=2)
    sizes = {"rows": 12, "bytes": 4096}
    listed = [
        {"run_id": "r2", "loaded_at": "2024-01-02T03:00:00+00:00", "removed": False, **sizes},
        {"run_id": "r1", "loaded_at": "2024-01-01T03:00:00+00:00", "removed": False, **sizes},
        {"run_id": "r0", "loaded_at": "2023-12-31T03:00:00+00:00", "removed": True, **sizes},
    ]
    table = {"deliveries": 2, "deliveries_removed": 1, "deliveries_listed": listed}
    run = LoadRunFactory(run_id="v1", kind="vacuum", details={"asked": {"dry_run": False}, "tables": {str(raw): table}})
    DatasetRunFactory(run=run, dataset=raw, counts={})
    page = html_of(operator.get(f"/datasets/{raw.key}/storage/"))
    assert "2 in the table, the oldest loaded 2024-01-01 03:00:00 UTC" in words(page)
    assert "the newest 2" in page
    assert 'href="/load-runs/r1/"' in page
    assert 'href="/load-runs/r0/"' not in page
    assert "retention of this raw dataset" in html_of(operator.get(f"/datasets/{raw.key}/storage/vacuum/"))


def test_a_vacuum_is_requested_from_its_page(operator: Client, airport: TargetDataset):
    where = f"/datasets/{airport.key}/storage/vacuum/"
    short = operator.post(where, {"retention_hours": "24", "reason": "full"})
    assert (short.status_code, LoadRun.objects.exists()) == (422, False)
    done = operator.post(where, {"retention_hours": "168", "dry_run": "on", "reason": "full"})
    run = LoadRun.objects.get()
    assert done.headers["Location"] == f"/load-runs/{run.run_id}/"
    assert (run.kind, run.details["asked"]) == ("vacuum", {"retention_hours": 168, "dry_run": True})


def test_storage_page_offers_no_vacuum_without_the_permission_to_start_loads(reader: Client, airport: TargetDataset):
    page = html_of(reader.get(f"/datasets/{airport.key}/storage/"))
    assert "Disk use" in page
    assert "storage/vacuum/" not in page
