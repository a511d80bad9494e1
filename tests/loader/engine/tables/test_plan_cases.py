"""Every planning case on real Delta tables with rows: refused while blocked, then executed.

Rows are compared before and after by stable column key: only dropped columns are lost, every value has the
same meaning in its new type, and new columns are empty.
"""

import itertools
import re
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pytest

from architecture.domain.change_policy import PolicySet
from architecture.domain.history_views import history_views
from architecture.domain.operations import DROP_COLUMN, HISTORY, METADATA_ONLY
from architecture.domain.policy_rules import APPROVE, BLOCK
from architecture.domain.report import ChangeReport
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.report_steps import check_belongs, plan_steps
from architecture.domain.steps.statements import place_of
from architecture.domain.steps.step import StepProblem
from architecture.domain.tables import (
    CLOSED,
    DELETED,
    OPEN,
    ColumnSpec,
    ObservedColumn,
    ObservedTable,
    TableSpec,
    stored,
)
from architecture.domain.tables import tables_of as tables_of_dataset
from loader.engine.tables import steps
from loader.engine.tables.tables import DeltaTable
from metadata.domain.state import DatasetState
from metadata.domain.types import parse, spark_type
from tests.architecture.domain.planning.test_cases import CASES
from tests.architecture.domain.steps.test_plan_cases import report, states, tables, with_retired
from tests.architecture.states import EVERYTHING_ALLOWED, carried_out

pytestmark = pytest.mark.spark

# Two of the most complex cases; the others run at night.
BY_DAY = {
    "history-another_kind_of_type_where_types_may_change",
    "renames-onto_the_name_of_one_that_goes_historized",
}
PARAMETERS = [
    case if case.id in BY_DAY else pytest.param(*case.values, id=case.id, marks=pytest.mark.nightly)
    for case in CASES
    if case.values[0]["expect"]["status"] != "no_changes"
]

# An environment may declare a lower severity for each blocking rule.
NOTHING_BLOCKED = replace(
    EVERYTHING_ALLOWED,
    severities={
        code: APPROVE if severity == BLOCK else severity for code, severity in EVERYTHING_ALLOWED.severities.items()
    },
)
# The types have no value in common, so only rows without a value can be converted.
NEVER_FITS = {("date", "boolean"), ("boolean", "integer")}
_numbers = itertools.count()


@pytest.mark.core
def test_cases_selected_by_day_exist():
    assert {case.id for case in CASES} >= BY_DAY


@dataclass
class Warehouse:
    """Tables of one case, published in separate schemas."""

    spark: Any
    folder: str
    prefix: str

    def table(self, key: str) -> DeltaTable:
        return DeltaTable(self.spark, self.folder, key)

    def observed(self, keys: set[str]) -> dict[str, ObservedTable]:
        return {key: observation for key in keys if (observation := self.table(key).observe()) is not None}

    def run(self, planned: tuple) -> None:
        events: list[dict] = []
        done = steps.execute(
            self.spark,
            self.folder,
            planned,
            lambda event, **fields: events.append({"event": event} | fields),
            execution="1",
            schema_prefix=self.prefix,
        )
        assert done, next(event["error"] for event in events if event.get("error"))

    def fill(self, table: TableSpec, rows: list[list[str]]) -> None:
        listed = ", ".join(f"({', '.join(row)})" for row in rows)
        self.spark.sql(f"INSERT INTO {place_of(table.key, self.folder)} VALUES {listed}")

    def published(self) -> set[str]:
        """Return the catalog names of this case's tables; views are built over them."""
        schemas = [row[0] for row in self.spark.sql("SHOW SCHEMAS").collect() if row[0].startswith(self.prefix)]
        listed = [row for schema in schemas for row in self.spark.sql(f"SHOW TABLES IN `{schema}`").collect()]
        views = {
            (row.namespace, row.viewName)
            for schema in schemas
            for row in self.spark.sql(f"SHOW VIEWS IN `{schema}`").collect()
        }
        return {
            f"{row.namespace}.{row.tableName}".lower() for row in listed if (row.namespace, row.tableName) not in views
        }

    def rows(self, key: str) -> list[dict[str, Any]]:
        """Return the rows by column name."""
        return [row.asDict() for row in self.table(key).frame().collect()]


