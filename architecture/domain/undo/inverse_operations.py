"""Taking operations of a record back: which of them can be, and what datasets and tables are then.

Each is looked at on what is there now, not on what the record left: so one alone can be taken back, and
one that was changed since cannot. Steps are taken back in reverse; what goes back to a version before
needs the table to be exactly as its step left it by then.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.states.tables import TableSpec
from architecture.domain.steps.inverse_steps import KEPT, StoodOn, Unwinding
from architecture.domain.steps.step import PUBLISH_VIEW, RENAME_TABLE, Step, TableShape
from architecture.domain.undo.inverse_states import BEFORE, MOVED, State, undone, unreadable
from architecture.domain.undo.undo_groups import Subject, WayBack, subjects_of
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
        """Stable keys of the columns that people described, before the record or with it."""
        states = [state for side in (self.before, self.left) for state in side.values() if state is not None]
        return frozenset(column.key for state in states for column in state.columns)

    @cached_property
    def known(self) -> frozenset[str]:
        """Stable keys of all columns that are applied."""
        return frozenset(column.key for state in self.applied.values() for column in state.columns)


@dataclass(frozen=True)
class Problem:
    """Reason why a group cannot be undone. ``reader`` names what reads it, where that is the reason."""

    way: WayBack
    differs: str
    reader: str = ""


@dataclass(frozen=True)
class TakenBack:
    """The ``states`` of the touched datasets afterwards (None: not there), if ``ways`` are taken back.

    ``back`` are those that were taken back before. With ``problems`` nothing else is of use.
    """

    ways: tuple[WayBack, ...]
    back: tuple[WayBack, ...]
    problems: tuple[Problem, ...]
    states: Mapping[str, State]


def take_back(ways: Iterable[WayBack], ground: Ground) -> TakenBack:
    """Try to take these back together; at most one problem is told of each dataset."""
    attempt = _Attempt(ground, dict(ground.applied))
    ways = tuple(ways)
    for way in reversed(ways):
        attempt.undo_state(way)
    attempt.undo_steps([way for way in ways if way.dataset_key not in attempt.stopped])
    back = tuple(way for way in ways if way.ordinals in attempt.back)
    taken = tuple(way for way in ways if way.ordinals not in attempt.back)
    states = {way.dataset_key: attempt.states.get(way.dataset_key) for way in taken}
    problems = tuple(attempt.problems) or tuple(_unread(taken, states, ground))
    return TakenBack(taken, back, problems, states)


def what_can_be(ways: Iterable[WayBack], ground: Ground) -> TakenBack:
    """The most of these that can be taken back together, with every problem of the others."""
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
    """States and tables while operations are taken back; ``stopped`` are datasets where one could not be."""

    ground: Ground
    states: dict[str, State]
    problems: list[Problem] = field(default_factory=list)
    stopped: set[str] = field(default_factory=set)
    # Ordinals of what the states show to be as before already, and of what the tables do, too.
    doubtful: set[tuple[int, ...]] = field(default_factory=set)
    back: set[tuple[int, ...]] = field(default_factory=set)

    def undo_state(self, way: WayBack) -> None:
        key = way.dataset_key
        found = undone(way, self.states.get(key), self.ground.before.get(key), self.ground.left.get(key))
        if found.found == MOVED:
            self._stop(way, "it was changed since")
        elif found.found == BEFORE:
            (self.doubtful if way.changes_tables else self.back).add(way.ordinals)
        self.states[key] = found.state

    def undo_steps(self, ways: Sequence[WayBack]) -> None:
        """The tables, last step first. An operation that died between its steps is undone in the tables alone."""
        unwinding = Unwinding(self.ground.shapes)
        rows = sorted(((one, way) for way in ways for one in way.executed), key=lambda row: -row[0].ordinal)
        for one, way in rows:
            skipped = way.dataset_key in self.stopped or way.ordinals in self.back
            if one.step is None or skipped:
                continue
            try:
                unwinding.take_back(one.step, one.version_before)
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
    owners = {one.key: key for key, state in ground.applied.items() for one in state.columns if one.key in set(inputs)}
    for way in taken:
        own = way.dataset_key == dataset and way.column_key == column
        if own or (way.dataset_key in owners.values() and (not way.column_key or way.column_key in owners)):
            return way
    return None


def stands_on(way: WayBack, others: Iterable[WayBack]) -> WayBack | None:
    """The first of ``others``, done later in the same record, that stands on what ``way`` did; None if none does."""
    tables = {step.table.key for step in way.steps if step.leaves_trace}
    for other in others:
        later = [one for one in other.executed if one.ordinal > way.ordinals[0]]
        same_table = any(one.step and one.step.table.key in tables for one in later)
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

    ``done`` has an operation about it, ``kept`` has none: its tables stay. ``steps`` are those of what is
    done, in the order in which they were; ``foreign`` are operations about something else, with their
    subjects.
    """

    done: tuple[WayBack, ...]
    kept: tuple[WayBack, ...]
    steps: tuple[Owned, ...]
    foreign: tuple[tuple[Operation, Subject], ...]


def answered(ways: Iterable[WayBack], operations: Sequence[Operation], described: Collection[str]) -> Answered:
    """Return the operation of the undo report that covers each of these groups; one may cover several."""
    found = _Answering(operations, subjects_of(operations, described))
    answers = [(way, found.of(way)) for way in ways]
    steps = [
        (one.ordinal, (one.step, one.version_before, _owner(one.step, own)))
        for way, own in answers
        for one in (way.executed if own else ())
        if one.step is not None
    ]
    about = {place for _, own in answers for place, _ in own}
    return Answered(
        done=tuple(way for way, own in answers if own),
        kept=tuple(way for way, own in answers if not own),
        steps=tuple(owned for _, owned in sorted(steps, key=lambda row: row[0])),
        foreign=tuple((one, found.subjects[at]) for at, one in enumerate(operations) if at not in about),
    )


class _Answering:
    """The operations of a report by what they are about."""

    def __init__(self, operations: Sequence[Operation], subjects: Sequence[Subject]) -> None:
        self.subjects = subjects
        self.by_dataset: dict[str, list[tuple[int, Operation]]] = {}
        self.renames: dict[tuple[str, str], tuple[int, Operation]] = {}
        for place, one in enumerate(operations):
            self.by_dataset.setdefault(one.dataset_key, []).append((place, one))
            if one.op == RENAME_TABLE:
                self.renames[one.from_, one.to] = place, one

    def of(self, way: WayBack) -> list[tuple[int, Operation]]:
        """Those that answer for a way back. A history that only was kept made way for it, though it is another's."""
        own = self.by_dataset.get(way.dataset_key, ())
        found = {place: one for place, one in own if way.answered_by(one, self.subjects[place])}
        moved = [(step.to_name, step.from_name) for step in way.steps if step.op == RENAME_TABLE]
        found |= dict(self.renames[names] for names in moved if names in self.renames)
        return sorted(found.items())


def _owner(step: Step, operations: Iterable[tuple[int, Operation]]) -> int:
    """The first operation of the step's own side, else the first."""
    side = HISTORY if step.table.kind in KEPT else BASE
    return min((one.side != side, place) for place, one in operations)[1]


def undo_steps(
    executed: Sequence[Owned],
    shapes: Mapping[str, TableShape],
    views: Mapping[str, Sequence[str]],
) -> tuple[Step, ...]:
    """Return the steps that undo these steps, each under its operation of the undo report.

    Views over a history that was touched are published again (``views`` by the history's key). StoodOn
    if a table moved.
    """
    unwinding = Unwinding(shapes)
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
