"""Reverting, pruning and checking a history on the pages."""

import pytest
from django.test import Client

from loader.models import LoadRun, ReadRequest
from metadata.models import TargetDataset
from tests.loader_factories import DatasetRunFactory, LoadRunFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def applied(airport: TargetDataset) -> LoadRun:
    """A run that is applied to the airports' history."""
    run = LoadRunFactory(run_id="r1")
    DatasetRunFactory(run=run, dataset=airport, sequence=1)
    return run


def test_a_run_is_reverted_from_its_page_with_a_reason(operator: Client, airport: TargetDataset, applied: LoadRun):
    assert 'href="/load-runs/r1/revert/"' in operator.get("/load-runs/r1/").content.decode()
    asked = operator.get("/load-runs/r1/revert/").content.decode()
    assert "28,130 rows: 2,135 new, 12,788 changed and 2,880 deleted keys" in asked
    without = operator.post("/load-runs/r1/revert/", {"dataset": str(airport)})
    assert (without.status_code, b"Say why" in without.content) == (422, True)
    done = operator.post("/load-runs/r1/revert/", {"dataset": str(airport), "reason": "test data"})
    run = LoadRun.objects.get(kind="revert")
    assert done.headers["Location"] == f"/load-runs/{run.run_id}/"
    assert (run.details["asked"], run.reason) == ({"run_id": "r1"}, "test data")


def test_why_a_run_cannot_be_reverted_is_said_beside_the_history(operator: Client, airport: TargetDataset, applied):
    later = LoadRunFactory(run_id="r2")
    DatasetRunFactory(run=later, dataset=airport, sequence=2)
    page = operator.get("/load-runs/r1/revert/").content.decode()
    assert "Cannot be reverted: " in page
    assert "rest upon run r1" in page
    assert "Revert the run" not in page


def test_a_history_is_pruned_from_its_page(operator: Client, airport: TargetDataset, settings):
    where = f"/datasets/{airport.key}/history/prune/"
    assert f'href="{where}"' in operator.get(f"/datasets/{airport.key}/history/").content.decode()
    neither = operator.post(where, {"reason": "old"})
    assert (neither.status_code, b"Say either a date or a number of days." in neither.content) == (422, True)
    wrong = operator.post(where, {"ended_before": "yesterday", "reason": "old"})
    assert (wrong.status_code, b"no date like 2024-01-31" in wrong.content) == (422, True)
    done = operator.post(where, {"ended_before": "2024-01-31", "archive": "on", "reason": "old"})
    run = LoadRun.objects.get()
    assert done.headers["Location"] == f"/load-runs/{run.run_id}/"
    asked = {
        "ended_before": "2024-01-31T00:00:00+00:00",
        "archive": f"{settings.WAREHOUSE}/.archive/{airport.history.key}",
    }
    assert (run.kind, run.reason, run.details["asked"]) == ("prune", "old", asked)


def test_a_check_starts_at_the_button_and_shows_its_findings(operator: Client, airport: TargetDataset):
    where = f"/datasets/{airport.key}/history/check/"
    operator.get(where)
    assert not ReadRequest.objects.exists()
    asked = operator.post(where)
    read = ReadRequest.objects.get(kind="check")
    assert asked.headers["Location"] == f"/reads/{read.pk}/"
    finding = {
        "code": "OVERLAP",
        "message": "versions overlap",
        "count": 3,
        "samples": [{"key": {"icao": "EDDF"}, "start": "2024-01-01"}],
    }
    answer = {"versions": 70, "findings": [finding], "rawcore_behind": False}
    ReadRequest.objects.update(status="succeeded", answer=answer)
    page = operator.get(f"/reads/{read.pk}/").content.decode()
    assert "versions overlap" in page
    assert "icao=EDDF from 2024-01-01" in page
    ReadRequest.objects.update(answer=answer | {"findings": []})
    assert "No findings." in operator.get(f"/reads/{read.pk}/").content.decode()


def test_who_may_not_start_loads_is_offered_neither_revert_nor_prune(reader: Client, airport: TargetDataset, applied):
    assert "You do not have the permission to revert load runs" in reader.get("/load-runs/r1/").content.decode()
    assert "history/prune/" not in reader.get(f"/datasets/{airport.key}/history/").content.decode()
