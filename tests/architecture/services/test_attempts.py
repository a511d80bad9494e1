"""Attempts of an execution: lost, cancelled, resumed without repeating a step, or abandoned."""

import pytest

from architecture.models import Execution, ExecutionOperation, ExecutionRecord
from architecture.services.execution_attempts import ExecutionAttempt
from architecture.services.executions import (
    abandon_execution,
    cancel_execution,
    claim_execution,
    end_attempt,
    resume_execution,
)
from elevata.accounts.actors import acting_as
from elevata.jobs.services import Fenced
from metadata.models import TargetColumn
from metadata.services.datasets.targets import create_target_column, update_target_column
from tests.architecture.executions import ask, code_of, customer, lose
from tests.architecture.services.test_reports import rename
from tests.architecture.world import Killed, World

pytestmark = pytest.mark.django_db


def twelve_steps(world: World) -> Execution:
    """Return an execution of twelve steps on base and history."""
    rename(world, "full_name", "display_name")
    rename(world, "balance", "saldo")
    with acting_as(world.author):
        for name in ("lid", "iata", "region"):
            create_target_column(dataset=customer(), name=name, type="string", inputs=[])
        column = TargetColumn.objects.get(name="customer_id")
        update_target_column(column=column, expected_version=column.version, type="bigint")
    execution = world.queued()
    steps = [row for row in execution.operations.all() if row.op != "publish_view"]
    assert len(steps) == 12
    return execution


@pytest.mark.full
@pytest.mark.parametrize("dies_at", [place / 2 for place in range(0, 24, 3)])
def test_execution_killed_at_a_step_is_resumed_without_repeating_a_step(built, dies_at):
    execution = twelve_steps(built)
    wanted = [row.op for row in execution.operations.exclude(op="publish_view").order_by("ordinal")]
    built.warehouse.commits.clear()
    with pytest.raises(Killed):
        built.work(execution, dies_at=dies_at)
    lose(execution)
    resumed = resume_execution(execution=execution, user=built.operator)
    ended = built.work(resumed)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert [commit.partition(" ")[0] for commit in built.warehouse.commits] == wanted
    assert built.report().status == "no_changes"
    assert ExecutionRecord.objects.get(execution=execution).document["attempts"] == 2


def test_attempt_replaced_after_a_lost_worker_writes_nothing(renamed):
    execution = renamed.queued()
    old = claim_execution(execution_pk=execution.pk, worker="w1")
    lose(execution)
    resume_execution(execution=execution, user=renamed.operator)
    new = claim_execution(execution_pk=execution.pk, worker="w2")
    for write in (old.heartbeat, lambda: old.enter("changing"), lambda: old.say("hello")):
        with pytest.raises(Fenced):
            write()
    with pytest.raises(Fenced):
        old.step_finished(0, succeeded=True)
    assert end_attempt(attempt=old, wanted="succeeded") is None
    assert (new.number, new.heartbeat()) == (2, "running")


def test_a_step_is_recorded_once(renamed):
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    attempt.step_finished(0, succeeded=False, error={"code": "X", "message": "no room"})
    attempt.step_finished(0, succeeded=True)
    row = execution.operations.get(ordinal=0)
    assert (row.status, row.error) == ("failed", "no room")


def test_a_failed_step_is_planned_anew_by_the_next_attempt(renamed):
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    attempt.step_finished(0, succeeded=False, error={"code": "X", "message": "no room"})
    ended = end_attempt(attempt=attempt, wanted="succeeded", error={"code": "X", "message": "no room"})
    assert ended.status == "failed"
    resume_execution(execution=execution, user=renamed.operator)
    row = execution.operations.get(ordinal=0)
    assert (row.status, row.error) == (ExecutionOperation.Status.PLANNED, "")


def test_a_waiting_execution_is_cancelled_at_once(renamed):
    execution = renamed.queued()
    assert cancel_execution(execution=execution, user=renamed.operator).status == "canceled"
    assert claim_execution(execution_pk=execution.pk, worker="w1") is None


def test_running_execution_is_cancelled_between_steps(renamed):
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    cancel_execution(execution=execution, user=renamed.operator)
    assert attempt.heartbeat() == "canceling"
    ended = end_attempt(attempt=attempt, wanted="failed", error={"code": "STOPPED", "message": "stopped"})
    assert (ended.status, ended.error["code"]) == ("canceled", "CANCELED")


def test_second_request_resumes_a_cancelled_execution(renamed):
    execution = renamed.queued()
    cancel_execution(execution=execution, user=renamed.operator)
    answer = ask(renamed, execution.report)
    assert (answer.requested, answer.execution.pk, answer.execution.status) == (True, execution.pk, "queued")
    assert renamed.work(answer.execution).status == "succeeded"


def test_queued_execution_cannot_be_resumed_or_abandoned(renamed):
    execution = renamed.queued()
    arguments = {"execution": execution, "user": renamed.operator}
    assert code_of(resume_execution, **arguments) == "ALREADY_RUNNING"
    assert code_of(abandon_execution, **arguments, reason="enough") == "ALREADY_RUNNING"


def test_abandoned_execution_is_recorded_with_its_finished_steps(renamed):
    execution = renamed.queued()
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=1)
    lose(execution)
    assert code_of(abandon_execution, execution=execution, user=renamed.operator, reason=" ") == "NO_REASON"
    ended = abandon_execution(execution=execution, user=renamed.operator, reason="another way was found")
    assert ended.status == "abandoned"
    document = ended.record.document
    assert (document["outcome"], document["reason"]) == ("abandoned", "another way was found")
    assert [row["status"] for row in document["operations"]] == ["succeeded", "planned"]
    assert code_of(resume_execution, execution=ended, user=renamed.operator) == "NOT_RESUMABLE"


def test_remaining_steps_of_an_abandoned_execution_are_a_new_report(renamed):
    execution = renamed.queued()
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=1)
    lose(execution)
    abandon_execution(execution=execution, user=renamed.operator, reason="another way was found")
    report = renamed.report()
    assert report != execution.report
    assert [row["side"] for row in report.document["rows"]] == ["history"]


def test_execution_is_claimed_once_for_two_messages(renamed):
    execution = renamed.queued()
    first = claim_execution(execution_pk=execution.pk, worker="w1")
    assert isinstance(first, ExecutionAttempt)
    assert claim_execution(execution_pk=execution.pk, worker="w2") is None
