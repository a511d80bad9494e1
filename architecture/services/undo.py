"""Taking an execution back: the inverse of what it did, as a new report through the same gate."""

from typing import Any

from django.db import transaction

from architecture.domain.operations import Warning
from architecture.domain.scope import ALL, DATASET, Scope
from architecture.domain.states.flat import of_row
from architecture.domain.workflow import NO_CHANGES, Refused
from architecture.models import ChangeReport, Environment, ExecutionOperation, ExecutionRecord
from architecture.services.basis import Basis, gather
from architecture.services.observing import Seen
from architecture.services.reports import store_report

_REPEAT = "METADATA_UNCHANGED"


@transaction.atomic
def undo_report(*, record: ExecutionRecord, person: Any, seen: Seen | None = None) -> ChangeReport:
    """The report that takes a record's operations back; who asks for it is its author.

    What is desired is what was there before the execution, for the datasets it touched. Refused
    NO_PERSON, or NOTHING_TO_UNDO if they are as they were already.
    """
    if person is None or not person.is_authenticated:
        raise Refused("NO_PERSON")
    Environment.objects.select_for_update().get(pk=record.environment_id)
    execution = record.execution
    before = execution.planned.get("before") or {}
    states = [row for row in before.values() if row is not None]
    names = sorted(of_row(row).qualified_name for row in states)
    scope = Scope(DATASET, names[0], target_only=True) if len(before) == len(names) == 1 else Scope(ALL)
    basis = gather(
        environment=record.environment,
        scope=scope,
        seen=seen,
        desired=[of_row(row) for row in states],
        only=set(before),
    )
    made = basis.report() if before else None
    if made is None or made.status == NO_CHANGES:
        raise Refused("NOTHING_TO_UNDO")
    desired = {"states": states, "keys": sorted(before), "executed": _executed(record)}
    warnings = [warning.as_json() for warning in (*made.warnings, _reminder(basis))]
    return store_report(basis, made, person, undo_of=record, extra={"desired": desired, "warnings": warnings})


def _executed(record: ExecutionRecord) -> list[dict[str, Any]]:
    """The steps that were done, with the version each found."""
    execution = record.execution
    done = execution.operations.filter(status=ExecutionOperation.Status.SUCCEEDED).order_by("ordinal")
    steps = step_rows_of(record)
    return [
        {"step": steps[row.ordinal], "version_before": row.version_before} for row in done if row.ordinal < len(steps)
    ]


def step_rows_of(record: ExecutionRecord) -> list[dict[str, Any]]:
    """The steps of an execution as its preview, or its load's plan, has them."""
    preview = record.execution.preview
    if preview is None:
        return list(record.execution.planned.get("report", {}).get("content", {}).get("steps", ()))
    return [{name: value for name, value in row.items() if name != "statement"} for row in preview.document["steps"]]


def _reminder(basis: Basis) -> Warning:
    names = ", ".join(state.qualified_name for state in basis.desired) or "what was new"
    return Warning(
        _REPEAT,
        basis.desired[0].qualified_name if basis.desired else "",
        message=f"the metadata of {names} is not changed by this: bring it back, too, "
        "or the next report makes the same change again",
    )
