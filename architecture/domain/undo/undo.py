"""Undo of operations: the check that it is possible, and the resulting datasets and tables.

The check uses the current state, not the state that the record left. Therefore an operation can be undone although
others of the record are not, and cannot be undone if its object was changed since. Steps are undone in reverse order.
To restore a previous version, the table must be exactly as its step left it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from architecture.domain.steps.inverses import StoodOn, Unwinding
from architecture.domain.steps.step import TableShape
from architecture.domain.undo.dataset_undo import BEFORE, MOVED, State, undone
from architecture.domain.undo.undo_groups import UndoGroup
from metadata.domain.sql import ExpressionProblem, check_expression
from metadata.domain.state import ColumnState, DatasetState


@dataclass(frozen=True)
class Ground:
    """State in which an undo is checked.

    ``applied`` are the applied states (flat) by dataset, ``shapes`` the tables' shapes, including dropped tables.
    ``before`` and ``left`` are the states of the record's datasets before it and after it.
    """

    applied: Mapping[str, DatasetState]
    before: Mapping[str, State]
    left: Mapping[str, State]
    shapes: Mapping[str, TableShape]

    @property
    def described(self) -> frozenset[str]:
        """Return the stable keys of the datasets' columns before and after the record, without technical ones."""
        states = [state for side in (self.before, self.left) for state in side.values() if state is not None]
        return frozenset(column.key for state in states for column in state.columns)

    @cached_property
    def known(self) -> frozenset[str]:
        """Return the stable keys of all applied columns."""
        return frozenset(column.key for state in self.applied.values() for column in state.columns)


@dataclass(frozen=True)
class Problem:
    """Reason why a group cannot be undone. ``reader`` is the column that would lose an input, if that is the reason."""

    group: UndoGroup
    differs: str
    reader: str = ""


@dataclass(frozen=True)
class UndoResult:
    """Result of undoing groups together: the ``states`` of their datasets after it (None: removed).

    ``groups`` are the groups that are undone, ``undone_before`` those that earlier undos or changes undid. If there are
    ``problems``, the other fields are undefined.
    """

    groups: tuple[UndoGroup, ...]
    undone_before: tuple[UndoGroup, ...]
    problems: tuple[Problem, ...]
    states: Mapping[str, State]


def undo_together(groups: Iterable[UndoGroup], ground: Ground) -> UndoResult:
    """Return the result of undoing these groups together, with at most one problem per dataset."""
    attempt = _Attempt(ground, dict(ground.applied))
    groups = tuple(groups)
    for group in reversed(groups):
        attempt.undo_state(group)
    attempt.undo_steps([group for group in groups if group.dataset_key not in attempt.stopped])
    undone_before = tuple(group for group in groups if group.ordinals in attempt.undone_before)
    undone = tuple(group for group in groups if group.ordinals not in attempt.undone_before)
    states = {group.dataset_key: attempt.states.get(group.dataset_key) for group in undone}
    problems = tuple(attempt.problems) or tuple(_reader_problems(undone, states, ground))
    return UndoResult(undone, undone_before, problems, states)


def undoable(groups: Iterable[UndoGroup], ground: Ground) -> UndoResult:
    """Return the largest set of groups that can be undone together, with the problems of the others."""
    candidates, problems = tuple(groups), tuple[Problem, ...]()
    while True:
        result = undo_together(candidates, ground)
        if not result.problems:
            return replace(result, problems=problems)
        problems += result.problems
        excluded = {problem.group.ordinals for problem in result.problems}
        candidates = tuple(group for group in candidates if group.ordinals not in excluded)


