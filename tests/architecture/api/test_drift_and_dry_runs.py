"""The API of drift, dry runs and the records of maintenance runs."""

from dataclasses import replace

import pytest
from django.db import transaction

from architecture.domain.artifacts import verify
from architecture.models import DryRun, Environment, Refresh
from loader.contract.run_states import REVERT
from loader.services.maintenance.records import seal_end
from tests.architecture.api.test_workflow import get, post, world  # noqa: F401  a fixture is found by its name
from tests.architecture.world import World, put_policy_in_force
from tests.elevata.web.pages import signed_in
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db


# --- drift -----------------------------------------------------------------------------------


@pytest.fixture
def drifted(world: World) -> str:  # noqa: F811
    """Return the key of a dataset with a column that was dropped by hand."""
    shapes = world.warehouse.shapes
    key = next(key for key, shape in shapes.items() if not shape.qualified_name.endswith("_hist"))
    shapes[key] = replace(
        shapes[key], columns=tuple(column for column in shapes[key].columns if column.name != "balance")
    )
    world.warehouse.show()
    return key


def test_drift_lists_the_differences_of_a_dataset(world: World, drifted: str):  # noqa: F811
    answer = get(signed_in(world.author), "drift/")
    assert (answer["drifted"], answer["observed_at"] is not None) == (1, True)
    (dataset,) = [dataset for dataset in answer["datasets"] if dataset["status"] == "drifted"]
    assert (dataset["key"], dataset["dataset"]) == (drifted, "rawcore.rc_crm_customer")
    (difference,) = dataset["differences"]
    assert (difference["what"], difference["column"], difference["observed"]) == ("column_missing", "balance", "")


def test_adopting_drift_requires_a_reason(world: World, drifted: str):  # noqa: F811
    olga = signed_in(world.operator)
    refused = post(olga, "drift/adopt/", 400, datasets=[drifted])
    assert list(refused["errors"]) == ["reason"]
    answer = post(olga, "drift/adopt/", 200, datasets=[drifted], reason="dropped by hand, on purpose")
    assert answer["drifted"] == 0
    assert get(signed_in(world.author), "drift/")["drifted"] == 0


def test_adopting_an_unknown_dataset_returns_404(world: World, drifted: str):  # noqa: F811
    olga = signed_in(world.operator)
    assert post(olga, "drift/adopt/", 404, datasets=["nowhere"], reason="why not")["code"] == "UNKNOWN_DATASET"


def test_drift_adoption_and_check_require_the_execute_permission(world: World, drifted: str):  # noqa: F811
    ada = signed_in(world.author)
    assert post(ada, "drift/adopt/", 403, datasets=[drifted], reason="mine")["code"] == "permission_denied"
    assert post(ada, "drift/check/", 403)["code"] == "permission_denied"


def test_drift_check_queues_a_refresh_of_every_table(world: World):  # noqa: F811
    olga = signed_in(world.operator)
    refresh = post(olga, "drift/check/", 202)
    assert (refresh["status"], refresh["purpose"]) == ("queued", "drift")
    assert get(olga, f"refreshes/{refresh['id']}/")["tables"] == refresh["tables"] > 0
    assert Refresh.objects.get(pk=refresh["id"]).requested_by == world.operator


# --- dry runs ------------------------------------------------------------------------------


@pytest.fixture
def report(world: World) -> str:  # noqa: F811
    """Return the API path of a report that needs no approval."""
    put_policy_in_force(Environment.objects.get(), {})
    return f"reports/{world.report().report_id}/"


def test_dry_run_of_a_preview_is_queued_only_once(world: World, report: str):  # noqa: F811
    olga = signed_in(world.operator)
    preview = post(olga, f"{report}preview/", 201)
    answer = olga.post(f"/api/v1/{report}dry-run/", {}, content_type="application/json")
    dry_run = answer.json()
    assert (answer.status_code, dry_run["status"], dry_run["preview"]) == (202, "queued", preview["fingerprint"])
    assert answer.headers["Location"].endswith(f"/api/v1/dry-runs/{dry_run['id']}/")
    assert post(olga, f"{report}dry-run/", 202)["id"] == dry_run["id"]


def test_dry_run_requires_a_preview(world: World, report: str):  # noqa: F811
    assert post(signed_in(world.operator), f"{report}dry-run/", 409)["code"] == "NO_PREVIEW"


def test_dry_run_requires_the_execute_permission(world: World, report: str):  # noqa: F811
    assert post(signed_in(world.author), f"{report}dry-run/", 403)["code"] == "permission_denied"


def test_unfinished_dry_run_sends_retry_after_and_a_finished_one_its_result(world: World, report: str):  # noqa: F811
    olga = signed_in(world.operator)
    post(olga, f"{report}preview/", 201)
    place = f"dry-runs/{post(olga, f'{report}dry-run/', 202)['id']}/"
    waiting = olga.get(f"/api/v1/{place}")
    assert (waiting.headers["Retry-After"], waiting.json()["result"]) == ("1", None)
    result = {"succeeded": True, "steps": [], "tables": {}, "queries": []}
    DryRun.objects.update(status="succeeded", result=result)
    done = olga.get(f"/api/v1/{place}")
    assert "Retry-After" not in done.headers
    assert (done.json()["status"], done.json()["result"]) == ("succeeded", result)


def test_dry_runs_are_listed_by_report_without_their_results(world: World, report: str):  # noqa: F811
    olga = signed_in(world.operator)
    post(olga, f"{report}preview/", 201)
    dry_run = post(olga, f"{report}dry-run/", 202)
    listed = get(olga, f"dry-runs/?report={dry_run['report']}")["results"]
    assert [run["id"] for run in listed] == [dry_run["id"]]
    assert "result" not in listed[0]
    assert get(olga, "dry-runs/?status=failed")["count"] == 0


# --- maintenance runs ---------------------------------------------------------------------------


@pytest.fixture
def record() -> str:
    """Return the id of the record of a revert."""
    run = LoadRunFactory(run_id="back", kind=REVERT, status="succeeded", reason="wrong file")
    with transaction.atomic():
        return str(seal_end(run_pk=run.pk, attempt=1).record_id)


def test_records_of_maintenance_runs_are_listed_and_filtered(world: World, record: str):  # noqa: F811
    ada = signed_in(world.author)
    (listed,) = get(ada, "maintenance-records/?run=back&kind=revert")["results"]
    assert (listed["record_id"], listed["kind"], listed["outcome"]) == (record, "revert", "succeeded")
    assert (listed["reason"], "artifact" in listed) == ("wrong file", False)
    assert get(ada, "maintenance-records/?kind=prune")["count"] == 0


def test_maintenance_record_returns_an_artifact_that_verifies(world: World, record: str):  # noqa: F811
    artifact = get(signed_in(world.author), f"maintenance-records/{record}/")["artifact"]
    assert verify(artifact) == ()
    assert artifact["document"]["run"] == "back"
