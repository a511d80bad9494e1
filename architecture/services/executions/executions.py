"""The life of an execution: requested, claimed, cancelled, given up for lost, resumed, abandoned.

Every change of state is one compare-and-set along ``architecture.domain.reports.workflow``. What an attempt
writes while it works is in ``attempts``; the sealed result in ``records``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F
from django.utils import timezone

from architecture.domain import execution_log as said
from architecture.domain.reports import workflow
from architecture.domain.reports.workflow import Refused
from architecture.models import ChangeReport, Environment, Execution, ExecutionOperation, Preview
from architecture.report_places import place_of_execution, place_of_report
from architecture.services.actors import must_be_permitted, on_behalf_of, who_answers
from architecture.services.executions.attempts import ExecutionAttempt
from architecture.services.executions.execution_log import names_of, note, note_on
from architecture.services.executions.leases import release_leases, take_leases
from architecture.services.executions.proof import (
    refuse_unproven,
    refuse_unproven_execution,
    refuse_unproven_preview,
    sign_execution,
)
from architecture.services.executions.records import seal
from architecture.services.notifications import tell_execution_ended
from architecture.services.policies.policies import policy_in_force
from architecture.services.reports.previews import execution_rows, newest_preview
from architecture.services.reports.reports import authors_of_report, decisions_on, operations_of, refuse_stale
from elevata.core.database import silent_before
from metadata.domain.roles import Permission
from metadata.services.changelog import record_change


@dataclass(frozen=True)
class Requested:
    """An execution that was asked for; ``requested`` says whether asking changed anything."""

    execution: Execution
    requested: bool


@transaction.atomic
def request_execution(
    *, report: ChangeReport, person: Any, preview_fingerprint: str = "", command: str = ""
) -> Requested:
    """Ask for an approved, previewed report to be executed. Pressing twice asks for the same execution.

    One that failed, was cancelled or lost is queued again, as its next attempt. Refused with a code
    of ``workflow.CODES``; nothing was written then.
    """
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_report(report))
    _refuse_elsewhere(report.environment)
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    known = row.executions.exclude(status=workflow.ABANDONED).first()
    if known is not None:
        if known.status == workflow.SUCCEEDED:
            raise Refused("ALREADY_EXECUTED")
        if known.status in workflow.ACTIVE:
            return Requested(known, requested=False)
        return Requested(resume_execution(execution=known, person=person), requested=True)
    refuse_unapproved(row, person)
    preview = newest_preview(row)
    if preview is None:
        raise Refused("NO_PREVIEW")
    if preview_fingerprint and preview_fingerprint != preview.fingerprint:
        raise Refused("PREVIEW_STALE", "a newer preview was made than the one you have seen")
    refuse_unproven_preview(row, preview)
    refuse_stale(row)
    return _create(row, preview, person, command)


def refuse_unapproved(report: ChangeReport, person: Any) -> None:
    """Refused unless the report has the approvals it needs, all of them proven, and this person may execute it."""
    refuse_unproven(report)
    policy = policy_in_force(report.environment)
    workflow.refuse_execution(
        status=report.status,
        decisions=decisions_on(report),
        fingerprint=report.fingerprint,
        need=policy.approvals[report.risk],
        authors=authors_of_report(report),
        person=who_answers(person) if person is not None else "",
        approver_may_execute=policy.approver_may_execute,
    )


def _refuse_elsewhere(environment: Environment) -> None:
    """Refuse what belongs to another environment: its policy would decide over the warehouse of this one."""
    if environment.name != settings.ENVIRONMENT:
        raise Refused("OTHER_ENVIRONMENT")


def _create(report: ChangeReport, preview: Preview, person: Any, command: str) -> Requested:
    try:
        with transaction.atomic():
            execution = Execution.objects.create(
                environment=report.environment,
                report=report,
                preview=preview,
                requested_by=person,
                requester=person.get_username(),
                command=command[:200],
            )
            sign_execution(execution)
            ExecutionOperation.objects.bulk_create(execution_rows(execution, preview, operations_of(report)))
    except IntegrityError:  # somebody asked for it in this very moment
        return Requested(report.executions.exclude(status=workflow.ABANDONED).get(), requested=False)
    with on_behalf_of(person):
        _log(execution, "requested")
    note_on(execution, said.requested(execution.who, execution.command))
    return Requested(execution, requested=True)


@transaction.atomic
def resume_execution(*, execution: Execution, person: Any) -> Execution:
    """Queue an execution again that failed, was cancelled or lost: finished steps are not repeated.

    One whose worker has been silent for too long counts as lost, even if nobody was there to say so.
    """
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    if execution.report is None:
        raise Refused("NOT_RESUMABLE", "it belongs to a load run", "start the load run again")
    _refuse_elsewhere(execution.environment)
    refuse_unproven_execution(execution)
    refuse_unapproved(execution.report, person)
    mark_lost_executions(execution_pk=execution.pk)
    queued = Execution.objects.filter(pk=execution.pk, status__in=workflow.may_become(workflow.QUEUED)).update(
        status=workflow.QUEUED,
        error=None,
        phase="",
        claimed_by="",
        heartbeat_at=None,
        finished_at=None,
        queued_at=timezone.now(),
    )
    execution.refresh_from_db()
    if not queued:
        _refuse_state(execution, "resumed")
    execution.operations.filter(status=ExecutionOperation.Status.FAILED).update(
        status=ExecutionOperation.Status.PLANNED, error="", observed=None, version_after=None, seconds=None
    )
    with on_behalf_of(person):
        _log(execution, "resumed")
    done = execution.operations.filter(status=ExecutionOperation.Status.SUCCEEDED).count()
    note_on(execution, said.resumed(person.get_username(), done, execution.operations.count() - done))
    return execution


def claim_execution(*, execution_pk: int, worker: str) -> ExecutionAttempt | None:
    """Take a queued execution with the leases of its datasets, all or nothing.

    None if somebody else has it, or it is not queued any more. One that meets a lease stays queued and
    says whom it waits for; the sweeper has it tried again.
    """
    try:
        return _claim(execution_pk, worker)
    except Refused as held:
        _wait(execution_pk, f"waiting: {held.message}", said.waiting(held.message))
        return None


@transaction.atomic
def _wait(execution_pk: int, phase: str, line: said.Line) -> None:
    """A queued execution says what it waits for; the log says it once, however often it is tried."""
    phase = phase[:200]
    queued = Execution.objects.filter(pk=execution_pk, status=workflow.QUEUED)
    if queued.exclude(phase=phase).update(phase=phase):
        note_on(Execution.objects.get(pk=execution_pk), line)


def note_not_told(*, execution_pk: int, reason: str) -> None:
    """No worker could be told of a queued execution: it says so, until one was told or takes it up."""
    _wait(execution_pk, workflow.BROKER_AWAY, said.not_told(reason))


@transaction.atomic
def note_told() -> None:
    """The broker takes messages again: nothing waits for it any more."""
    waited = Execution.objects.filter(status=workflow.QUEUED, phase=workflow.BROKER_AWAY)
    for execution in waited:
        if waited.filter(pk=execution.pk).update(phase=""):
            note_on(execution, said.told_again())


@transaction.atomic
def _claim(execution_pk: int, worker: str) -> ExecutionAttempt | None:
    now = timezone.now()
    queued = Execution.objects.filter(pk=execution_pk, status=workflow.QUEUED)
    # No join: PostgreSQL then asks the status again once it has waited for the row.
    here = Environment.objects.filter(name=settings.ENVIRONMENT)
    claimed = queued.filter(environment__in=here).update(
        status=workflow.RUNNING,
        attempt=F("attempt") + 1,
        claimed_by=worker,
        heartbeat_at=now,
        finished_at=None,
        error=None,
        phase="waiting for Spark",
    )
    if not claimed:
        return None
    Execution.objects.filter(pk=execution_pk, started_at__isnull=True).update(started_at=now)
    execution = Execution.objects.select_related("environment").get(pk=execution_pk)
    attempt = ExecutionAttempt(execution_pk, execution.attempt)
    keys = set(execution.operations.values_list("dataset_key", flat=True))
    leases = take_leases(environment=execution.environment, dataset_keys=keys, holder=attempt.holder)
    names = names_of(keys, execution.environment)
    note(execution_pk, attempt.number, said.claimed(attempt.number, worker, names))
    return replace(attempt, leases=leases)


@transaction.atomic
def cancel_execution(*, execution: Execution, person: Any) -> Execution:
    """Ask for an execution to stop between two steps; a queued one is cancelled at once."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    error = {"code": "CANCELED", "message": f"cancelled by {person.get_username()}"}
    rows = Execution.objects.filter(pk=execution.pk)
    canceled = rows.filter(status=workflow.QUEUED).update(
        status=workflow.CANCELED, finished_at=timezone.now(), error=error
    ) or rows.filter(status=workflow.RUNNING).update(status=workflow.CANCELING, error=error)
    execution.refresh_from_db()
    if canceled:
        with on_behalf_of(person):
            _log(execution, "cancelled")
        at_once = execution.status == workflow.CANCELED
        note_on(execution, (said.canceled_at_once if at_once else said.cancel_asked)(person.get_username()))
    return execution


