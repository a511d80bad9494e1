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
from architecture.domain.steps.step import KEPT, PUBLISH_VIEW, RENAME_TABLE, Step, StoodOn, TableShape, Unwinding
from architecture.domain.tables import TableSpec
from architecture.domain.undo_groups import BEFORE, MOVED, State, Subject, WayBack, subjects_of, undone, unreadable
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

    way: WayBack
    differs: str
    reader: str = ""


@dataclass(frozen=True)
class TakenBack:
    """Result of undoing groups together: the ``states`` of their datasets after it (None: removed).

    ``ways`` are the groups that are undone, ``back`` those that were undone before. If there are ``problems``, the
    other fields are undefined.
    """

    ways: tuple[WayBack, ...]
    back: tuple[WayBack, ...]
    problems: tuple[Problem, ...]
    states: Mapping[str, State]


def take_back(ways: Iterable[WayBack], ground: Ground) -> TakenBack:
    """Return the result of undoing these groups together, with at most one problem per dataset."""
    attempt = _Attempt(ground, dict(ground.applied))
    ways = tuple(ways)
    for way in reversed(ways):
        attempt.undo_state(way)
    attempt.undo_steps([way for way in ways if way.dataset_key not in attempt.stopped])
    back = tuple(way for way in ways if way.ordinals in attempt.back)
    undone_ways = tuple(way for way in ways if way.ordinals not in attempt.back)
    states = {way.dataset_key: attempt.states.get(way.dataset_key) for way in undone_ways}
    problems = tuple(attempt.problems) or tuple(_reader_problems(undone_ways, states, ground))
    return TakenBack(undone_ways, back, problems, states)


def what_can_be(ways: Iterable[WayBack], ground: Ground) -> TakenBack:
    """Return the largest set of groups that can be undone together, with the problems of the others."""
    candidates, problems = tuple(ways), ()
    while True:
        result = take_back(candidates, ground)
        if not result.problems:
            return replace(result, problems=problems)
        problems += result.problems
        excluded = {problem.way.ordinals for problem in result.problems}
        candidates = tuple(way for way in candidates if way.ordinals not in excluded)


@dataclass
class _Attempt:
    """States and tables while groups are undone. ``stopped`` are the datasets with a group that cannot be undone."""

    ground: Ground
    states: dict[str, State]
    problems: list[Problem] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    # Ordinals of groups whose change is not in the states any more: perhaps, and certainly, undone before.
    doubtful: set[tuple[int, ...]] = field(default_factory=set)
    back: set[tuple[int, ...]] = field(default_factory=set)

    def undo_state(self, way: WayBack) -> None:
        key = way.dataset_key
        result = undone(way, self.states.get(key), self.ground.before.get(key), self.ground.left.get(key))
        if result.found == MOVED:
            self._stop(way, "it was changed since")
        elif result.found == BEFORE:
            (self.doubtful if way.changes_tables else self.back).add(way.ordinals)
        self.states[key] = result.state

    def undo_steps(self, ways: Sequence[WayBack]) -> None:
        """Undo the steps of the groups, the last step first.

        A group whose execution was interrupted may be undone in the tables although the states lack its change.
        """
        unwinding = Unwinding(self.ground.shapes)
        rows = sorted(((executed, way) for way in ways for executed in way.executed), key=lambda row: -row[0].ordinal)
        for executed, way in rows:
            skipped = way.dataset_key in self.stopped or way.ordinals in self.back
            if executed.step is None or skipped:
                continue
            try:
                unwinding.take_back(executed.step, executed.version_before)
            except StoodOn as problem:
                if way.ordinals in self.doubtful:
                    self.back.add(way.ordinals)
                else:
                    self._stop(way, problem.differs)

    def _stop(self, way: WayBack, differs: str) -> None:
        if way.dataset_key not in self.stopped:
            self.stopped.add(way.dataset_key)
            self.problems.append(Problem(way, differs))


def _reader_problems(taken: Sequence[WayBack], states: Mapping[str, State], ground: Ground) -> Iterable[Problem]:
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
        way = _cause(taken, key, column_key, column.inputs, ground)
        if way is not None:
            reader = f"{after[key].qualified_name}.{column.name}"
            yield Problem(way, f"{reader} would read what is not there", reader)


def _cause(
    taken: Sequence[WayBack], dataset: str, column: str, inputs: Iterable[str], ground: Ground
) -> WayBack | None:
    """Return the first undone group that changes a column or its inputs; None if there is none."""
    owners = {
        column.key: key
        for key, state in ground.applied.items()
        for column in state.columns
        if column.key in set(inputs)
    }
    for way in taken:
        own = way.dataset_key == dataset and way.column_key == column
        if own or (way.dataset_key in owners.values() and (not way.column_key or way.column_key in owners)):
            return way
    return None


def stands_on(way: WayBack, others: Iterable[WayBack]) -> WayBack | None:
    """Return the first of ``others``, later in the same record, that depends on ``way``; None if there is none."""
    tables = {step.table.key for step in way.steps if step.leaves_trace}
    for other in others:
        later = [executed for executed in other.executed if executed.ordinal > way.ordinals[0]]
        same_table = any(executed.step and executed.step.table.key in tables for executed in later)
        same_subject = other.dataset_key == way.dataset_key and other.column_key in (way.column_key, "")
        if later and (same_table if way.steps else same_subject):
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

    done: tuple[WayBack, ...]
    kept: tuple[WayBack, ...]
    steps: tuple[Owned, ...]
    foreign: tuple[tuple[Operation, Subject], ...]


def answered(ways: Iterable[WayBack], operations: Sequence[Operation], described: Collection[str]) -> Answered:
    """Return the assignment of the undo report's operations to these groups; an operation may undo several."""
    assignment = _Assignment(operations, subjects_of(operations, described))
    answers = [(way, assignment.of(way)) for way in ways]
    steps = [
        (executed.ordinal, (executed.step, executed.version_before, _owner(executed.step, own)))
        for way, own in answers
        for executed in (way.executed if own else ())
        if executed.step is not None
    ]
    assigned = {ordinal for _, own in answers for ordinal, _ in own}
    return Answered(
        done=tuple(way for way, own in answers if own),
        kept=tuple(way for way, own in answers if not own),
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

    def of(self, way: WayBack) -> list[tuple[int, Operation]]:
        """Return the operations that undo a group, including renames of another dataset's retired history."""
        own = self.by_dataset.get(way.dataset_key, ())
        answers = {
            ordinal: operation for ordinal, operation in own if way.answered_by(operation, self.subjects[ordinal])
        }
        moved = [(step.to_name, step.from_name) for step in way.steps if step.op == RENAME_TABLE]
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
