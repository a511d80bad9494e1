"""Executions: asked for once, verified before the first statement, resumed without repeating anything."""

import threading

import pytest
from django.db import connection

from architecture.domain.steps.step import StepProblem
from architecture.domain.workflow import Refused
from architecture.models import AppliedDataset, Environment, Execution, ExecutionOperation, ExecutionRecord
from architecture.selectors import applied_datasets, desired_tables, executions, operations_on
from architecture.services import current_environment
from architecture.services.attempts import ExecutionAttempt, Superseded
from architecture.services.executions import (
    abandon_execution,
    cancel_execution,
    claim_execution,
    end_attempt,
    mark_lost_executions,
    request_execution,
    resume_execution,
)
from architecture.services.policies import update_policies
from architecture.services.previews import make_preview
from metadata.domain.roles import Role
from metadata.domain.state import ColumnState, DatasetState
from metadata.models import TargetColumn, TargetDataset
from metadata.services.actor import acting_as
from metadata.services.targets import create_target_column, update_target_column
from tests.architecture.test_reports import rename
from tests.architecture.test_resume import key
from tests.architecture.world import Killed, World, customers, make_world, person

pytestmark = pytest.mark.django_db


def customer() -> TargetDataset:
    return TargetDataset.objects.get(name="rc_crm_customer")


@pytest.fixture
def renamed(built) -> World:
    rename(built, "full_name", "display_name")
    return built


def code_of(call, **asked: object) -> str:
    with pytest.raises((Refused, StepProblem)) as refused:
        call(**asked)
    return refused.value.code


def ask(world: World, report, by=None):
    return request_execution(report=report, person=by or world.operator)


def test_the_environment_is_made_once_and_follows_the_settings(db, settings):
    first = current_environment()
    settings.WAREHOUSE = "/elsewhere"
    assert current_environment() == first
    assert Environment.objects.get().warehouse == "/elsewhere"


def test_looking_for_the_environment_writes_nothing(db, django_assert_num_queries):
    current_environment()
    with django_assert_num_queries(1):
        current_environment()


def test_desired_tables_follow_from_states():
    states = [
        DatasetState(key("r"), "raw", "raw", "r", (ColumnState(key("r.x"), "x", "string"),)),
        DatasetState(key("s"), "stage", "stage", "s", (), materialization="view"),
        DatasetState(key("c"), "core", "rawcore", "c", (), historize=True, history_key=key("h")),
        DatasetState(key("o"), "core", "rawcore", "o", (), active=False),
    ]
    assert [table.qualified_name for table in desired_tables(states)] == ["raw.r", "core.c", "core.c_hist"]


# --- doing -----------------------------------------------------------------------------------


def test_it_changes_tables_and_applied_state_together(renamed):
    execution = renamed.executed()
    assert (execution.status, execution.attempt, execution.error) == ("succeeded", 1, None)
    (applied,) = applied_datasets(environment=renamed.environment)
    names = {column["name"] for column in applied.state["columns"]}
    assert {"display_name"} <= names
    assert "full_name" not in names
    assert applied.table_versions[str(customer().key)] == renamed.warehouse.versions[str(customer().key)]
    assert applied.execution == execution


def test_every_step_is_a_row_with_statement_and_versions(renamed):
    execution = renamed.executed()
    row = execution.operations.order_by("ordinal").first()
    assert (row.op, row.status, row.column_name) == ("rename_column", "succeeded", "display_name")
    assert "RENAME COLUMN" in row.statement
    assert row.version_after == renamed.warehouse.versions[str(row.table_key)]
    assert operations_on(table_key=str(customer().key), environment=renamed.environment).first() == row
    (listed, *_) = executions(environment=renamed.environment)
    assert (listed.operation_count, listed.done_count, listed.failed_count) == (2, 2, 0)


def test_applied_state_claims_nothing_before_all_steps_of_an_operation_are_done(renamed):
    execution = renamed.queued()
    before = AppliedDataset.objects.get().state
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=0.5)
    assert AppliedDataset.objects.get().state == before


def test_an_operation_that_changes_no_table_has_a_row_too(built):
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    execution = built.executed()
    assert execution.status == "succeeded"
    assert set(execution.operations.values_list("op", "status")) >= {("check_not_null", "succeeded")}
    assert built.report().status == "no_changes"


# --- asking ----------------------------------------------------------------------------------


def test_pressed_twice_it_is_asked_for_once(renamed):
    preview = renamed.previewed()
    first, second = ask(renamed, preview.report), ask(renamed, preview.report)
    assert (first.requested, second.requested, first.execution) == (True, False, second.execution)


def test_what_was_executed_is_not_executed_again(renamed):
    execution = renamed.executed()
    assert code_of(ask, world=renamed, report=execution.report) == "ALREADY_EXECUTED"


def test_without_a_preview_nothing_is_executed(renamed):
    assert code_of(ask, world=renamed, report=renamed.approved()) == "NO_PREVIEW"


