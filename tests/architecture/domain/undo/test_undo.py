"""Undo of operations: every planning case, whole and group by group."""

from dataclasses import dataclass, replace
from typing import Any

import pytest

from architecture.domain.operations import METADATA_ONLY
from architecture.domain.report import ChangeReport
from architecture.domain.states.flat_states import flat
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.report_steps import plan_steps
from architecture.domain.steps.step import Step, TableShape, becomes, shape_of
from architecture.domain.tables import ObservedTable
from architecture.domain.undo.group_assignment import Answered, answered, undo_steps
from architecture.domain.undo.undo import Ground, UndoResult, first_dependent, undo_together, undoable
from architecture.domain.undo.undo_groups import USE, Executed, UndoGroup, undo_groups
from metadata.domain.state import ColumnState, DatasetState
from tests.architecture.domain.planning.test_cases import CASES
from tests.architecture.domain.steps.test_plan_cases import observed, report, states, tables
from tests.architecture.states import EVERYTHING_ALLOWED, carried_out, column, dataset, inverses, state
from tests.architecture.tables import key

Shapes = dict[str, TableShape]


@dataclass
class ExecutedReport:
    """Executed report: states and tables before and after it, and its undo groups."""

    before: dict[str, DatasetState]
    left: dict[str, DatasetState]
    applied: dict[str, DatasetState]
    start: Shapes
    shapes: Shapes
    change_report: ChangeReport
    groups: tuple[UndoGroup, ...]

    @property
    def ground(self) -> Ground:
        return Ground(self.applied, self.before, self.left, self.shapes)

    def group(self, op: str, column_name: str = "") -> UndoGroup:
        wanted = (op, column_name)
        return next(
            group
            for group in self.groups
            if any((operation.op, operation.column) == wanted for operation in group.operations)
        )

    def back(self, *groups: UndoGroup) -> Answered | None:
        """Undo these groups together; return None if that is impossible."""
        result = undo_together(groups, self.ground)
        answer = answered(result.groups, self.report_back(result).operations, self.ground.described)
        if result.problems or answer.foreign or (answer.kept and undo_together(answer.done, self.ground).problems):
            return None
        run(undo_steps(answer.steps, self.shapes, {}), self.shapes)
        for dataset_key, reached in result.states.items():
            self.applied.pop(dataset_key, None)
            if reached is not None:
                self.applied[dataset_key] = reached
        return answer

    def report_back(self, result: UndoResult) -> ChangeReport:
        """Return the undo report, as the service builds it."""
        applied = ArchitectureState(tuple(dataset for at, dataset in self.applied.items() if at in result.states))
        desired = ArchitectureState(tuple(dataset for dataset in result.states.values() if dataset is not None))
        return report(applied, observed_tables(self.shapes), desired, EVERYTHING_ALLOWED)


def observed_tables(shapes: Shapes) -> dict[str, ObservedTable]:
    return {
        at: ObservedTable(at, shape.qualified_name, shape.columns, 3, shape.partition_by, dropped=shape.dropped)
        for at, shape in shapes.items()
    }


def run(steps: tuple[Step, ...], shapes: Shapes) -> None:
    for step in steps:
        if step.leaves_trace:
            assert step.assumes is None or step.assumes.matches(shapes[step.table.key]), step.describe()
            shapes[step.table.key] = becomes(step)


def execute_report(before: ArchitectureState, after: ArchitectureState, shapes: Shapes | None = None) -> ExecutedReport:
    """Plan and execute a report. Table versions are the positions of steps."""
    start = {at: shape_of(table) for at, table in observed(before).items()} if shapes is None else shapes
    change_report = report(before, observed_tables(start), after, EVERYTHING_ALLOWED)
    steps = plan_steps(tables(after), observed_tables(start), change_report.operations)
    now = dict(start)
    run(steps, now)
    executed = [Executed(place, step.operation, step, place) for place, step in enumerate(steps)]
    stepless = [
        place for place in range(len(change_report.operations)) if place not in {entry.place for entry in executed}
    ]
    executed += [Executed(at, place) for at, place in enumerate(stepless, start=len(executed))]
    was = {dataset.key: flat(dataset) for dataset in before.datasets}
    left = {dataset.key: flat(dataset) for dataset in after.datasets}
    described = {
        column.key for side in (was, left) for described_state in side.values() for column in described_state.columns
    }
    applied = {dataset.key: dataset for dataset in carried_out(before, after, change_report).datasets}
    return ExecutedReport(
        was, left, applied, dict(start), now, change_report, undo_groups(change_report.operations, executed, described)
    )


def physical(shapes: Shapes) -> dict[str, TableShape]:
    """Return the tables that exist, without histories, which stay with their keys once created."""
    return {
        at: shape for at, shape in shapes.items() if not shape.dropped and not shape.qualified_name.endswith("_hist")
    }


