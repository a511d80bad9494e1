"""Verification before the first statement: any change since the approval stops an execution."""

import pytest

from architecture.services.executions import resume_execution
from elevata.accounts.roles import Role
from elevata.accounts.services.users import deactivate_user, set_roles
from tests.architecture.executions import ask, code_of, customer, lose
from tests.architecture.services.test_reports import rename
from tests.architecture.world import Killed, World, agree_on_policy, person

pytestmark = pytest.mark.django_db


def change_metadata(world: World) -> None:
    rename(world, "balance", "saldo")


def change_table(world: World) -> None:
    world.warehouse.rename_behind_your_back(str(customer().key), "balance", "other")


def change_policy(world: World) -> None:
    policies = {"severities": {"DROP_COLUMN": "needs_approval"}}
    agree_on_policy(world.environment, policies)


MOVES = [(change_metadata, "REPORT_STALE"), (change_table, "TABLE_MOVED"), (change_policy, "POLICY_MOVED")]


@pytest.mark.full
@pytest.mark.parametrize(("move", "code"), MOVES)
def test_execution_request_is_refused_after_metadata_table_or_policy_changed(renamed, move, code):
    preview = renamed.previewed()
    move(renamed)
    renamed.warehouse.show()
    assert code_of(ask, world=renamed, report=preview.report) == code


@pytest.mark.full
@pytest.mark.parametrize(("move", "code"), MOVES)
def test_queued_execution_is_refused_before_its_first_statement_after_a_change(renamed, move, code):
    execution = renamed.queued()
    commits = list(renamed.warehouse.commits)
    move(renamed)
    assert code_of(renamed.work, execution=execution) == code
    assert renamed.warehouse.commits == commits


@pytest.mark.full
@pytest.mark.parametrize(("move", "code"), MOVES)
def test_resumed_execution_is_refused_after_metadata_table_or_policy_changed(renamed, move, code):
    execution = renamed.queued()
    with pytest.raises(Killed):
        renamed.work(execution, dies_at=1)
    lose(execution)
    resume_execution(execution=execution, user=renamed.operator)
    move(renamed)
    commits = list(renamed.warehouse.commits)
    assert code_of(renamed.work, execution=execution) == code
    assert renamed.warehouse.commits == commits


def test_execution_succeeds_after_loads_since_its_preview(renamed):
    execution = renamed.queued()
    for table in renamed.warehouse.versions:
        renamed.warehouse.versions[table] += 5
    assert renamed.work(execution).status == "succeeded"


def test_execution_of_a_user_without_the_role_is_refused_until_another_operator_resumes_it(renamed):
    execution, commits = renamed.queued(), list(renamed.warehouse.commits)
    set_roles(user=renamed.operator, roles=[Role.VIEWER])
    assert code_of(renamed.work, execution=execution) == "NOT_PERMITTED"
    lose(execution)
    set_roles(user=renamed.operator, roles=[Role.OPERATOR])
    resume_execution(execution=execution, user=person("olga", Role.OPERATOR))
    deactivate_user(user=renamed.operator)
    assert code_of(renamed.work, execution=execution) == "NOT_PERMITTED"
    assert renamed.warehouse.commits == commits
    lose(execution)
    resume_execution(execution=execution, user=person("otto", Role.OPERATOR))
    assert renamed.work(execution).status == "succeeded"
