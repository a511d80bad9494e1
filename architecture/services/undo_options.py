"""Undo options of an execution record.

For each executed group of operations: the undo steps, and whether undo is possible now.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from django.db.models import Q

from architecture.domain.operations import operation_of
from architecture.domain.refusals import Refused
from architecture.domain.states.flat_states import of_row, with_references
from architecture.domain.steps import step_json
from architecture.domain.steps.inverses import inverse
from architecture.domain.steps.step import Step, shape_of
from architecture.domain.undo import group_assignment
from architecture.domain.undo.undo import Ground, Problem, first_dependent, undoable
from architecture.domain.undo.undo_groups import Executed, UndoGroup, undo_groups
from architecture.models import ChangeReport, Environment, ExecutionOperation, ExecutionRecord
from architecture.selectors.dataset_states import applied_states
from architecture.services.observations import Observations, last_observations
from architecture.services.report_basis import Basis, views_of
from elevata.core.registry import Provided
from elevata.jobs import states
from metadata.domain.load_policy import with_rules_of


class WritingRuns(Protocol):
    """Query of the load runs that wrote into datasets or their histories after a time, by dataset key."""

    def __call__(
        self, *, environment: Environment, dataset_keys: Collection[str], after: datetime
    ) -> Mapping[str, Sequence[str]]: ...


WRITING_RUNS: Provided[WritingRuns] = Provided("WRITING_RUNS")


def runs_that_wrote(
    *, environment: Environment, dataset_keys: Collection[str], after: datetime
) -> Mapping[str, Sequence[str]]:
    """Return the load runs that wrote into these datasets or their histories after a time, by dataset key."""
    query = WRITING_RUNS.get()
    return query(environment=environment, dataset_keys=dataset_keys, after=after) if dataset_keys else {}


_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED
_MAX_RUNS = 3


@dataclass(frozen=True)
class Offered:
    """Executed group of operations, with its undo steps (``inverses``).

    ``refused`` is the reason why it cannot be undone now; None if it can, together with all others that can.
    """

    group: UndoGroup
    inverses: tuple[Step, ...]
    refused: Refused | None

    @property
    def undo_steps(self) -> tuple[str, ...]:
        """Return the descriptions of the undo steps."""
        return tuple(step.describe() for step in self.inverses)

    @property
    def ordinals(self) -> tuple[int, ...]:
        return self.group.ordinals

    @property
    def done(self) -> tuple[str, ...]:
        """Return the descriptions of the executed steps."""
        return tuple(step.describe() for step in self.group.steps) or (self.group.describe(),)

    def as_json(self) -> dict[str, Any]:
        return {
            "operations": list(self.ordinals),
            "done": list(self.done),
            "undo": list(self.undo_steps),
            "possible": self.refused is None,
            "refused": self.refused.as_json() if self.refused is not None else None,
        }


def offered(record: ExecutionRecord) -> tuple[Offered, ...]:
    """Return the record's undo options in the order of undo: the last group first."""
    groups, ground = groups_of(record), undo_state(record)
    first = undoable(groups, ground)
    written = {group.ordinals: refused for group, refused in written_since(record, first.groups)}
    tried = undoable([group for group in first.groups if group.ordinals not in written], ground)
    reasons = {group.ordinals: already_undone(group) for group in first.undone_before} | written
    possible = {group.ordinals for group in tried.groups}
    for problem in (*first.problems, *tried.problems):
        others = [group for group in groups if group.ordinals not in possible and group.ordinals not in reasons]
        reasons[problem.group.ordinals] = refusal_of(
            problem, record, [group for group in others if group != problem.group]
        )
    return tuple(Offered(group, _inverses(group), reasons.get(group.ordinals)) for group in reversed(groups))


def _inverses(group: UndoGroup) -> tuple[Step, ...]:
    steps = [inverse(item.step, item.version_before) for item in reversed(group.executed) if item.step is not None]
    return tuple(step for step in steps if step is not None)


def groups_of(record: ExecutionRecord) -> tuple[UndoGroup, ...]:
    """Return the executed operations as groups, in order."""
    planned = record.execution.planned
    operations = [operation_of(row) for row in planned.get("rows", ())]
    steps = step_rows_of(record)
    done = record.execution.operations.filter(status=_SUCCEEDED, operation__isnull=False).order_by("ordinal")
    executed = [
        Executed(
            row.ordinal,
            row.operation or 0,
            step_json.of_row(steps[row.ordinal]) if row.ordinal < len(steps) else None,
            row.version_before,
        )
        for row in done
    ]
    before, left = _states(record)
    return undo_groups(operations, executed, Ground({}, before, left, {}).described)


def step_rows_of(record: ExecutionRecord) -> list[dict[str, Any]]:
    """Return the steps of the record's execution from its preview, or without one from the load's plan."""
    preview = record.execution.preview
    if preview is None:
        return list(record.execution.planned.get("report", {}).get("content", {}).get("steps", ()))
    return [{name: value for name, value in row.items() if name != "statement"} for row in preview.document["steps"]]