def open_cases() -> list:
    cases = []
    for case in CASES:
        before, after = states(case.values[0] if hasattr(case, "values") else case)
        change_report = report(before, observed(before), after, EVERYTHING_ALLOWED)
        if change_report.status == "open" and any(
            operation.decision != METADATA_ONLY for operation in change_report.operations
        ):
            cases.append(case)
    return cases


OPEN_CASES = open_cases()


def is_restored(executed: ExecutedReport, kept_groups: tuple[UndoGroup, ...]) -> bool:
    """Return True if all tables are as before, except those of kept groups, which are of retired objects."""
    spared = {step.table.key for group in kept_groups for step in group.steps}
    return all(executed.shapes[at].matches(shape) for at, shape in physical(executed.start).items() if at not in spared)


@pytest.mark.parametrize("case", OPEN_CASES)
def test_undo_of_all_groups_restores_the_tables_of_a_planning_case(case):
    executed = execute_report(*states(case))
    answer = executed.back(*executed.groups)
    assert answer is not None
    assert physical(executed.shapes).keys() == physical(executed.start).keys()
    assert is_restored(executed, answer.kept)


def _last_first(groups: tuple[UndoGroup, ...]) -> list[UndoGroup]:
    """Return the groups in undo order; restored objects last, since nothing else is planned for retired ones."""
    return sorted(groups, key=lambda group: (group.aspect == USE, -group.ordinals[0]))


@pytest.mark.parametrize("case", OPEN_CASES)
def test_undo_of_groups_from_last_to_first_restores_the_tables_of_a_planning_case(case):
    executed = execute_report(*states(case))
    waiting: list[UndoGroup] = []
    for group in _last_first(executed.groups):
        waiting.insert(0, group)
        if executed.back(*waiting) is not None:
            waiting = []
    assert waiting == []
    assert is_restored(executed, ())


# --- one of several ------------------------------------------------------------------------------


def customers(*columns: ColumnState, name: str = "rc_crm_customer", **fields: Any) -> DatasetState:
    return dataset(key("customers"), name, *columns, historize=True, history_key=key("hist"), **fields)


def col(name: str, type_: str = "string(50)", of: str = "", **fields: Any) -> ColumnState:
    return column(key("column", of or name), name, type_, **fields)


ID = col("id", "integer", role="business_key", nullable=False)


def changed(before: tuple[ColumnState, ...], after: tuple[ColumnState, ...]) -> ExecutedReport:
    return execute_report(state(customers(ID, *before)), state(customers(ID, *after)))


def problem(executed: ExecutedReport, *groups: UndoGroup) -> str:
    (obstacle,) = undo_together(groups, executed.ground).problems
    return obstacle.differs


@pytest.fixture
def renamed_twice() -> ExecutedReport:
    return changed((col("a"), col("b")), (col("x", of="a", former_names=("a",)), col("y", of="b")))


def test_operations_on_base_and_history_form_one_undo_group(renamed_twice: ExecutedReport):
    assert [len(group.ordinals) for group in renamed_twice.groups] == [2, 2]


def test_undo_of_one_group_leaves_the_other(renamed_twice: ExecutedReport):
    renamed_twice.back(renamed_twice.group("rename_column", "a"))
    for shape in renamed_twice.shapes.values():
        assert {column.name for column in shape.columns} >= {"a", "y"}
    assert {column.name for column in renamed_twice.applied[key("customers")].columns} == {"id", "a", "y"}


def test_group_undone_before_is_listed_separately(renamed_twice: ExecutedReport):
    group = renamed_twice.group("rename_column", "a")
    renamed_twice.back(group)
    assert undo_together(renamed_twice.groups, renamed_twice.ground).undone_before == (group,)


def test_undo_to_a_version_requires_undoing_the_later_group():
    executed = changed((col("n", "integer"),), (col("m", "bigint", of="n"),))
    widened, renamed = executed.group("widen_column", "n"), executed.group("rename_column", "n")
    assert widened.goes_to_version
    assert problem(executed, widened) == "the table was changed since"
    assert first_dependent(widened, [renamed]) == renamed
    assert executed.back(widened, renamed) is not None


def test_undo_to_a_version_keeps_the_earlier_change():
    executed = changed((col("n", "integer"), col("d", "integer")), (col("n", "bigint"), col("d", "bigint")))
    last = executed.group("widen_column", "n")
    first = executed.group("widen_column", "d")
    late = max(first, last, key=lambda group: group.ordinals[-1])
    assert executed.back(late) is not None
    types = {column.name: column.type for column in executed.applied[key("customers")].columns}
    assert sorted((types["n"], types["d"])) == ["bigint", "integer"]


def test_undo_of_a_rename_is_refused_while_another_column_has_the_name():
    executed = changed((col("a"),), (col("b", of="a", former_names=("a",)), col("a", of="new")))
    renamed = executed.group("rename_column", "a")
    assert problem(executed, renamed) == "another column is called a"
    assert executed.back(executed.group("add_column", "a"), renamed) is not None


