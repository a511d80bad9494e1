"""Executions as they are recorded, and what becomes applied state."""

from uuid import NAMESPACE_DNS, uuid5

import pytest

from architecture.domain.operations import ADD_COLUMN, CREATE_TABLE, Operation
from architecture.domain.tables import ColumnSpec, TableSpec
from architecture.models import AppliedTable, Environment, Execution
from architecture.selectors import applied_tables, desired_tables, executions, operations_on
from architecture.services import (
    begin_execution,
    current_environment,
    finish_execution,
    operation_finished,
    operation_started,
)
from metadata.domain.state import ColumnState, DatasetState

pytestmark = pytest.mark.django_db


def key(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


COLUMN = ColumnSpec(key("a.x"), "x", "string", "attribute")
TABLE = TableSpec(key("a"), "raw", "a", "raw", (COLUMN,))
OTHER = TableSpec(key("b"), "raw", "b", "raw", (COLUMN,))
OPERATIONS = (Operation(CREATE_TABLE, TABLE), Operation(ADD_COLUMN, OTHER, COLUMN))
SEEN = {"key": TABLE.key, "columns": [{"name": "x", "type": "string"}], "version": 0}


@pytest.fixture
def execution() -> Execution:
    return begin_execution(environment=current_environment(), operations=OPERATIONS, reason="a test")


def test_the_environment_is_made_once_and_follows_the_settings(settings):
    first = current_environment()
    settings.WAREHOUSE = "/elsewhere"
    assert current_environment() == first
    assert Environment.objects.get().warehouse == "/elsewhere"


def test_looking_for_the_environment_writes_nothing(django_assert_num_queries):
    current_environment()
    with django_assert_num_queries(1):
        current_environment()


def test_every_operation_is_a_row_before_it_runs(execution):
    rows = list(execution.operations.values_list("ordinal", "op", "qualified_name", "column_name", "status"))
    assert rows == [
        (0, "create_table", "raw.a", "", "planned"),
        (1, "add_column", "raw.b", "x", "planned"),
    ]


def test_a_success_is_recorded_and_applied_together(execution):
    operation_started(execution=execution, ordinal=0, statement="CREATE TABLE a", version_before=None)
    operation_finished(execution=execution, ordinal=0, succeeded=True, observed=SEEN, version_after=0, seconds=0.5)
    row = execution.operations.get(ordinal=0)
    assert (row.status, row.statement, row.version_after, row.seconds) == ("succeeded", "CREATE TABLE a", 0, 0.5)
    (applied,) = applied_tables(environment=execution.environment)
    assert (str(applied.table_key), applied.structure, applied.table_version) == (TABLE.key, SEEN, 0)
    assert applied.execution == execution


def test_a_failure_is_recorded_and_claims_nothing(execution):
    operation_finished(execution=execution, ordinal=1, succeeded=False, error={"code": "X", "message": "no room"})
    row = execution.operations.get(ordinal=1)
    assert (row.status, row.error) == ("failed", "no room")
    assert not AppliedTable.objects.exists()


def test_a_result_is_taken_once(execution):
    operation_finished(execution=execution, ordinal=0, succeeded=True, observed=SEEN, version_after=0)
    operation_finished(execution=execution, ordinal=0, succeeded=False, error={"code": "X", "message": "late"})
    operation_started(execution=execution, ordinal=0, statement="late")
    row = execution.operations.get(ordinal=0)
    assert (row.status, row.error, row.statement) == ("succeeded", "", "")


def test_an_execution_succeeded_if_all_of_it_did(execution):
    for ordinal in (0, 1):
        operation_finished(execution=execution, ordinal=ordinal, succeeded=True, observed=SEEN, version_after=1)
    ended = finish_execution(execution=execution)
    assert (ended.status, ended.finished_at is not None) == ("succeeded", True)
    assert finish_execution(execution=execution).finished_at == ended.finished_at


def test_an_execution_that_was_left_half_way_failed(execution):
    operation_finished(execution=execution, ordinal=0, succeeded=True, observed=SEEN, version_after=1)
    assert finish_execution(execution=execution).status == "failed"
    (listed,) = executions(environment=execution.environment)
    assert (listed.operation_count, listed.failed_count) == (2, 0)
    assert operations_on(table_key=TABLE.key, environment=execution.environment).count() == 1


def test_desired_tables_follow_from_states():
    states = [
        DatasetState(key("r"), "raw", "raw", "r", (ColumnState(key("r.x"), "x", "string"),)),
        DatasetState(key("s"), "stage", "stage", "s", (), materialization="view"),
        DatasetState(key("c"), "core", "rawcore", "c", (), historize=True, history_key=key("h")),
        DatasetState(key("o"), "core", "rawcore", "o", (), active=False),
    ]
    assert [table.qualified_name for table in desired_tables(states)] == ["raw.r", "core.c", "core.c_hist"]
