"""Resumption of executions: a crash at any point repeats no finished step and omits none."""

from dataclasses import replace
from uuid import NAMESPACE_DNS, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architecture.domain.steps.resumption import steps_left
from architecture.domain.steps.step import (
    ADD_COLUMN,
    CREATE_TABLE,
    RENAME_COLUMN,
    RENAME_TABLE,
    WIDEN_COLUMN,
    Retyped,
    Step,
    StepProblem,
    TableShape,
    becomes,
    done_by,
)
from architecture.domain.tables import ColumnSpec, ObservedTable, TableSpec


def key(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def column(name: str, type_: str = "string") -> ColumnSpec:
    return ColumnSpec(key(name), name, type_, "attribute")


class Collector:
    """Collector of steps on two tables, each with the result of the step before as its assumption."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.shapes: dict[str, TableShape] = {}

    def add(self, step: Step) -> None:
        step = replace(step, assumes=self.shapes.get(step.table.key))
        self.shapes[step.table.key] = becomes(step)
        self.steps.append(step)


def twelve_steps() -> tuple[Step, ...]:
    collector = Collector()
    for name in ("rc_a", "rc_b"):
        table = TableSpec(key(name), "rawcore", name, "rawcore", (column("x"), column("n", "integer")))
        collector.add(Step(CREATE_TABLE, table))
    for name in ("rc_a", "rc_b"):
        bare = TableSpec(key(name), "rawcore", name, "rawcore", ())
        collector.add(Step(RENAME_TABLE, bare, from_name=f"rawcore.{name}", to_name=f"rawcore.{name}_new"))
        collector.add(Step(RENAME_COLUMN, bare, column("x"), from_name="x", to_name="y"))
        collector.add(Step(ADD_COLUMN, bare, column("x2")))
        collector.add(Step(WIDEN_COLUMN, bare, retyped=(Retyped("n", "integer", "bigint"),)))
        collector.add(Step(RENAME_COLUMN, bare, column("x"), from_name="y", to_name="z"))
    return tuple(collector.steps)


STEPS = twelve_steps()


class Tables:
    """In-memory tables with a list of commits."""

    def __init__(self) -> None:
        self.shapes: dict[str, TableShape] = {}
        self.commits: list[str] = []

    def observed(self) -> dict[str, ObservedTable]:
        return {k: ObservedTable(k, s.qualified_name, s.columns, 0, s.partition_by) for k, s in self.shapes.items()}

    def run(self, step: Step) -> None:
        if not done_by(step, self.observed().get(step.table.key)):
            self.shapes[step.table.key] = becomes(step)
            self.commits.append(step.describe())


def run_until(tables: Tables, finished: set[int], dies_at: float | None) -> bool:
    """Run one attempt and return True if it finished.

    ``dies_at`` n: it dies before step n; n + 0.5: after step n is committed, before it is recorded.
    """
    for place in steps_left(STEPS, finished=finished, observed=tables.observed()):
        if dies_at == place:
            return False
        tables.run(STEPS[place])
        if dies_at == place + 0.5:
            return False
        finished.add(place)
    return True


def test_steps_of_the_example_are_twelve():
    assert len(STEPS) == 12


@pytest.mark.parametrize("dies_at", [place / 2 for place in range(24)])
def test_execution_killed_at_any_step_is_completed_without_repeating_a_step(dies_at):
    tables, finished = Tables(), set()
    assert not run_until(tables, finished, dies_at)
    assert run_until(tables, finished, None)
    assert finished == set(range(12))
    assert tables.commits == [step.describe() for step in STEPS]


@given(st.lists(st.integers(0, 23).map(lambda place: place / 2), max_size=8))
def test_execution_killed_repeatedly_is_completed_without_repeating_a_step(deaths):
    tables, finished = Tables(), set()
    for dies_at in deaths:
        run_until(tables, finished, dies_at)
    assert run_until(tables, finished, None)
    assert tables.commits == [step.describe() for step in STEPS]


def test_steps_left_is_empty_after_a_complete_execution():
    tables, finished = Tables(), set()
    run_until(tables, finished, None)
    assert steps_left(STEPS, finished=finished, observed=tables.observed()) == ()


def rename_column(tables: Tables, name: str) -> None:
    shape = tables.shapes[key(name)]
    columns = tuple(replace(column, name="other") if column.name == "n" else column for column in shape.columns)
    tables.shapes[key(name)] = replace(shape, columns=columns)


@pytest.mark.parametrize("dies_at", [2, 5, 7.5, 11])
def test_table_changed_by_another_writer_stops_the_resumed_execution(dies_at):
    tables, finished = Tables(), set()
    run_until(tables, finished, dies_at)
    rename_column(tables, "rc_b")
    with pytest.raises(StepProblem) as problem:
        steps_left(STEPS, finished=finished, observed=tables.observed())
    assert problem.value.code == "TABLE_MOVED"


def test_finished_table_changed_by_another_writer_stops_the_resumed_execution():
    tables, finished = Tables(), set()
    run_until(tables, finished, None)
    rename_column(tables, "rc_a")
    with pytest.raises(StepProblem):
        steps_left(STEPS, finished=finished, observed=tables.observed())


def test_table_reset_to_a_state_before_a_finished_step_stops_the_execution():
    tables, finished = Tables(), set()
    run_until(tables, finished, 5)
    shape_before = STEPS[3].assumes
    tables.shapes[key("rc_a")] = shape_before
    with pytest.raises(StepProblem):
        steps_left(STEPS, finished=finished, observed=tables.observed())
