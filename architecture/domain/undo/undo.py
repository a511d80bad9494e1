"""Undo of operations: the check that it is possible, and the resulting datasets and tables.

The check uses the current state, not the state that the record left. Therefore an operation can be undone although
others of the record are not, and cannot be undone if its object was changed since. Steps are undone in reverse order.
To restore a previous version, the table must be exactly as its step left it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.steps.features import OPEN, SPARK
from architecture.domain.steps.inverses import KEPT, StoodOn, Unwinding
from architecture.domain.steps.step import PUBLISH_VIEW, RENAME_TABLE, Step, TableShape
from architecture.domain.tables import TableSpec
from architecture.domain.undo.undo_groups import (
    BEFORE,
    MOVED,
    State,
    Subject,
    UndoGroup,
    subjects_of,
    undone,
    unreadable,
)
from metadata.domain.state import DatasetState


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


# --- operations and steps of the undo report ---------------------------------------------------

# An executed step, its table's version before, and the ordinal of the undo report's operation that undoes it.
Owned = tuple[Step, int | None, int]


@dataclass(frozen=True)
class Answered:
    """Assignment of the operations of an undo report to undone groups.

    The groups in ``done`` have an operation, those in ``kept`` have none: their tables stay. ``steps`` are the steps
    of ``done``, in their order; ``foreign`` are the operations that belong to no group, with their subjects.
    """

    done: tuple[UndoGroup, ...]
    kept: tuple[UndoGroup, ...]
    steps: tuple[Owned, ...]
    foreign: tuple[tuple[Operation, Subject], ...]


def answered(groups: Iterable[UndoGroup], operations: Sequence[Operation], described: Collection[str]) -> Answered:
    """Return the assignment of the undo report's operations to these groups; an operation may undo several."""
    assignment = _Assignment(operations, subjects_of(operations, described))
    answers = [(group, assignment.of(group)) for group in groups]
    steps = [
        (executed.ordinal, (executed.step, executed.version_before, _owner(executed.step, own)))
        for group, own in answers
        for executed in (group.executed if own else ())
        if executed.step is not None
    ]
    assigned = {ordinal for _, own in answers for ordinal, _ in own}
    return Answered(
        done=tuple(group for group, own in answers if own),
        kept=tuple(group for group, own in answers if not own),
        steps=tuple(owned for _, owned in sorted(steps, key=lambda row: row[0])),
        foreign=tuple((item, assignment.subjects[at]) for at, item in enumerate(operations) if at not in assigned),
    )


class _Assignment:
    """Operations of an undo report by dataset, and renames by names."""

    def __init__(self, operations: Sequence[Operation], subjects: Sequence[Subject]) -> None:
        self.subjects = subjects
        self.by_dataset: dict[str, list[tuple[int, Operation]]] = {}
        self.renames: dict[tuple[str, str], tuple[int, Operation]] = {}
        for ordinal, operation in enumerate(operations):
            self.by_dataset.setdefault(operation.dataset_key, []).append((ordinal, operation))
            if operation.op == RENAME_TABLE:
                self.renames[operation.from_, operation.to] = ordinal, operation

    def of(self, group: UndoGroup) -> list[tuple[int, Operation]]:
        """Return the operations that undo a group, including renames of another dataset's retired history."""
        own = self.by_dataset.get(group.dataset_key, ())
        answers = {
            ordinal: operation for ordinal, operation in own if group.answered_by(operation, self.subjects[ordinal])
        }
        moved = [(step.to_name, step.from_name) for step in group.steps if step.op == RENAME_TABLE]
        answers |= dict(self.renames[names] for names in moved if names in self.renames)
        return sorted(answers.items())


def _owner(step: Step, operations: Iterable[tuple[int, Operation]]) -> int:
    """Return the ordinal of the first operation on the step's side (base or history), else of the first."""
    side = HISTORY if step.table.kind in KEPT else BASE
    return min((operation.side != side, ordinal) for ordinal, operation in operations)[1]


def undo_steps(
    executed: Sequence[Owned],
    shapes: Mapping[str, TableShape],
    views: Mapping[str, Sequence[str]],
    *,
    readers: str = SPARK,
) -> tuple[Step, ...]:
    """Return the steps that undo these steps, each with its operation of the undo report.

    Views over a changed history are published again (``views`` by the history's key). Raises StoodOn if a table was
    changed since.
    """
    unwinding = Unwinding(shapes, rewrites=readers == OPEN)
    steps: list[Step] = []
    for done, version, ordinal in reversed(executed):
        steps += [replace(step, operation=ordinal) for step in unwinding.take_back(done, version)]
    return (*steps, *_view_steps(steps, unwinding.shapes, views))


def _view_steps(
    steps: Sequence[Step], shapes: Mapping[str, TableShape], views: Mapping[str, Sequence[str]]
) -> Iterable[Step]:
    for key, last in {step.table.key: step for step in steps if step.leaves_trace}.items():
        shape = shapes.get(key)
        if shape is None or shape.dropped:
            continue
        schema, _, name = shape.qualified_name.partition(".")
        table = TableSpec(key, schema, name, last.table.kind, (), last.table.partition_by, last.table.owner)
        for statement in views.get(key, ()):
            yield Step(PUBLISH_VIEW, table, view=statement, assumes=shape, operation=last.operation)
