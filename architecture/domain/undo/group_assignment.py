"""Operations of an undo report, assigned to the undone groups, and the steps that they execute."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from architecture.domain.operations import BASE, HISTORY, Operation
from architecture.domain.steps.features import OPEN, SPARK
from architecture.domain.steps.inverses import KEPT, Unwinding
from architecture.domain.steps.step import PUBLISH_VIEW, RENAME_TABLE, Step, TableShape
from architecture.domain.tables import TableSpec
from architecture.domain.undo.undo_groups import Subject, UndoGroup, subjects_of

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


def by_group(
    groups: Iterable[UndoGroup], operations: Sequence[Operation], described: Collection[str]
) -> dict[tuple[int, ...], tuple[Operation, ...]]:
    """Return the operations of an undo report by the ordinals of the group that each undoes."""
    assignment = _Assignment(operations, subjects_of(operations, described))
    return {group.ordinals: tuple(operation for _, operation in assignment.of(group)) for group in groups}


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
