"""``manage.py execute --local``: from a previewed report to its record, or to an exit code with its reason."""

import io
import json
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from architecture.models import ChangeReport, Execution, ExecutionRecord
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import build_report
from elevata.accounts.cli import CommandExit
from elevata.accounts.roles import Role
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import ensure_user
from elevata.audit.models import ChangeLogEntry
from loader.management.commands import execute as command
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import rename_column
from tests.loader.airports import column
from tests.loader.services.loads.test_load_work import perform, queued

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


def person(name: str, role: Role) -> Any:
    return ensure_user(name=name, roles=[role])


@pytest.fixture
def olga(monkeypatch) -> Any:
    """Operator whose token the command uses."""
    user = person("olga", Role.OPERATOR)
    monkeypatch.setenv("ELEVATA_TOKEN", create_token(user=user)[1])
    return user


@pytest.fixture
def loaded(airports, make_runner, monkeypatch) -> None:
    """Load the tables with the scripted runner, which the command uses, too."""
    first = make_runner("the load")
    perform(queued(), first)
    first.close()
    monkeypatch.setattr(command, "Runner", make_runner)


@pytest.fixture
def report(loaded) -> ChangeReport:
    """Create a report that renames a column of a historized table, which is safe."""
    renamed = column("rawcore.rc_air_airport.name")
    rename_column(column=renamed, name="title", expected_version=renamed.version)
    return build_report(environment=current_environment())


@pytest.fixture
def previewed(report, olga) -> ChangeReport:
    make_preview(report=report, user=olga)
    return report


def execute(report: ChangeReport, *arguments: str) -> tuple[int, str, str, str]:
    """Run the command; return exit code, output, reason code, and the line that explains it."""
    out = io.StringIO()
    try:
        call_command("execute", str(report.report_id), *arguments, stdout=out, stderr=io.StringIO())
    except CommandExit as end:
        return end.returncode, out.getvalue(), end.code, str(end)
    return 0, out.getvalue(), "", ""


def execute_locally(report: ChangeReport, *arguments: str) -> tuple[int, str]:
    code, _, reason, _ = execute(report, "--local", *arguments)
    return code, reason


# --- done --------------------------------------------------------------------------------------


def test_execute_shows_the_steps_of_the_report_and_its_record(previewed):
    code, out, _, _ = execute(previewed, "--local")
    execution = Execution.objects.get(report=previewed)
    assert (code, execution.status) == (0, "succeeded")
    assert "  succeeded rename_column rawcore.rc_air_airport.title" in out
    assert f"record {execution.record.record_id}" in out.splitlines()[-1]


def test_json_is_one_document_on_stdout(previewed):
    code, out, _, _ = execute(previewed, "--local", "--json")
    document = json.loads(out)
    assert (code, document["status"], document["requested_by"]) == (0, "succeeded", "olga")
    assert document["record"] == str(ExecutionRecord.objects.get(execution__report=previewed).record_id)
    assert {step["status"] for step in document["operations"]} == {"succeeded"}


def test_record_and_change_log_name_the_user_of_the_token(previewed):
    execute(previewed, "--local")
    document = ExecutionRecord.objects.get(execution__report=previewed).document
    assert (document["requested_by"], document["command"]) == ("olga", "manage.py execute --local")
    entry = ChangeLogEntry.objects.get(subject_kind="execution", action="requested")
    assert (entry.actor, entry.actor_kind) == ("olga", "token")


def test_report_is_found_by_the_beginning_of_its_fingerprint(previewed):
    out = io.StringIO()
    call_command("execute", previewed.fingerprint[:12], "--local", stdout=out)
    assert Execution.objects.get(report=previewed).status == "succeeded"


# --- refused -----------------------------------------------------------------------------------


def test_execution_without_a_preview_is_refused(report, olga):
    assert execute_locally(report) == (2, "NO_PREVIEW")


def test_execution_with_another_preview_than_the_newest_is_refused(previewed):
    assert execute_locally(previewed, "--preview", "0" * 64) == (2, "PREVIEW_STALE")


def test_execution_without_a_required_approval_is_refused(loaded, olga):
    strict = column("rawcore.rc_air_airport.name")
    update_target_column(column=strict, expected_version=strict.version, nullable=False)
    report = build_report(environment=current_environment())
    make_preview(report=report, user=olga)
    assert execute_locally(report) == (2, "NOT_APPROVED")