def undo_state(record: ExecutionRecord, observations: Observations | None = None) -> Ground:
    """Return the state for undo: current, before and after the record. ``observations`` defaults to the last ones."""
    environment = record.environment
    observations = last_observations(environment=environment) if observations is None else observations
    applied = {state.key: state for state in applied_states(environment=environment)}
    before, left = (
        {key: state if state is None else with_rules_of(state, applied.get(key)) for key, state in side.items()}
        for side in _states(record)
    )
    shapes = {key: shape for key, table in observations.tables.items() if (shape := shape_of(table)) is not None}
    return Ground(applied, before, left, shapes)


def _states(record: ExecutionRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    planned = record.execution.planned
    before, left = (
        {key: None if row is None else of_row(row) for key, row in (planned.get(side) or {}).items()}
        for side in ("before", "desired")
    )
    return before, left


def already_undone(group: UndoGroup) -> Refused:
    """Return the refusal for a group that was undone before, by an undo report or by a change of the metadata."""
    return Refused("ALREADY_UNDONE", f"{group.describe()} was already undone")


def refusal_of(problem: Problem, record: ExecutionRecord, others: Sequence[UndoGroup]) -> Refused:
    """Return the refusal for a group that cannot be undone. It names a dependent among ``others`` or a later change."""
    what = problem.group.describe()
    if problem.group.version_is_lost:
        return Refused("NOT_UNDOABLE", f"{what} cannot be undone: {problem.differs}")
    if problem.reader:
        return Refused("LATER_OPERATIONS", f"{what} cannot be undone: {problem.differs}")
    later = first_dependent(problem.group, others)
    if later is not None:
        message = f"{what} cannot be undone alone: {later.describe()} depends on it"
        return Refused("LATER_OPERATIONS", message, "undo both")
    row = _done_since(record, problem.group.dataset_key)
    if row is None:
        return Refused("TABLE_MOVED", f"{what} cannot be undone: {problem.differs}")
    on = f"{row.qualified_name}.{row.column_name}" if row.column_name else row.qualified_name
    message = f"{what} cannot be undone: {problem.differs}; execution {row.execution_id} did {row.op} {on} since"
    return Refused("LATER_OPERATIONS", message, f"undo execution {row.execution_id} first")


def _done_since(record: ExecutionRecord, dataset_key: str) -> ExecutionOperation | None:
    """Return the newest operation on a dataset by an execution after the record's."""
    after = Q(execution__finished_at__isnull=True) | Q(execution__finished_at__gt=_ended_at(record))
    rows = ExecutionOperation.objects.filter(
        after, execution__environment=record.environment, dataset_key=dataset_key, status=_SUCCEEDED
    )
    return rows.exclude(execution=record.execution_id).order_by("-execution_id", "-ordinal").first()


def written_since(record: ExecutionRecord, groups: Iterable[UndoGroup]) -> list[tuple[UndoGroup, Refused]]:
    """Return the groups whose undo restores a version and would remove rows of later loads, with their refusals."""
    restores = [group for group in groups if group.goes_to_version]
    runs = runs_that_wrote(
        environment=record.environment,
        dataset_keys={group.dataset_key for group in restores},
        after=_ended_at(record),
    )
    return [
        (group, _written_refusal(group, runs[group.dataset_key])) for group in restores if runs.get(group.dataset_key)
    ]


def _ended_at(record: ExecutionRecord) -> datetime:
    """Return the time after which others may have written. An abandoned execution ended earlier than it was marked."""
    execution = record.execution
    abandoned = execution.status == states.ABANDONED
    return (execution.started_at if abandoned else execution.finished_at) or record.created_at


def _written_refusal(group: UndoGroup, runs: Sequence[str]) -> Refused:
    names = ", ".join(runs[:_MAX_RUNS]) + (f" and {len(runs) - _MAX_RUNS} more" if len(runs) > _MAX_RUNS else "")
    message = f"load run{'s' if len(runs) > 1 else ''} {names} wrote rows since, which would go along"
    return Refused("WRITTEN_SINCE", f"{group.describe()} cannot be undone: {message}")


def undone_ordinals(report: ChangeReport) -> list[int]:
    return (report.document.get("undo") or {}).get("operations", [])


def undo_steps(report: ChangeReport, basis: Basis) -> tuple[Step, ...]:
    """Return the steps of an undo report, each with its operation.

    Raises Refused WRITTEN_SINCE or StepProblem TABLE_MOVED if undo is no longer possible.
    """
    rows = report.document["desired"]["executed"]
    executed = [(step_json.of_row(row["step"]), row["version_before"], row["operation"]) for row in rows]
    _refuse_written(report)
    shapes = {key: shape for key, table in basis.observations.tables.items() if (shape := shape_of(table)) is not None}
    states = [with_references(state) for state in basis.desired]
    views = views_of(states, {state.key for state in states})
    return group_assignment.undo_steps(executed, shapes, views, readers=basis.policy.readers)


def _refuse_written(report: ChangeReport) -> None:
    ordinals = set(undone_ordinals(report))
    assert report.undo_of is not None
    groups = [group for group in groups_of(report.undo_of) if not ordinals.isdisjoint(group.ordinals)]
    for _, refused in written_since(report.undo_of, groups):
        raise refused