def test_the_preview_that_was_seen_must_be_the_newest(renamed):
    preview = renamed.previewed()
    asked = {"report": preview.report, "person": renamed.operator, "preview_fingerprint": "0" * 64}
    assert code_of(request_execution, **asked) == "PREVIEW_STALE"


def needing_approval(world: World):
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(world.author):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    return world.report()


def test_without_approval_nothing_is_executed(built):
    report = needing_approval(built)
    make_preview(report=report, person=built.operator)
    assert code_of(ask, world=built, report=report) == "NOT_APPROVED"


@pytest.mark.parametrize(("who", "code"), [("author", "NOT_PERMITTED"), ("approver", "NOT_PERMITTED")])
def test_who_lacks_the_permission_executes_nothing(renamed, who, code):
    preview = renamed.previewed()
    assert code_of(ask, world=renamed, report=preview.report, by=getattr(renamed, who)) == code


def test_nobody_executes_nothing(renamed):
    preview = renamed.previewed()
    assert code_of(request_execution, report=preview.report, person=None) == "NO_PERSON"


def test_who_approved_may_not_execute_where_the_environment_says_so(built):
    root = person("root", Role.ADMIN)
    policies = {"approver_may_execute": False}
    update_policies(environment=built.environment, policies=policies, expected_version=1, person=root)
    both = built.approver = person("bob", Role.APPROVER, Role.OPERATOR)
    needing_approval(built)
    preview = built.previewed()
    assert code_of(ask, world=built, report=preview.report, by=both) == "NOT_PERMITTED"
    assert ask(built, preview.report).requested


def test_an_empty_report_is_not_executed(built):
    assert code_of(ask, world=built, report=built.report()) == "NO_CHANGES"


def test_a_superseded_report_is_not_executed(renamed):
    preview = renamed.previewed()
    rename(renamed, "balance", "saldo")
    renamed.report()
    assert code_of(ask, world=renamed, report=preview.report) == "REPORT_SUPERSEDED"


# --- everything once more before the first statement ---------------------------------------------


def moved_metadata(world: World) -> None:
    rename(world, "balance", "saldo")


def moved_table(world: World) -> None:
    world.warehouse.rename_behind_your_back(str(customer().key), "balance", "other")


def moved_policy(world: World) -> None:
    root = person("root", Role.ADMIN)
    policies = {"severities": {"DROP_COLUMN": "needs_approval"}}
    update_policies(environment=world.environment, policies=policies, expected_version=1, person=root)


MOVES = [(moved_metadata, "REPORT_STALE"), (moved_table, "TABLE_MOVED"), (moved_policy, "POLICY_MOVED")]


@pytest.mark.parametrize(("move", "code"), MOVES)
def test_what_moved_before_it_was_asked_for_is_refused(renamed, move, code):
    preview = renamed.previewed()
    move(renamed)
    renamed.warehouse.show()
    assert code_of(ask, world=renamed, report=preview.report) == code


@pytest.mark.parametrize(("move", "code"), MOVES)
def test_what_moved_while_it_waited_is_refused_before_the_first_statement(renamed, move, code):
    execution = renamed.queued()
    commits = list(renamed.warehouse.commits)
    move(renamed)
    assert code_of(renamed.work, execution=execution) == code
    assert renamed.warehouse.commits == commits


@pytest.mark.parametrize(("move", "code"), MOVES)
def test_what_moved_before_it_is_resumed_is_refused_too(renamed, move, code):
    execution = renamed.queued()
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=1)
    lose(execution)
    resume_execution(execution=execution, person=renamed.operator)
    move(renamed)
    commits = list(renamed.warehouse.commits)
    assert code_of(renamed.work, execution=execution) == code
    assert renamed.warehouse.commits == commits


def test_loads_in_between_stop_nothing(renamed):
    execution = renamed.queued()
    for table in renamed.warehouse.versions:
        renamed.warehouse.versions[table] += 5
    assert renamed.work(execution).status == "succeeded"


# --- lost, cancelled, resumed, abandoned --------------------------------------------------------


def lose(execution: Execution) -> None:
    Execution.objects.filter(pk=execution.pk).update(heartbeat_at="2020-01-01T00:00:00Z")
    assert mark_lost_executions() == [execution.pk]


def twelve(world: World) -> Execution:
    """An execution of twelve steps, on base and history."""
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


@pytest.mark.parametrize("dies_at", [place / 2 for place in range(0, 24, 3)])
def test_killed_at_a_step_boundary_it_is_resumed_and_nothing_is_done_twice(built, dies_at):
    execution = twelve(built)
    wanted = [row.op for row in execution.operations.exclude(op="publish_view").order_by("ordinal")]
    built.warehouse.commits.clear()
    with pytest.raises(Killed):
        built.work(execution, dies_at=dies_at)
    lose(execution)
    resumed = resume_execution(execution=execution, person=built.operator)
    ended = built.work(resumed)
    assert (ended.status, ended.attempt) == ("succeeded", 2)
    assert [said.partition(" ")[0] for said in built.warehouse.commits] == wanted
    assert built.report().status == "no_changes"
    assert ExecutionRecord.objects.get(execution=execution).document["attempts"] == 2