def test_undo_is_refused_after_a_later_report_changed_the_column():
    first = changed((col("a"),), (col("b", of="a"),))
    later = execute_report(
        state(*first.applied.values()), state(customers(ID, col("c", of="a"))), shapes=dict(first.shapes)
    )
    first.applied, first.shapes = later.applied, later.shapes
    assert problem(first, first.group("rename_column", "a")) == "it was changed since"
    later.back(*later.groups)
    assert first.back(*first.groups) is not None


def test_undo_keeps_other_changes_of_a_later_report():
    first = changed((col("a"),), (col("b", of="a"),))
    more = customers(ID, col("b", of="a"), col("c"))
    later = execute_report(state(*first.applied.values()), state(more), shapes=dict(first.shapes))
    first.applied, first.shapes = later.applied, later.shapes
    assert first.back(*first.groups) is not None
    assert {column.name for column in first.applied[key("customers")].columns} == {"id", "a", "c"}


def test_undo_of_a_rename_alone_is_refused_while_an_expression_reads_the_new_name():
    def described(name: str) -> tuple[DatasetState, DatasetState]:
        base = dataset(key("base"), "rc_base", ID, col(name, of="a"))
        read = col("upper", expression=f"upper({name})", inputs=(key("column", "a"),))
        return base, dataset(key("reader"), "rc_reader", col("rid", role="business_key"), read)

    executed = execute_report(state(*described("a")), state(*described("b")))
    renamed = executed.group("rename_column", "a")
    (obstacle,) = undo_together([renamed], executed.ground).problems
    assert obstacle.reader == "rawcore.rc_reader.upper"
    assert executed.back(*executed.groups) is not None


def test_undo_of_a_created_table_is_refused_while_another_dataset_reads_it():
    base = dataset(key("base"), "rc_base", ID, col("a"))
    read = col("copy", inputs=(key("column", "a"),))
    reader = dataset(key("reader"), "rc_reader", col("rid", role="business_key"), read, inputs=(key("base"),))
    executed = execute_report(state(), state(base, reader))
    created_group = next(group for group in executed.groups if group.dataset_key == key("base"))
    assert problem(executed, created_group) == "rawcore.rc_reader.copy would read what is not there"


def test_undoable_returns_the_largest_set_of_groups_that_can_be_undone():
    executed = changed((col("n", "integer"), col("a")), (col("m", "bigint", of="n"), col("b", of="a")))
    column_key = key("column", "a")
    at = key("customers")
    columns = tuple(
        replace(column, name="hand") if column.key == column_key else column for column in executed.shapes[at].columns
    )
    executed.shapes[at] = replace(executed.shapes[at], columns=columns)
    result = undoable(executed.groups, executed.ground)
    barred = {obstacle.group.describe(): obstacle.differs for obstacle in result.problems}
    assert any("a → b" in difference for difference in barred)
    assert [group.describe() for group in result.groups] == ["rename_column rawcore.rc_crm_customer: n → m"]


def test_undo_to_a_version_that_was_not_recorded_is_refused():
    executed = changed((col("n", "integer"),), (col("n", "bigint"),))
    (group,) = executed.groups
    lost = replace(group, executed=tuple(replace(entry, version_before=None) for entry in group.executed))
    assert lost.version_is_lost
    assert "not recorded" in problem(executed, lost)


def test_undo_retires_a_restored_column_and_keeps_its_new_name():
    executed = changed((col("a", active=False),), (col("b", of="a"),))
    assert [group.describe() for group in executed.back(*executed.groups).kept] == [
        "rename_column rawcore.rc_crm_customer: a → b"
    ]


def test_undo_of_a_table_rename_republishes_the_views_of_its_history():
    executed = execute_report(state(customers(ID)), state(customers(ID, name="rc_crm_client")))
    answer = answered(
        executed.groups,
        executed.report_back(undo_together(executed.groups, executed.ground)).operations,
        executed.ground.described,
    )
    last = undo_steps(answer.steps, executed.shapes, {key("hist"): ["CREATE VIEW v"]})[-1]
    assert (last.op, last.view, last.dataset) == ("publish_view", "CREATE VIEW v", "rawcore.rc_crm_customer_hist")


def test_undo_steps_have_inverses_that_restore_the_executed_state():
    executed = changed((col("n", "integer"),), (col("n", "bigint"), col("c")))
    shapes = dict(executed.shapes)
    result = undo_together(executed.groups, executed.ground)
    back = undo_steps(
        answered(executed.groups, executed.report_back(result).operations, executed.ground.described).steps, shapes, {}
    )
    run(back, shapes)
    again = inverses([(step, place) for place, step in enumerate(back)], shapes)
    assert {step.op for step in again} == {"restore_table", "add_column"}
    run(again, shapes)
    assert all(shapes[at].matches(shape) for at, shape in executed.shapes.items())