@transaction.atomic
def abandon_execution(*, execution: Execution, person: Any, reason: str) -> Execution:
    """End an execution that will not be resumed; its record is sealed with what it did."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    if not reason.strip():
        raise Refused("NO_REASON")
    abandoned = Execution.objects.filter(pk=execution.pk, status__in=workflow.may_become(workflow.ABANDONED)).update(
        status=workflow.ABANDONED, reason=reason.strip()[:200], finished_at=timezone.now()
    )
    execution.refresh_from_db()
    if not abandoned:
        _refuse_state(execution, "abandoned")
    with on_behalf_of(person):
        _log(execution, "abandoned", reason.strip())
        note_on(execution, said.abandoned(person.get_username(), reason.strip()))
        seal(execution)
    return execution


@transaction.atomic
def end_attempt(*, attempt: ExecutionAttempt, wanted: str, error: dict | None = None) -> Execution | None:
    """End an attempt as its row now allows, give its leases back, and seal what is done. None if it is not ours.

    ``wanted`` is succeeded or failed; an execution with steps left cannot succeed.
    """
    execution = attempt.held().select_for_update(of=("self",)).select_related("environment").first()
    if execution is None:
        return None
    if wanted == workflow.SUCCEEDED and execution.operations.exclude(status="succeeded").exists():
        wanted = workflow.FAILED
    end = workflow.ends_as(status=execution.status, wanted=wanted)
    now = timezone.now()
    attempt.held().update(
        status=end,
        error=execution.error if end == workflow.CANCELED else error,
        finished_at=now,
        heartbeat_at=now,
        phase="",
    )
    released = release_leases(environment=execution.environment, holder=attempt.holder)
    execution.refresh_from_db()
    note(execution.pk, attempt.number, said.ended(end, execution.seconds, execution.error, released))
    tell_execution_ended(execution)
    if end in workflow.ENDED:
        seal(execution)
    return execution


def mark_lost_executions(
    *,
    is_gone: Callable[[str], bool] = lambda _: False,
    older_than: timedelta = workflow.SILENT_AFTER,
    execution_pk: int | None = None,
) -> list[int]:
    """Give up executions of reports whose worker was silent for too long, or is gone for certain; their ids."""
    held = Execution.objects.filter(
        report__isnull=False, status__in=workflow.may_become(workflow.LOST), heartbeat_at__isnull=False
    ).select_related("environment")
    if execution_pk is not None:
        held = held.filter(pk=execution_pk)
    latest = silent_before(older_than)
    return [one.pk for one in held if (one.heartbeat_at < latest or is_gone(one.claimed_by)) and _lose(one)]


def _lose(execution: Execution) -> bool:
    error = {
        "code": "WORKER_LOST",
        "message": f"worker {execution.claimed_by} was last heard of at {execution.heartbeat_at:%Y-%m-%d %H:%M:%S} UTC",
        "hint": "resume the execution: what it had finished is not done twice",
    }
    return give_up_execution(execution=execution, error=error, heartbeat_at=execution.heartbeat_at)


@transaction.atomic
def give_up_execution(*, execution: Execution, error: dict[str, Any], **seen: Any) -> bool:
    """Take an execution from the attempt that holds it: none of its writes finds the execution any more.

    ``seen`` are fields that must still be as they were. False if it is not held, or not as it was seen.
    """
    held = Execution.objects.filter(pk=execution.pk, attempt=execution.attempt, **seen)
    lost = held.filter(status__in=workflow.may_become(workflow.LOST)).update(
        status=workflow.LOST, error=error, finished_at=timezone.now(), phase=""
    )
    if lost:
        attempt = ExecutionAttempt(execution.pk, execution.attempt)
        released = release_leases(environment=execution.environment, holder=attempt.holder)
        note(execution.pk, attempt.number, said.given_up(error, released))
        execution.refresh_from_db()
        tell_execution_ended(execution)
    return bool(lost)


def queued_executions(*, environment: Environment) -> list[int]:
    """Executions that wait for a worker, the oldest first."""
    waiting = Execution.objects.filter(environment=environment, status=workflow.QUEUED)
    return list(waiting.order_by("requested_at", "pk").values_list("pk", flat=True))


def _refuse_state(execution: Execution, wanted: str) -> None:
    if execution.status in workflow.ACTIVE:
        raise Refused("ALREADY_RUNNING")
    if execution.status == workflow.SUCCEEDED:
        raise Refused("ALREADY_EXECUTED")
    raise Refused("NOT_RESUMABLE", f"an execution that is {execution.status} cannot be {wanted}")


def _log(execution: Execution, action: str, reason: str = "") -> None:
    record_change(
        action=action,
        subject_kind="execution",
        subject_key=str(execution.pk),
        subject_name=str(execution),
        after={"status": execution.status},
        reason=reason,
    )