def test_an_attempt_that_was_given_up_writes_nothing(renamed):
    execution = renamed.queued()
    old = claim_execution(execution_pk=execution.pk, worker="w1")
    lose(execution)
    resume_execution(execution=execution, person=renamed.operator)
    new = claim_execution(execution_pk=execution.pk, worker="w2")
    for write in (old.heartbeat, lambda: old.enter("changing"), lambda: old.say("hello")):
        with pytest.raises(Superseded):
            write()
    with pytest.raises(Superseded):
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
    resume_execution(execution=execution, person=renamed.operator)
    row = execution.operations.get(ordinal=0)
    assert (row.status, row.error) == (ExecutionOperation.Status.PLANNED, "")


def test_a_waiting_execution_is_cancelled_at_once(renamed):
    execution = renamed.queued()
    assert cancel_execution(execution=execution, person=renamed.operator).status == "canceled"
    assert claim_execution(execution_pk=execution.pk, worker="w1") is None


def test_a_running_one_hears_of_the_cancel_and_ends_between_steps(renamed):
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    cancel_execution(execution=execution, person=renamed.operator)
    assert attempt.heartbeat() == "canceling"
    ended = end_attempt(attempt=attempt, wanted="failed", error={"code": "STOPPED", "message": "stopped"})
    assert (ended.status, ended.error["code"]) == ("canceled", "CANCELED")


def test_asking_again_resumes_what_failed(renamed):
    execution = renamed.queued()
    cancel_execution(execution=execution, person=renamed.operator)
    asked = ask(renamed, execution.report)
    assert (asked.requested, asked.execution.pk, asked.execution.status) == (True, execution.pk, "queued")
    assert renamed.work(asked.execution).status == "succeeded"


def test_what_runs_is_neither_resumed_nor_abandoned(renamed):
    execution = renamed.queued()
    asked = {"execution": execution, "person": renamed.operator}
    assert code_of(resume_execution, **asked) == "ALREADY_RUNNING"
    assert code_of(abandon_execution, **asked, reason="enough") == "ALREADY_RUNNING"


def test_an_abandoned_one_is_sealed_with_what_it_did(renamed):
    execution = renamed.queued()
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=1)
    lose(execution)
    assert code_of(abandon_execution, execution=execution, person=renamed.operator, reason=" ") == "NO_REASON"
    ended = abandon_execution(execution=execution, person=renamed.operator, reason="another way was found")
    assert ended.status == "abandoned"
    document = ended.record.document
    assert (document["outcome"], document["reason"]) == ("abandoned", "another way was found")
    assert [row["status"] for row in document["operations"]] == ["succeeded", "planned"]
    assert code_of(resume_execution, execution=ended, person=renamed.operator) == "NOT_RESUMABLE"


def test_after_an_abandoned_one_what_is_left_is_a_new_report(renamed):
    execution = renamed.queued()
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=1)
    lose(execution)
    abandon_execution(execution=execution, person=renamed.operator, reason="another way was found")
    report = renamed.report()
    assert report != execution.report
    assert [one["side"] for one in report.document["rows"]] == ["history"]


def test_a_message_that_comes_twice_claims_once(renamed):
    execution = renamed.queued()
    first = claim_execution(execution_pk=execution.pk, worker="w1")
    assert isinstance(first, ExecutionAttempt)
    assert claim_execution(execution_pk=execution.pk, worker="w2") is None


# --- at once ---------------------------------------------------------------------------------


def at_once(*functions):
    """Run functions at the same moment, each with a connection of its own; returns their results."""
    results, barrier = [None] * len(functions), threading.Barrier(len(functions))

    def call(place, function):
        try:
            barrier.wait(10)
            results[place] = function()
        finally:
            connection.close()

    threads = [threading.Thread(target=call, args=item) for item in enumerate(functions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    return results


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_two_executes_pressed_at_once_are_one_execution():
    world = make_world()
    customers(world.author)
    preview = world.previewed()
    asked = at_once(*(lambda: ask(world, preview.report) for _ in range(4)))
    assert len({one.execution.pk for one in asked}) == 1
    assert sorted(one.requested for one in asked) == [False, False, False, True]
    assert Execution.objects.count() == 1


@pytest.mark.services
@pytest.mark.django_db(transaction=True)
def test_two_workers_with_the_same_message_claim_once():
    world = make_world()
    customers(world.author)
    execution = world.queued()
    names = [f"w{number}" for number in range(4)]
    claimed = at_once(*(lambda name=name: claim_execution(execution_pk=execution.pk, worker=name) for name in names))
    assert len([one for one in claimed if one is not None]) == 1