@pytest.fixture
def warehouse(spark, tmp_path):
    made = Warehouse(spark, str(tmp_path / "warehouse"), f"case{next(_numbers)}_")
    yield made
    for schema, *_ in spark.sql("SHOW SCHEMAS").collect():
        if schema.startswith(made.prefix):
            spark.sql(f"DROP SCHEMA `{schema}` CASCADE")


@pytest.mark.core
@pytest.mark.parametrize("case", PARAMETERS)
def test_planning_case_is_executed_on_tables_without_loss_of_rows(case: dict, warehouse: Warehouse):
    before, after = states(case)
    made = fill_tables(warehouse, before, after)
    keys = {table.key for table in (*made, *tables(after))}
    start = warehouse.observed(keys)
    refuse_while_blocked(case, before, after, start)
    done = report(before, start, after, NOTHING_BLOCKED)
    rows = {table.key: warehouse.rows(table.key) for table in made}
    views = {state.history_key: history_views(state) for state in after.datasets if state.historize and state.active}
    planned = check_belongs(plan_steps(tables(after), start, done.operations, views))
    warehouse.run(planned)
    observed = warehouse.observed(keys)
    for table in made:
        anew = {key.name for step in planned if step.table.key == table.key for key in step.rehashed}
        compare(warehouse, start[table.key], observed[table.key], rows[table.key], dropped_columns(table, done), anew)
    names = {f"{warehouse.prefix}{item.qualified_name}".lower() for item in observed.values() if not item.dropped}
    assert warehouse.published() == names
    for key in observed.keys() - start.keys():
        assert warehouse.rows(key) == []
    assert second_report(carried_out(before, after, done), observed, after) == ([], ())


def refuse_while_blocked(
    case: dict, before: ArchitectureState, after: ArchitectureState, start: dict[str, ObservedTable]
) -> None:
    policy = PolicySet.of_flags({name.removeprefix("allow_"): value for name, value in case["policy"].items()})
    done = report(before, start, after, policy)
    assert done.status == case["expect"]["status"]
    if done.status == "blocked":
        with pytest.raises(StepProblem) as refused:
            plan_steps(tables(after), start, done.operations)
        assert refused.value.code == "BLOCKED"


def second_report(
    reached: ArchitectureState, observed: dict[str, ObservedTable], after: ArchitectureState
) -> tuple[list[str], tuple]:
    """Return the operations of a second report, and their steps."""
    there = {key: table for key, table in observed.items() if not table.dropped}
    again = report(reached, there, after, NOTHING_BLOCKED)
    wanted = [operation.describe() for operation in again.operations if operation.decision != METADATA_ONLY]
    return wanted, plan_steps(tables(after), observed, again.operations)


# --- rows ------------------------------------------------------------------------------------


def fill_tables(warehouse: Warehouse, before: ArchitectureState, after: ArchitectureState) -> list[TableSpec]:
    """Create the earlier state's tables with three rows each, including retired tables and columns."""
    there = [with_retired(replace(dataset, active=True)) for dataset in before.datasets]
    made = [(dataset, table) for dataset in there for table in tables_of_dataset(dataset)]
    warehouse.run(plan_steps([table for _, table in made], {}))
    for dataset, table in made:
        wanted = wanted_of(dataset, after)
        warehouse.fill(table, [[literal(column, wanted, row) for column in table.columns] for row in range(3)])
    return [table for _, table in made]


def wanted_of(dataset: DatasetState, after: ArchitectureState) -> dict[str, tuple[str, bool]]:
    """Return type and nullability of the expected columns, by stable key and by name."""
    columns = [column for state in after.datasets if state.key == dataset.key for column in state.columns]
    shapes = {column.key: (column.type, column.nullable) for column in columns}
    return {column.name: shapes[column.key] for column in columns} | shapes