@dataclass
class _Attempt:
    """States and tables while groups are undone. ``stopped`` are the datasets with a group that cannot be undone."""

    ground: Ground
    states: dict[str, State]
    problems: list[Problem] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    # Ordinals of groups whose change is not in the states any more: perhaps, and certainly, undone before.
    doubtful: set[tuple[int, ...]] = field(default_factory=set)
    undone_before: set[tuple[int, ...]] = field(default_factory=set)

    def undo_state(self, group: UndoGroup) -> None:
        key = group.dataset_key
        result = undone(group, self.states.get(key), self.ground.before.get(key), self.ground.left.get(key))
        if result.found == MOVED:
            self._stop(group, "it was changed since")
        elif result.found == BEFORE:
            (self.doubtful if group.changes_tables else self.undone_before).add(group.ordinals)
        self.states[key] = result.state

    def undo_steps(self, groups: Sequence[UndoGroup]) -> None:
        """Undo the steps of the groups, the last step first.

        A group whose execution was interrupted may be undone in the tables although the states lack its change.
        """
        unwinding = Unwinding(self.ground.shapes)
        rows = sorted(
            ((executed, group) for group in groups for executed in group.executed), key=lambda row: -row[0].ordinal
        )
        for executed, group in rows:
            skipped = group.dataset_key in self.stopped or group.ordinals in self.undone_before
            if executed.step is None or skipped:
                continue
            try:
                unwinding.take_back(executed.step, executed.version_before)
            except StoodOn as problem:
                if group.ordinals in self.doubtful:
                    self.undone_before.add(group.ordinals)
                else:
                    self._stop(group, problem.differs)

    def _stop(self, group: UndoGroup, differs: str) -> None:
        if group.dataset_key not in self.stopped:
            self.stopped.add(group.dataset_key)
            self.problems.append(Problem(group, differs))


def _reader_problems(taken: Sequence[UndoGroup], states: Mapping[str, State], ground: Ground) -> Iterable[Problem]:
    """Yield the problems of readers that would lose an input."""
    after = {key: state for key, state in {**ground.applied, **states}.items() if state is not None}
    changed = {
        column.key
        for side in (ground.applied, after)
        for key in states
        for column in (side[key].columns if key in side else ())
    }
    reading = {
        key
        for key, state in after.items()
        if key in states or not all(changed.isdisjoint(column.inputs) for column in state.columns)
    }
    before = unreadable(ground.applied, reading, ground.known)
    for (key, column_key), missing in unreadable(after, reading, ground.known).items():
        if before.get((key, column_key)) == missing:
            continue
        column = next(column for column in after[key].columns if column.key == column_key)
        group = _cause(taken, key, column_key, column.inputs, ground)
        if group is not None:
            reader = f"{after[key].qualified_name}.{column.name}"
            yield Problem(group, f"{reader} would read what is not there", reader)


def _cause(
    taken: Sequence[UndoGroup], dataset: str, column: str, inputs: Iterable[str], ground: Ground
) -> UndoGroup | None:
    """Return the first undone group that changes a column or its inputs; None if there is none."""
    owners = {
        column.key: key
        for key, state in ground.applied.items()
        for column in state.columns
        if column.key in set(inputs)
    }
    for group in taken:
        own = group.dataset_key == dataset and group.column_key == column
        if own or (group.dataset_key in owners.values() and (not group.column_key or group.column_key in owners)):
            return group
    return None


def first_dependent(group: UndoGroup, others: Iterable[UndoGroup]) -> UndoGroup | None:
    """Return the first of ``others``, later in the same record, that depends on ``group``; None if there is none."""
    tables = {step.table.key for step in group.steps if step.leaves_trace}
    for other in others:
        later = [executed for executed in other.executed if executed.ordinal > group.ordinals[0]]
        same_table = any(executed.step and executed.step.table.key in tables for executed in later)
        same_subject = other.dataset_key == group.dataset_key and other.column_key in (group.column_key, "")
        if later and (same_table if group.steps else same_subject):
            return other
    return None


def unreadable(
    states: Mapping[str, DatasetState], reading: Collection[str], known: Collection[str]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the names or keys of missing inputs of the datasets ``reading``, by dataset and column.

    ``known`` are the keys of all target columns. An expression over other columns, those of sources, is not checked.
    """
    readers = [states[key] for key in reading if key in states]
    wanted = {input_key for state in readers for column in state.columns for input_key in column.inputs}
    names = {
        column.key: column.name.lower() for state in states.values() for column in state.columns if column.key in wanted
    }
    result: dict[tuple[str, str], tuple[str, ...]] = {}
    for state in readers:
        for column in state.active_columns if state.active else ():
            missing = _missing_inputs(column, names, known)
            if missing:
                result[state.key, column.key] = missing
    return result


def _missing_inputs(column: ColumnState, names: Mapping[str, str], known: Collection[str]) -> tuple[str, ...]:
    missing = tuple(key for key in column.inputs if key in known and key not in names)
    if missing or not column.inputs or not column.expression or any(key not in names for key in column.inputs):
        return missing
    present = {names[key] for key in column.inputs}
    try:
        return tuple(name for name in check_expression(column.expression) if name.lower() not in present)
    except ExpressionProblem:
        return ()
