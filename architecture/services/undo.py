"""Undo reports."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from architecture.domain import report as domain
from architecture.domain import report_states
from architecture.domain.operations import BLOCKED, CHANGE_CONTRACT, Operation, Warning
from architecture.domain.refusals import Refused
from architecture.domain.report_states import NO_CHANGES, OPEN
from architecture.domain.states.flat_states import as_row
from architecture.domain.steps import step_json
from architecture.domain.undo import group_assignment
from architecture.domain.undo.dataset_undo import State
from architecture.domain.undo.group_assignment import Answered
from architecture.domain.undo.undo import Ground, UndoResult, undo_together
from architecture.domain.undo.undo_groups import Subject, UndoGroup
from architecture.models import ChangeReport, Environment, ExecutionRecord
from architecture.permissions import may_build, on_behalf_of, place_of_execution
from architecture.selectors.authors import carried_out
from architecture.services.observations import Observations, last_observations
from architecture.services.previews import preview_new_report
from architecture.services.report_basis import Basis, gather
from architecture.services.reports import CURRENT_STATUSES, record_why_of, store_report
from architecture.services.row_signatures import refuse_unproven_execution
from architecture.services.states import NOTHING
from architecture.services.undo_metadata import undo_metadata
from architecture.services.undo_options import (
    already_undone,
    groups_of,
    refusal_of,
    undo_state,
    undone_ordinals,
    written_since,
)
from elevata.jobs import states as job_states
from metadata.domain.scope import ALL, DATASET, Scope

_METADATA_UNCHANGED = "METADATA_UNCHANGED"


@transaction.atomic
def undo_report(
    *,
    record: ExecutionRecord,
    user: Any,
    operations: Collection[int] | None = None,
    metadata: bool = False,
    observations: Observations | None = None,
) -> ChangeReport:
    """Create the report that undoes a record's operations; its requester is its author.

    ``operations`` are ordinals of the record; each selects its whole group (a rename of base and history). None selects
    all groups that were not undone yet. With ``metadata``, the metadata is changed back at once, too, unless the change
    policy blocks the report. A repeated request returns the same report. Raises Refused with a code of
    ``refusals.CODES``, MetadataError if the metadata cannot be changed back.
    """
    if user is None or not user.is_authenticated:
        raise Refused("NO_PERSON")
    if not may_build(user, place_of_execution(record.execution)):
        message = f"undoing {record.execution} needs the editor, approver or operator role for its datasets"
        raise Refused("NOT_PERMITTED", message)
    Environment.objects.select_for_update().get(pk=record.environment_id)
    observations = last_observations(environment=record.environment) if observations is None else observations
    refuse_unproven_execution(record.execution)
    groups, ground = groups_of(record), undo_state(record, observations)
    selected = groups if operations is None else _select(groups, operations)
    others = _without(groups, selected)
    result = _undo_together(record, ground, selected, others, strict=operations is not None)
    basis = undo_basis(record, result.states, observations)
    made = basis.report()
    if made.status == NO_CHANGES:
        raise Refused("NOTHING_TO_UNDO")
    assignment = group_assignment.answered(result.groups, made.operations, ground.described)
    _refuse_foreign(assignment.foreign, others)
    if assignment.kept:
        _undo_together(record, ground, assignment.done, assignment.kept, strict=True)
    stays = assignment.done
    if metadata:
        _refuse_blocked(made)
        with on_behalf_of(user):
            stays = undo_metadata(assignment.done, ground, f"undo of execution {record.execution_id}")
    warnings = _warnings(made, assignment, stays)
    existing = _existing_report(record, made, assignment, warnings)
    report = existing or _store(record, basis, made, assignment, user, warnings)
    if existing is None and report.status == OPEN:
        preview_new_report(report, basis, user)
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


def undo_basis(record: ExecutionRecord, states: Mapping[str, State], observations: Observations) -> Basis:
    """Return the inputs of the undo report, limited to the datasets of the undone groups."""
    desired = [state for state in states.values() if state is not None]
    basis = gather(
        environment=record.environment, scope=Scope(ALL), observations=observations, desired=desired, only=set(states)
    )
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


def _refuse_blocked(made: domain.ChangeReport) -> None:
    blocked = next((operation for operation in made.operations if operation.decision == BLOCKED), None)
    if blocked is not None:
        message = f"the environment's policy blocks {blocked.describe()} ({blocked.code}), so nothing was undone"
        raise Refused("REPORT_BLOCKED", message, blocked.message or "undo other operations, or change the metadata")


def _existing_report(
    record: ExecutionRecord, made: domain.ChangeReport, assignment: Answered, warnings: Sequence[Warning]
) -> ChangeReport | None:
    """Return the open undo report of the same operations with the same warnings; None if there is none."""
    documents = [warning.as_json() for warning in warnings]
    same = record.undo_reports.filter(fingerprint=made.fingerprint, status__in=CURRENT_STATUSES)
    same = same.exclude(executions__status__in=job_states.ENDED).order_by("-pk")
    ordinals = _ordinals_of(assignment.done)
    return next(
        (row for row in same if undone_ordinals(row) == ordinals and row.document["warnings"] == documents), None
    )


def _store(
    record: ExecutionRecord,
    basis: Basis,
    made: domain.ChangeReport,
    assignment: Answered,
    user: Any,
    warnings: Sequence[Warning],
) -> ChangeReport:
    names = ("step", "version_before", "operation")
    desired = {
        "states": [as_row(state) for state in basis.desired],
        "keys": sorted(basis.keys()),
        "executed": [
            dict(zip(names, (step_json.as_row(step), *rest), strict=True)) for step, *rest in assignment.steps
        ],
    }
    undoes = {"record": str(record.record_id), "operations": _ordinals_of(assignment.done)}
    extra = {"desired": desired, "undo": undoes, "warnings": [warning.as_json() for warning in warnings]}
    row = store_report(basis, made, user, undo_of=record, extra=extra)
    _supersede(row)
    return row


def _ordinals_of(groups: Iterable[UndoGroup]) -> list[int]:
    return sorted(ordinal for group in groups for ordinal in group.ordinals)


def _supersede(row: ChangeReport) -> None:
    """Mark older open undo reports that undo some of the same operations as superseded."""
    older = ChangeReport.objects.filter(undo_of=row.undo_of, executions__isnull=True, pk__lt=row.pk)
    for report in older.filter(status__in=job_states.may_become(report_states.SUPERSEDED, report_states.REPORT_STEPS)):
        if not set(undone_ordinals(report)).isdisjoint(undone_ordinals(row)):
            ChangeReport.objects.filter(pk=report.pk).update(status=report_states.SUPERSEDED, superseded_by=row)


def _kept_warning(group: UndoGroup) -> Warning:
    message = f"{group.describe()} stays: the undo report has no operation that undoes it"
    return Warning("STAYS", group.operations[0].dataset, message=message)


def _warnings(made: domain.ChangeReport, assignment: Answered, stays: Sequence[UndoGroup]) -> tuple[Warning, ...]:
    """Return the warnings of an undo report. ``stays`` are the undone groups whose metadata is not changed back."""
    kept = (_kept_warning(group) for group in assignment.kept if group.changes_tables)
    return (*made.warnings, *kept, *([_metadata_warning(stays)] if stays else []))


def _metadata_warning(stays: Sequence[UndoGroup]) -> Warning:
    names = dict.fromkeys(operation.dataset for group in stays for operation in group.operations[:1])
    return Warning(
        _METADATA_UNCHANGED,
        next(iter(names)),
        message=f"this does not change the metadata of {', '.join(names)}: change it back as well, or the next report "
        f"or load repeats the change",
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