def literal(column: ColumnSpec, wanted: dict[str, tuple[str, bool]], row: int) -> str:
    """Return SQL of a value that survives the case; the last row's attributes are NULL where possible."""
    type_, nullable = wanted.get(column.key) or wanted.get(column.name) or (column.type, True)
    before, after = parse(stored(column.type)), parse(stored(type_))
    if column.purpose == "segment":
        return f"'{(OPEN, CLOSED, DELETED)[row]}'"
    empty = column.purpose == "attribute" and nullable and row == 2
    if empty or (before.name, after.name) in NEVER_FITS:
        return "NULL"
    return f"CAST({VALUES.get((before.name, after.name), VALUES[before.name])(row + 7)} AS {spark_type(before)})"


VALUES = {
    "string": lambda number: f"'text {number}'",
    "integer": str,
    "bigint": str,
    "decimal": lambda number: f"{number}.5",
    "float": lambda number: f"{number}.0",
    "boolean": lambda number: f"{number % 2 == 0}",
    "date": lambda number: f"'2024-01-{number:02}'",
    "timestamp": lambda number: f"'2024-01-{number:02} 00:00:00'",
    "binary": lambda number: f"'bytes {number}'",
    ("string", "integer"): lambda number: f"'{number}'",
    ("string", "timestamp"): lambda number: f"'2024-01-{number:02} 10:30:00'",
}


def dropped_columns(table: TableSpec, done: ChangeReport) -> set[str]:
    """Return the stable keys of columns that the report drops from a table."""
    side = HISTORY if table.kind in ("history", "event_log") else "base"
    return {
        operation.column_key
        for operation in done.operations
        if operation.op == DROP_COLUMN and operation.side == side and operation.dataset_key == table.dataset_key
    }


def compare(
    warehouse: Warehouse,
    before: ObservedTable,
    now: ObservedTable,
    rows: list[dict],
    dropped: set[str],
    anew: set[str],
) -> None:
    """Check that every row has its former values, new columns are empty, and missing columns were dropped.

    Keys rehashed ``anew`` must be digests, one for each former key.
    """
    new_rows = warehouse.rows(now.key)
    pairs = {column.name: present_name(column, now) for column in before.columns}
    gone = {column.key for column in before.columns if pairs[column.name] is None}
    assert gone == dropped
    for old, new in pairs.items():
        if new in anew:
            assert all(re.fullmatch("[0-9a-f]{64}", row[new]) for row in new_rows)
            assert len({row[new] for row in new_rows}) == len({row[old] for row in rows})
    comparable = {old: new for old, new in pairs.items() if new is not None and new not in anew}
    assert comparable_rows(new_rows, comparable.values()) == comparable_rows(rows, comparable)
    fresh = {column.name for column in now.columns} - set(comparable.values()) - anew
    assert {row[name] for row in new_rows for name in fresh} <= {None}
    if not now.dropped:
        assert warehouse.spark.table(f"{warehouse.prefix}{now.qualified_name}").count() == len(rows)


def present_name(column: ObservedColumn, now: ObservedTable) -> str | None:
    """Return the present name of a column, identified by stable key.

    A column replaced by one of another kind of type has lost its key, not its values.
    """
    for other in now.columns:
        if other.key is None and other.name.startswith("__retired_") and other.name.endswith(f"_{column.name}"):
            return other.name
    return next((own.name for own in now.columns if own.key == column.key), None)


def comparable_rows(rows: list[dict], names: Any) -> list[tuple]:
    """Return rows as sorted tuples of type-independent values."""
    return sorted((tuple(meaning(row[name]) for name in names) for row in rows), key=repr)


def meaning(value: Any) -> Any:
    """Return a text that is the same for equivalent values.

    Examples: ``7``, ``7.0``, ``Decimal("7.00")`` and ``"7"``; a day and its midnight.
    """
    if value is None or isinstance(value, bool):
        return value if value is None else str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return f"{value.isoformat()} 00:00:00"
    text = bytes(value).decode() if isinstance(value, bytes | bytearray) else str(value)
    try:
        return str(Decimal(text).normalize())
    except InvalidOperation:
        return f"{text} 00:00:00" if len(text) == 10 and text.count("-") == 2 else text
