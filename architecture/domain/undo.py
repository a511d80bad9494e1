"""Undo of operations: feasibility, resulting datasets and tables.

Feasibility is decided by the current state, not by the state that the record left: one operation alone can be
undone, and one that was changed since cannot. Steps are undone in reverse; a restore of a former version requires
the table to be exactly as its step left it.
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
    """Existing state: ``applied`` states (flat) by dataset, ``shapes`` by table, those of dropped tables too.

    ``before`` and ``left`` are the states of the record's datasets before it, and as it described them.
    """

    applied: Mapping[str, DatasetState]
    before: Mapping[str, State]
    left: Mapping[str, State]
    shapes: Mapping[str, TableShape]

    @property
    def described(self) -> frozenset[str]:
        """Return stable keys of the columns that were described before the record or with it."""
        states = [state for side in (self.before, self.left) for state in side.values() if state is not None]
        return frozenset(column.key for state in states for column in state.columns)

    @cached_property
    def known(self) -> frozenset[str]:
        """Return stable keys of all applied columns."""
        return frozenset(column.key for state in self.applied.values() for column in state.columns)


@dataclass(frozen=True)
class Problem:
    """Reason why a group cannot be undone. ``reader`` is the dataset that reads it, if that is the reason."""

    way: WayBack
    differs: str
    reader: str = ""


@dataclass(frozen=True)
class TakenBack:
    """The ``states`` of the touched datasets after an undo of ``ways`` (None: removed).

    ``back`` are those that were undone before. With ``problems`` the other fields are undefined.
    """

    ways: tuple[WayBack, ...]
    back: tuple[WayBack, ...]
    problems: tuple[Problem, ...]
    states: Mapping[str, State]


def take_back(ways: Iterable[WayBack], ground: Ground) -> TakenBack:
    """Try to undo these together; return at most one problem per dataset."""
    attempt = _Attempt(ground, dict(ground.applied))
    ways = tuple(ways)
    for way in reversed(ways):
        attempt.undo_state(way)
    attempt.undo_steps([way for way in ways if way.dataset_key not in attempt.stopped])
    back = tuple(way for way in ways if way.ordinals in attempt.back)
    undone_ways = tuple(way for way in ways if way.ordinals not in attempt.back)
    states = {way.dataset_key: attempt.states.get(way.dataset_key) for way in undone_ways}
    problems = tuple(attempt.problems) or tuple(_unread(undone_ways, states, ground))
    return TakenBack(undone_ways, back, problems, states)


def what_can_be(ways: Iterable[WayBack], ground: Ground) -> TakenBack:
    """Return the largest set that can be undone together, with every problem of the others."""
    left, problems = tuple(ways), ()
    while True:
        tried = take_back(left, ground)
        if not tried.problems:
            return replace(tried, problems=problems)
        problems += tried.problems
        barred = {problem.way.ordinals for problem in tried.problems}
        left = tuple(way for way in left if way.ordinals not in barred)


@dataclass
class _Attempt:
    """States and tables during an undo; ``stopped`` are datasets with an operation that could not be undone."""

    ground: Ground
    states: dict[str, State]
    problems: list[Problem] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    # Ordinals of operations already undone in the states, and in the tables.
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
        """Return the undo steps, last step first.

        An operation that died between its steps is undone in the tables alone.
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


def _unread(taken: Sequence[WayBack], states: Mapping[str, State], ground: Ground) -> Iterable[Problem]:
    """Yield the problems of readers that would lose a name or a table."""
    after = {key: state for key, state in {**ground.applied, **states}.items() if state is not None}
    touched = {
        column.key
        for side in (ground.applied, after)
        for key in states
        for column in (side[key].columns if key in side else ())
    }
    reading = {
        key
        for key, state in after.items()
        if key in states or not all(touched.isdisjoint(column.inputs) for column in state.columns)
    }
    before = unreadable(ground.applied, reading, ground.known)
    for (key, column_key), lacking in unreadable(after, reading, ground.known).items():
        if before.get((key, column_key)) == lacking:
            continue
        column = next(column for column in after[key].columns if column.key == column_key)
        way = _behind(taken, key, column_key, column.inputs, ground)
        if way is not None:
            reader = f"{after[key].qualified_name}.{column.name}"
            yield Problem(way, f"{reader} would read what is not there", reader)


