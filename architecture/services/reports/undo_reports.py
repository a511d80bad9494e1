"""Taking an execution back, whole or by its operations: the inverses, as a new report through the same gate."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from architecture.authors import carried_out
from architecture.domain.operations import Operation, Warning
from architecture.domain.reports import report as domain
from architecture.domain.reports import workflow
from architecture.domain.reports.scope import ALL, DATASET, Scope
from architecture.domain.reports.workflow import NO_CHANGES, Refused
from architecture.domain.states.flat import as_row, with_references
from architecture.domain.steps import rows as step_rows
from architecture.domain.steps.step import Step, shape_of
from architecture.domain.undo import inverse_operations
from architecture.domain.undo.inverse_operations import Answered, Ground, TakenBack, take_back
from architecture.domain.undo.inverse_states import State
from architecture.domain.undo.undo_groups import Subject, WayBack
from architecture.models import ChangeReport, Environment, ExecutionRecord
from architecture.services.executions.proof import refuse_unproven_execution
from architecture.services.reports.report_inputs import Basis, gather, views_of
from architecture.services.reports.reports import STANDING, record_why_of, store_report
from architecture.services.reports.undo_options import already, ground_of, ways_of, why, written_since
from architecture.services.states.applied_states import NOTHING
from architecture.services.states.observed_states import Seen, last_seen
from elevata.jobs import states as job_states

_REPEAT = "METADATA_UNCHANGED"


@transaction.atomic
def undo_report(
    *, record: ExecutionRecord, person: Any, operations: Collection[int] | None = None, seen: Seen | None = None
) -> ChangeReport:
    """The report that takes a record's operations back; who asks for it is its author.

    ``operations`` are ordinals of the record; of those that belong together (a rename of base and history)
    any one means all. None means all that were not taken back yet. The same undo again is the same
    report. Refused with a code of ``workflow.CODES``, saying what stands in the way and what to do.
    """
    if person is None or not person.is_authenticated:
        raise Refused("NO_PERSON")
    Environment.objects.select_for_update().get(pk=record.environment_id)
    seen = last_seen(environment=record.environment) if seen is None else seen
    refuse_unproven_execution(record.execution)
    ways, ground = ways_of(record), ground_of(record, seen)
    chosen = ways if operations is None else _chosen(ways, operations)
    others = _besides(ways, chosen)
    taken = _taken_back(record, ground, chosen, others, strict=operations is not None)
    basis = _basis(record, taken.states, seen)
    made = basis.report()
    if made.status == NO_CHANGES:
        raise Refused("NOTHING_TO_UNDO")
    found = inverse_operations.answered(taken.ways, made.operations, ground.described)
    _refuse_foreign(found.foreign, others)
    if found.kept:
        _taken_back(record, ground, found.done, found.kept, strict=True)
    report = _standing(record, made, found) or _store(record, basis, made, found, person)
    record_why_of(report, "requested")
    return report


def _taken_back(
    record: ExecutionRecord, ground: Ground, chosen: Sequence[WayBack], others: Sequence[WayBack], *, strict: bool
) -> TakenBack:
    """Return the state after undoing these.

    Refused unless all can be undone; if not ``strict``, some may be undone already.
    """
    taken = take_back(chosen, ground)
    if taken.back and (strict or not taken.ways):
        raise already(taken.back[0])
    if not taken.ways:
        raise Refused("NOTHING_TO_UNDO")
    for problem in taken.problems:
        raise why(problem, record, others)
    for _, refused in written_since(record, taken.ways):
        raise refused
    return taken


def _chosen(ways: Collection[WayBack], ordinals: Collection[int]) -> tuple[WayBack, ...]:
    known = {ordinal for way in ways for ordinal in way.ordinals}
    for ordinal in sorted(set(ordinals) - known):
        raise Refused("UNKNOWN_OPERATION", f"the record has no operation {ordinal} that was done")
    return tuple(way for way in ways if not set(ordinals).isdisjoint(way.ordinals))


def _besides(ways: Iterable[WayBack], chosen: Iterable[WayBack]) -> tuple[WayBack, ...]:
    known = {way.ordinals for way in chosen}
    return tuple(way for way in ways if way.ordinals not in known)


def _basis(record: ExecutionRecord, states: Mapping[str, State], seen: Seen) -> Basis:
    """The report is about the datasets that something is taken back of, and nothing else."""
    desired = [state for state in states.values() if state is not None]
    basis = gather(environment=record.environment, scope=Scope(ALL), seen=seen, desired=desired, only=set(states))
    if len(states) != 1:
        return basis
    (one,) = basis.desired or basis.applied
    return replace(basis, scope=Scope(DATASET, one.qualified_name, target_only=True))


def _refuse_foreign(foreign: Iterable[tuple[Operation, Subject]], others: Collection[WayBack]) -> None:
    """Every operation must be about what is taken back: no step would do another one."""
    for operation, subject in foreign:
        needed = next((way for way in others if way.answered_by(operation, subject)), None)
        if needed is not None:
            said = f"this cannot be taken back without {needed.describe()}"
            raise Refused("LATER_OPERATIONS", said, "take both back")
        said = f"{operation.dataset} is not as it was left: {operation.describe()} would be needed, too"
        raise Refused("TABLE_MOVED", said)


def _standing(record: ExecutionRecord, made: domain.ChangeReport, found: Answered) -> ChangeReport | None:
    """The undo report of the very same operations, if it is still to be carried out."""
    same = record.undo_reports.filter(fingerprint=made.fingerprint, status__in=STANDING)
    same = same.exclude(executions__status__in=job_states.ENDED).order_by("-pk")
    return next((row for row in same if _ordinals(row) == _ordinals_of(found.done)), None)


def _store(
    record: ExecutionRecord, basis: Basis, made: domain.ChangeReport, found: Answered, person: Any
) -> ChangeReport:
    names = ("step", "version_before", "operation")
    desired = {
        "states": [as_row(state) for state in basis.desired],
        "keys": sorted(basis.keys()),
        "executed": [dict(zip(names, (step_rows.as_row(step), *rest), strict=True)) for step, *rest in found.steps],
    }
    undoes = {"record": str(record.record_id), "operations": _ordinals_of(found.done)}
    told = (*made.warnings, *(_stays(way) for way in found.kept if way.changes_tables), _reminder(basis))
    extra = {"desired": desired, "undo": undoes, "warnings": [warning.as_json() for warning in told]}
    row = store_report(basis, made, person, undo_of=record, extra=extra)
    _supersede(row)
    return row


def _ordinals_of(ways: Iterable[WayBack]) -> list[int]:
    return sorted(ordinal for way in ways for ordinal in way.ordinals)


def _supersede(row: ChangeReport) -> None:
    """Close the open undo reports that would take some of the same operations back."""
    older = ChangeReport.objects.filter(undo_of=row.undo_of, executions__isnull=True, pk__lt=row.pk)
    for one in older.filter(status__in=job_states.may_become(workflow.SUPERSEDED, workflow.REPORT_STEPS)):
        if not set(_ordinals(one)).isdisjoint(_ordinals(row)):
            ChangeReport.objects.filter(pk=one.pk).update(status=workflow.SUPERSEDED, superseded_by=row)


def _ordinals(report: ChangeReport) -> list[int]:
    return (report.document.get("undo") or {}).get("operations", [])


def _stays(way: WayBack) -> Warning:
    message = f"{way.describe()} stays: nothing that is described asks for it to go"
    return Warning("STAYS", way.operations[0].dataset, message=message)


def _reminder(basis: Basis) -> Warning:
    names = ", ".join(state.qualified_name for state in basis.desired) or "what was new"
    return Warning(
        _REPEAT,
        basis.desired[0].qualified_name if basis.desired else "",
        message=f"the metadata of {names} is not changed by this: bring it back, too, or the next report makes the "
        "same change again, and so does the next load where safe changes need nobody",
    )


def mark_before(report: ChangeReport) -> int:
    """Return the mark of what an undo brings back: later edits wait to be carried out again, with their authors.

    Never later than the marks of now, which an edit that is not carried out yet may have kept back.
    """
    keys = report.document["desired"]["keys"]
    refuse_unproven_execution(report.undo_of.execution)
    before = report.undo_of.execution.planned.get("marks") or {}
    now = carried_out(report.environment, keys)
    return min((min(before.get(key, NOTHING), now[key]) for key in keys), default=NOTHING)


def undo_steps(report: ChangeReport, basis: Basis) -> tuple[Step, ...]:
    """Return the steps that undo the executed steps of an undo report, as steps of its operations.

    Refused WRITTEN_SINCE, StepProblem TABLE_MOVED for what can no longer be.
    """
    rows = report.document["desired"]["executed"]
    executed = [(step_rows.of_row(row["step"]), row["version_before"], row["operation"]) for row in rows]
    _refuse_written(report)
    shapes = {key: shape for key, table in basis.seen.tables.items() if (shape := shape_of(table)) is not None}
    states = [with_references(state) for state in basis.desired]
    views = views_of(states, {state.key for state in states})
    return inverse_operations.undo_steps(executed, shapes, views)


def _refuse_written(report: ChangeReport) -> None:
    wanted = set(_ordinals(report))
    ways = [way for way in ways_of(report.undo_of) if not wanted.isdisjoint(way.ordinals)]
    for _, refused in written_since(report.undo_of, ways):
        raise refused
