"""Execution performed by a worker with a scripted runner."""

import json

import pytest

from architecture.models import Execution
from architecture.selectors.environments import leases_held
from architecture.services.dry_runs import request_dry_run
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import build_report
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from loader.services.dry_runs import perform_dry_run
from loader.services.executions import perform_execution
from metadata.services.lifecycle import rename_column
from tests.loader.airports import column
from tests.loader.services.loads.test_load_work import perform, queued

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture
def preview(airports, runner):
    """Return the preview of a report that renames a column of a historized table."""
    perform(queued(), runner)
    renamed = column("rawcore.rc_air_airport.name")
    rename_column(column=renamed, name="title", expected_version=renamed.version)
    report = build_report(environment=current_environment())
    return make_preview(report=report, user=olga())


def olga():
    return ensure_user(name="olga", roles=[Role.OPERATOR])


def requested_execution(preview) -> Execution:
    return request_execution(report=preview.report, user=olga()).execution


def work(execution: Execution, runner) -> Execution | None:
    return perform_execution(execution.pk, worker="w1", runner=runner)


@pytest.mark.full
def test_execution_observes_tables_runs_steps_and_stores_a_record(preview, runner, script):
    before = len(script.seen())
    done = work(requested_execution(preview), runner)
    assert (done.status, done.error) == ("succeeded", None)
    assert [request["kind"] for request in script.seen()][before:] == ["observe", "execute", "publish"]
    assert done.record.document["outcome"] == "succeeded"
    assert done.events.exists()
    assert not leases_held(environment=current_environment()).exists()


@pytest.mark.full
def test_duplicate_wakeup_performs_the_execution_once(preview, runner):
    execution = requested_execution(preview)
    assert work(execution, runner).status == "succeeded"
    assert work(execution, runner) is None


@pytest.mark.full
def test_execution_fails_before_the_first_statement_when_a_table_has_changed(preview, runner, script):
    execution, script_file = requested_execution(preview), script
    observed = json.loads(script_file.path.read_text())["observed"]
    (core,) = (table for table in observed.values() if table["qualified_name"] == "rawcore.rc_air_airport")
    core["columns"] = [entry for entry in core["columns"] if entry["name"] != "elevation"]
    script_file.add(observed=observed)
    before = len(script.seen("execute"))
    done = work(execution, runner)
    assert (done.status, done.error["code"]) == ("failed", "TABLE_MOVED")
    assert len(script.seen("execute")) == before


@pytest.mark.full
def test_execution_with_a_failed_step_resumes_in_the_next_attempt(preview, runner, script):
    script.add(fail_steps=["rc_air_airport_hist"])
    execution = requested_execution(preview)
    done = work(execution, runner)
    assert (done.status, done.error["code"]) == ("failed", "STEP_FAILED")
    (failed,) = done.operations.filter(status="failed")
    assert (failed.qualified_name, failed.error) == ("rawcore.rc_air_airport_hist", "rename_column did not work")
    script.add(fail_steps=[])
    ended = work(requested_execution(preview), runner)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert len(script.seen("execute")[-1]["body"]["done"]) == 1


@pytest.mark.full
def test_execution_with_a_dead_runner_fails_and_can_be_resumed(preview, runner, script):
    script.add(die_on="execute")
    assert work(requested_execution(preview), runner).error["code"] == "RUNNER_DIED"
    script.add(die_on=None)
    assert work(requested_execution(preview), runner).status == "succeeded"


def test_dry_run_stores_the_result_of_the_runner(preview, runner, script):
    dry_run = request_dry_run(preview=preview, user=olga()).dry_run
    done = perform_dry_run(dry_run.pk, worker="w1", runner=runner)
    assert (done.status, done.result["succeeded"]) == ("succeeded", True)
    (request,) = script.seen("dry_run")
    assert [step["op"] for step in request["body"]["steps"]] == ["rename_column", "rename_column"]