def _behind(
    taken: Sequence[WayBack], dataset: str, column: str, inputs: Iterable[str], ground: Ground
) -> WayBack | None:
    """Return the undone groups that change what a column computes or reads."""
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
    """Return the first of ``others``, later in the same record, that depends on ``way``; None if none does."""
    tables = {step.table.key for step in way.steps if step.leaves_trace}
    for other in others:
        later = [executed for executed in other.executed if executed.ordinal > way.ordinals[0]]
        same_table = any(executed.step and executed.step.table.key in tables for executed in later)
        same_subject = other.dataset_key == way.dataset_key and other.column_key in (way.column_key, "")
        if later and (same_table if way.steps else same_subject):
            return other
    return None


# --- the undo's report, and the steps of its preview -------------------------------------------

# A step that was done, its table's version before, and the place of the undo's operation that takes it back.
Owned = tuple[Step, int | None, int]


@dataclass(frozen=True)
class Answered:
    """Assignment of the operations of an undo report to undone groups.

    ``done`` has an operation about it, ``kept`` has none: its tables stay. ``steps`` are those of ``done``, in
    their order; ``foreign`` are operations about something else, with their subjects.
    """

    done: tuple[WayBack, ...]
    kept: tuple[WayBack, ...]
    steps: tuple[Owned, ...]
    foreign: tuple[tuple[Operation, Subject], ...]


def answered(ways: Iterable[WayBack], operations: Sequence[Operation], described: Collection[str]) -> Answered:
    """Return the operation of the undo report that covers each of these groups; one may cover several."""
    answering = _Answering(operations, subjects_of(operations, described))
    answers = [(way, answering.of(way)) for way in ways]
    steps = [
        (executed.ordinal, (executed.step, executed.version_before, _owner(executed.step, own)))
        for way, own in answers
        for executed in (way.executed if own else ())
        if executed.step is not None
    ]
    about = {place for _, own in answers for place, _ in own}
    return Answered(
        done=tuple(way for way, own in answers if own),
        kept=tuple(way for way, own in answers if not own),
        steps=tuple(owned for _, owned in sorted(steps, key=lambda row: row[0])),
        foreign=tuple((item, answering.subjects[at]) for at, item in enumerate(operations) if at not in about),
    )


class _Answering:
    """Operations of a report by their subject."""

    def __init__(self, operations: Sequence[Operation], subjects: Sequence[Subject]) -> None:
        self.subjects = subjects
        self.by_dataset: dict[str, list[tuple[int, Operation]]] = {}
        self.renames: dict[tuple[str, str], tuple[int, Operation]] = {}
        for place, operation in enumerate(operations):
            self.by_dataset.setdefault(operation.dataset_key, []).append((place, operation))
            if operation.op == RENAME_TABLE:
                self.renames[operation.from_, operation.to] = place, operation

    def of(self, way: WayBack) -> list[tuple[int, Operation]]:
        """Return the operations that undo a group, including the renamed retired history of another dataset."""
        own = self.by_dataset.get(way.dataset_key, ())
        answers = {place: operation for place, operation in own if way.answered_by(operation, self.subjects[place])}
        moved = [(step.to_name, step.from_name) for step in way.steps if step.op == RENAME_TABLE]
        answers |= dict(self.renames[names] for names in moved if names in self.renames)
        return sorted(answers.items())


def _owner(step: Step, operations: Iterable[tuple[int, Operation]]) -> int:
    """Return the first operation of the step's own side, else the first."""
    side = HISTORY if step.table.kind in KEPT else BASE
    return min((operation.side != side, place) for place, operation in operations)[1]


def undo_steps(
    executed: Sequence[Owned],
    shapes: Mapping[str, TableShape],
    views: Mapping[str, Sequence[str]],
    *,
    readers: str = SPARK,
) -> tuple[Step, ...]:
    """Return the steps that undo these steps, each under its operation of the undo report.

    Views over a history that was touched are published again (``views`` by the history's key). StoodOn
    if a table moved.
    """
    unwinding = Unwinding(shapes, rewrites=readers == OPEN)
    steps: list[Step] = []
    for done, version, place in reversed(executed):
        steps += [replace(step, operation=place) for step in unwinding.take_back(done, version)]
    return (*steps, *_published(steps, unwinding.shapes, views))


def _published(
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
