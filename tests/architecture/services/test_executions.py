"""Executions: conditions of a request, and effects on tables, applied state and rows."""

import pytest

from architecture.models import AppliedDataset
from architecture.selectors.dataset_states import applied_datasets
from architecture.selectors.executions import executions
from architecture.services.change_policy import update_policies
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from metadata.models import TargetColumn
from metadata.services.datasets.targets import update_target_column
from tests.architecture.executions import ask, code_of, customer, needing_approval
from tests.architecture.services.test_reports import rename
from tests.architecture.world import Killed, person

pytestmark = pytest.mark.django_db

# --- effects ---------------------------------------------------------------------------------


def test_execution_changes_tables_and_applied_state_together(renamed):
    execution = renamed.executed()
    assert (execution.status, execution.attempt, execution.error) == ("succeeded", 1, None)
    (applied,) = applied_datasets(environment=renamed.environment)
    names = {column["name"] for column in applied.state["columns"]}
    assert {"display_name"} <= names
    assert "full_name" not in names
    assert applied.table_versions[str(customer().key)] == renamed.warehouse.versions[str(customer().key)]
    assert applied.execution == execution


def test_executed_step_is_stored_with_statement_and_versions(renamed):
    execution = renamed.executed()
    row = execution.operations.order_by("ordinal").first()
    assert (row.op, row.status, row.column_name) == ("rename_column", "succeeded", "display_name")
    assert "RENAME COLUMN" in row.statement
    assert row.version_after == renamed.warehouse.versions[str(row.table_key)]
    (listed, *_) = executions(environment=renamed.environment)
    assert (listed.operation_count, listed.done_count, listed.failed_count) == (2, 2, 0)


def test_applied_state_is_unchanged_until_all_steps_of_an_operation_are_done(renamed):
    execution = renamed.queued()
    before = AppliedDataset.objects.get().state
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=0.5)
    assert AppliedDataset.objects.get().state == before


def test_operation_that_changes_no_table_is_stored_as_a_step(built):
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    execution = built.executed()
    assert execution.status == "succeeded"
    assert set(execution.operations.values_list("op", "status")) >= {("check_not_null", "succeeded")}
    assert built.report().status == "no_changes"


# --- requests --------------------------------------------------------------------------------


def test_execution_requested_twice_is_queued_once(renamed):
    preview = renamed.previewed()
    first, second = ask(renamed, preview.report), ask(renamed, preview.report)
    assert (first.requested, second.requested, first.execution) == (True, False, second.execution)


def test_executed_report_is_not_executed_again(renamed):
    execution = renamed.executed()
    assert code_of(ask, world=renamed, report=execution.report) == "ALREADY_EXECUTED"


def test_execution_requires_a_preview(renamed):
    assert code_of(ask, world=renamed, report=renamed.approved()) == "NO_PREVIEW"


def test_execution_requires_the_newest_preview(renamed):
    preview = renamed.previewed()
    arguments = {"report": preview.report, "user": renamed.operator, "preview_fingerprint": "0" * 64}
    assert code_of(request_execution, **arguments) == "PREVIEW_STALE"


def test_execution_requires_the_missing_approval(built):
    report = needing_approval(built)
    make_preview(report=report, user=built.operator)
    assert code_of(ask, world=built, report=report) == "NOT_APPROVED"


@pytest.mark.parametrize(("user", "code"), [("author", "NOT_PERMITTED"), ("approver", "NOT_PERMITTED")])
def test_execution_requires_the_execute_permission(renamed, user, code):
    preview = renamed.previewed()
    assert code_of(ask, world=renamed, report=preview.report, by=getattr(renamed, user)) == code


def test_execution_requires_a_user(renamed):
    preview = renamed.previewed()
    assert code_of(request_execution, report=preview.report, user=None) == "NO_PERSON"


def test_approver_cannot_execute_if_the_policy_forbids_it(built):
    root = person("root", Role.ADMIN)
    policies = {"approver_may_execute": False}
    update_policies(environment=built.environment, policies=policies, expected_version=1, user=root)
    approver = built.approver = person("bob", Role.APPROVER, Role.OPERATOR)
    needing_approval(built)
    preview = built.previewed()
    assert code_of(ask, world=built, report=preview.report, by=approver) == "NOT_PERMITTED"
    assert ask(built, preview.report).requested


def test_an_empty_report_is_not_executed(built):
    assert code_of(ask, world=built, report=built.report()) == "NO_CHANGES"


def test_a_superseded_report_is_not_executed(renamed):
    preview = renamed.previewed()
    rename(renamed, "balance", "saldo")
    renamed.report()
    assert code_of(ask, world=renamed, report=preview.report) == "REPORT_SUPERSEDED"
