"""Undo options of an execution record, and undo reports."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

from django.db import transaction
from django.db.models import Q

from architecture.domain import report as domain
from architecture.domain import workflow
from architecture.domain.operations import CHANGE_CONTRACT, Operation, Warning, operation_of
from architecture.domain.report import ALL, DATASET, Scope
from architecture.domain.states.state_files import as_row, of_row, with_references
from architecture.domain.steps import report_steps
from architecture.domain.steps.inverses import inverse
from architecture.domain.steps.step import Step, shape_of
from architecture.domain.undo import undo
from architecture.domain.undo.undo import (
    Answered,
    Ground,
    Problem,
    UndoResult,
    first_dependent,
    undo_together,
    undoable,
)
from architecture.domain.undo.undo_groups import Executed, State, Subject, UndoGroup, undo_groups
from architecture.domain.workflow import NO_CHANGES, Refused
from architecture.models import ChangeReport, Environment, ExecutionOperation, ExecutionRecord
from architecture.selectors.authors import carried_out
from architecture.selectors.environments import applied_states
from architecture.services.proof import refuse_unproven_execution
from architecture.services.reports import CURRENT_STATUSES, Basis, gather, record_why_of, store_report, views_of
from architecture.services.states import NOTHING, Seen, last_seen
from elevata.core.registry import Provided
from elevata.jobs import states
from elevata.jobs import states as job_states
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


# Undo options of a record: for each executed group of operations, the undo steps and whether undo is possible now.


_SUCCEEDED = ExecutionOperation.Status.SUCCEEDED
_MAX_RUNS = 3


@dataclass(frozen=True)
class Offered:
    """Executed group of operations, with its undo steps (``undo_steps``).

    ``refused`` is the reason why it cannot be undone now; None if it can, together with all others that can.
    """

    group: UndoGroup
    undo_steps: tuple[str, ...]
    refused: Refused | None

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
    return tuple(Offered(group, _undo_steps(group), reasons.get(group.ordinals)) for group in reversed(groups))


def _undo_steps(group: UndoGroup) -> tuple[str, ...]:
    steps = [inverse(item.step, item.version_before) for item in reversed(group.executed) if item.step is not None]
    return tuple(step.describe() for step in steps if step is not None)


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
            report_steps.of_row(steps[row.ordinal]) if row.ordinal < len(steps) else None,
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


def undo_state(record: ExecutionRecord, seen: Seen | None = None) -> Ground:
    """Return the state for undo: current, before and after the record. ``seen`` defaults to the last observations."""
    environment = record.environment
    seen = last_seen(environment=environment) if seen is None else seen
    applied = {state.key: state for state in applied_states(environment=environment)}
    before, left = (
        {key: state if state is None else with_rules_of(state, applied.get(key)) for key, state in side.items()}
        for side in _states(record)
    )
    shapes = {key: shape for key, table in seen.tables.items() if (shape := shape_of(table)) is not None}
    return Ground(applied, before, left, shapes)


def _states(record: ExecutionRecord) -> tuple[dict[str, Any], dict[str, Any]]:
    planned = record.execution.planned
    before, left = (
        {key: None if row is None else of_row(row) for key, row in (planned.get(side) or {}).items()}
        for side in ("before", "desired")
    )
    return before, left


# --- refusals ----------------------------------------------------------------------------------


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


_METADATA_UNCHANGED = "METADATA_UNCHANGED"


@transaction.atomic
def undo_report(
    *, record: ExecutionRecord, user: Any, operations: Collection[int] | None = None, seen: Seen | None = None
) -> ChangeReport:
    """Create the report that undoes a record's operations; its requester is its author.

    ``operations`` are ordinals of the record; each selects its whole group (a rename of base and history). None selects
    all groups that were not undone yet. A repeated request returns the same report. Raises Refused with a code of
    ``workflow.CODES``.
    """
    if user is None or not user.is_authenticated:
        raise Refused("NO_PERSON")
    Environment.objects.select_for_update().get(pk=record.environment_id)
    seen = last_seen(environment=record.environment) if seen is None else seen
    refuse_unproven_execution(record.execution)
    groups, ground = groups_of(record), undo_state(record, seen)
    selected = groups if operations is None else _select(groups, operations)
    others = _without(groups, selected)
    result = _undo_together(record, ground, selected, others, strict=operations is not None)
    basis = _basis(record, result.states, seen)
    made = basis.report()
    if made.status == NO_CHANGES:
        raise Refused("NOTHING_TO_UNDO")
    assignment = undo.answered(result.groups, made.operations, ground.described)
    _refuse_foreign(assignment.foreign, others)
    if assignment.kept:
        _undo_together(record, ground, assignment.done, assignment.kept, strict=True)
    report = _existing_report(record, made, assignment) or _store(record, basis, made, assignment, user)
    record_why_of(report, "requested")
    return report


def _undo_together(
    record: ExecutionRecord, ground: Ground, selected: Sequence[UndoGroup], others: Sequence[UndoGroup], *, strict: bool
) -> UndoResult:
    """Return the result of undoing these groups.

    Raises Refused unless all can be undone; without ``strict``, some may have been undone before.
    """
    result = undo_together(selected, ground)
    if result.undone_before and (strict or not result.groups):
        raise already_undone(result.undone_before[0])
    if not result.groups:
        raise Refused("NOTHING_TO_UNDO")
    for problem in result.problems:
        raise refusal_of(problem, record, others)
    for _, refused in written_since(record, result.groups):
        raise refused
    return result


def _select(groups: Collection[UndoGroup], ordinals: Collection[int]) -> tuple[UndoGroup, ...]:
    known = {ordinal for group in groups for ordinal in group.ordinals}
    for ordinal in sorted(set(ordinals) - known):
        raise Refused("UNKNOWN_OPERATION", f"the record has no executed operation {ordinal + 1} (ordinal {ordinal})")
    return tuple(group for group in groups if not set(ordinals).isdisjoint(group.ordinals))


def _without(groups: Iterable[UndoGroup], selected: Iterable[UndoGroup]) -> tuple[UndoGroup, ...]:
    known = {group.ordinals for group in selected}
    return tuple(group for group in groups if group.ordinals not in known)


def _basis(record: ExecutionRecord, states: Mapping[str, State], seen: Seen) -> Basis:
    """Return the inputs of the undo report, limited to the datasets of the undone groups."""
    desired = [state for state in states.values() if state is not None]
    basis = gather(environment=record.environment, scope=Scope(ALL), seen=seen, desired=desired, only=set(states))
    basis = replace(basis, plans_feature_drops=False)
    if len(states) != 1:
        return basis
    (state,) = basis.desired or basis.applied
    return replace(basis, scope=Scope(DATASET, state.qualified_name, target_only=True))


def _refuse_foreign(foreign: Iterable[tuple[Operation, Subject]], others: Collection[UndoGroup]) -> None:
    """Refuse an undo report with an operation that belongs to no undone group: no undo step would execute it."""
    for operation, subject in foreign:
        if operation.op == CHANGE_CONTRACT:  # it has no step, and follows from the undone operations
            continue
        needed = next((group for group in others if group.answered_by(operation, subject)), None)
        if needed is not None:
            message = f"this cannot be undone without {needed.describe()}"
            raise Refused("LATER_OPERATIONS", message, "undo both")
        message = f"{operation.dataset} is not as it was left: {operation.describe()} would be needed, too"
        raise Refused("TABLE_MOVED", message)


def _existing_report(record: ExecutionRecord, made: domain.ChangeReport, assignment: Answered) -> ChangeReport | None:
    """Return the open undo report of the same operations; None if there is none."""
    same = record.undo_reports.filter(fingerprint=made.fingerprint, status__in=CURRENT_STATUSES)
    same = same.exclude(executions__status__in=job_states.ENDED).order_by("-pk")
    return next((row for row in same if _ordinals(row) == _ordinals_of(assignment.done)), None)


def _store(
    record: ExecutionRecord, basis: Basis, made: domain.ChangeReport, assignment: Answered, user: Any
) -> ChangeReport:
    names = ("step", "version_before", "operation")
    desired = {
        "states": [as_row(state) for state in basis.desired],
        "keys": sorted(basis.keys()),
        "executed": [
            dict(zip(names, (report_steps.as_row(step), *rest), strict=True)) for step, *rest in assignment.steps
        ],
    }
    undoes = {"record": str(record.record_id), "operations": _ordinals_of(assignment.done)}
    kept = (_kept_warning(group) for group in assignment.kept if group.changes_tables)
    warnings = (*made.warnings, *kept, _metadata_warning(basis))
    extra = {"desired": desired, "undo": undoes, "warnings": [warning.as_json() for warning in warnings]}
    row = store_report(basis, made, user, undo_of=record, extra=extra)
    _supersede(row)
    return row


def _ordinals_of(groups: Iterable[UndoGroup]) -> list[int]:
    return sorted(ordinal for group in groups for ordinal in group.ordinals)


def _supersede(row: ChangeReport) -> None:
    """Mark older open undo reports that undo some of the same operations as superseded."""
    older = ChangeReport.objects.filter(undo_of=row.undo_of, executions__isnull=True, pk__lt=row.pk)
    for report in older.filter(status__in=job_states.may_become(workflow.SUPERSEDED, workflow.REPORT_STEPS)):
        if not set(_ordinals(report)).isdisjoint(_ordinals(row)):
            ChangeReport.objects.filter(pk=report.pk).update(status=workflow.SUPERSEDED, superseded_by=row)


def _ordinals(report: ChangeReport) -> list[int]:
    return (report.document.get("undo") or {}).get("operations", [])


def _kept_warning(group: UndoGroup) -> Warning:
    message = f"{group.describe()} stays: the undo report has no operation that undoes it"
    return Warning("STAYS", group.operations[0].dataset, message=message)


def _metadata_warning(basis: Basis) -> Warning:
    names = ", ".join(state.qualified_name for state in basis.desired) or "what was new"
    return Warning(
        _METADATA_UNCHANGED,
        basis.desired[0].qualified_name if basis.desired else "",
        message=f"this does not change the metadata of {names}: change it back as well, or the next report or load "
        f"repeats the change",
    )


def mark_before(report: ChangeReport) -> int:
    """Return the mark that the datasets get after an undo, so that later edits are pending again with their authors.

    It is never later than a current mark.
    """
    keys = report.document["desired"]["keys"]
    assert report.undo_of is not None
    refuse_unproven_execution(report.undo_of.execution)
    before = report.undo_of.execution.planned.get("marks") or {}
    now = carried_out(report.environment, keys)
    return min((min(before.get(key, NOTHING), now[key]) for key in keys), default=NOTHING)


def undo_steps(report: ChangeReport, basis: Basis) -> tuple[Step, ...]:
    """Return the steps of an undo report, each with its operation.

    Raises Refused WRITTEN_SINCE or StepProblem TABLE_MOVED if undo is no longer possible.
    """
    rows = report.document["desired"]["executed"]
    executed = [(report_steps.of_row(row["step"]), row["version_before"], row["operation"]) for row in rows]
    _refuse_written(report)
    shapes = {key: shape for key, table in basis.seen.tables.items() if (shape := shape_of(table)) is not None}
    states = [with_references(state) for state in basis.desired]
    views = views_of(states, {state.key for state in states})
    return undo.undo_steps(executed, shapes, views, readers=basis.policy.readers)


def _refuse_written(report: ChangeReport) -> None:
    ordinals = set(_ordinals(report))
    assert report.undo_of is not None
    groups = [group for group in groups_of(report.undo_of) if not ordinals.isdisjoint(group.ordinals)]
    for _, refused in written_since(report.undo_of, groups):
        raise refused