def test_execution_of_an_outdated_report_is_refused(previewed):
    renamed = column("rawcore.rc_air_airport.elevation")
    rename_column(column=renamed, name="height", expected_version=renamed.version)
    assert execute_locally(previewed) == (2, "REPORT_STALE")


def test_second_execution_of_a_report_is_refused(previewed):
    assert execute_locally(previewed) == (0, "")
    assert execute_locally(previewed) == (2, "ALREADY_EXECUTED")


@pytest.mark.parametrize(("role", "code"), [(None, "NO_PERSON"), (Role.APPROVER, "NOT_PERMITTED")])
def test_execution_without_a_token_or_permission_is_refused(previewed, monkeypatch, role, code):
    token = create_token(user=person("bob", role))[1] if role else ""
    monkeypatch.setenv("ELEVATA_TOKEN", token)
    assert execute_locally(previewed) == (2, code)


def test_refused_report_leaves_no_execution(report, olga):
    execute_locally(report)
    assert not Execution.objects.filter(report=report).exists()


def test_execution_is_refused_before_the_first_statement_when_a_table_has_changed(previewed, script):
    observed = json.loads(script.path.read_text())["observed"]
    (core,) = (table for table in observed.values() if table["qualified_name"] == "rawcore.rc_air_airport")
    core["columns"] = [entry for entry in core["columns"] if entry["name"] != "elevation"]
    script.add(observed=observed)
    before = len(script.seen("execute"))
    assert execute_locally(previewed) == (2, "TABLE_MOVED")
    assert len(script.seen("execute")) == before


# --- failed ------------------------------------------------------------------------------------


def test_failed_step_exits_with_1_and_the_reason_in_one_line(previewed, script):
    script.add(fail_steps=["rc_air_airport_hist"])
    code, out, reason, message = execute(previewed, "--local", "--json")
    assert (code, reason, json.loads(out)["status"]) == (1, "STEP_FAILED", "failed")
    assert "rename_column did not work" in message
    assert "\n" not in message


def test_failed_execution_resumes_at_the_failed_step(previewed, script):
    script.add(fail_steps=["rc_air_airport_hist"])
    execute_locally(previewed)
    script.add(fail_steps=[])
    code, out, _, _ = execute(previewed, "--local", "--json")
    assert (code, json.loads(out)["attempt"]) == (0, 2)
    assert len(script.seen("execute")[-1]["body"]["done"]) == 1


def test_execution_of_a_killed_process_resumes_at_once(previewed, olga):
    execution_request = request_execution(report=previewed, user=olga).execution
    long_ago = timezone.now() - timedelta(hours=1)
    Execution.objects.filter(pk=execution_request.pk).update(
        status="running", attempt=1, claimed_by="killed", heartbeat_at=long_ago
    )
    code, out, _, _ = execute(previewed, "--local")
    assert (code, Execution.objects.get(report=previewed).status) == (0, "succeeded")
    assert "was lost with its process: it goes on here" in out


def test_death_of_the_runner_exits_with_1(previewed, script):
    script.add(die_on="execute")
    assert execute_locally(previewed) == (1, "RUNNER_DIED")


def test_data_folder_in_use_exits_with_1_and_requests_no_execution(previewed, make_runner):
    make_runner("worker 7").start()
    code, _, _, message = execute(previewed, "--local")
    assert (code, "is in use by worker 7" in message) == (1, True)
    assert not Execution.objects.filter(report=previewed).exists()


def test_failed_execution_is_abandoned_with_a_record(previewed, script):
    script.add(fail_steps=["rc_air_airport_hist"])
    execute_locally(previewed)
    code, out, _, _ = execute(previewed, "--abandon", "another way was found", "--json")
    assert (code, json.loads(out)["status"]) == (0, "abandoned")
    assert ExecutionRecord.objects.get(execution__report=previewed).document["reason"] == "another way was found"


def test_abandoning_a_report_without_execution_is_refused(previewed):
    code, _, reason, _ = execute(previewed, "--abandon", "another way was found")
    assert (code, reason) == (2, "NOT_RESUMABLE")
