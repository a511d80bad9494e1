"""Life cycle of executions.

``elevata.jobs`` changes the states of the job. ``architecture.services.execution_attempts`` has the writes of an
attempt, ``architecture.services.execution_records`` the record.
"""

from dataclasses import replace
from typing import Any

from django.db import IntegrityError, transaction

from architecture.domain import decisions, execution_log
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, Execution, ExecutionOperation, Preview
from architecture.permissions import (
    must_be_permitted,
    on_behalf_of,
    place_of_execution,
    place_of_report,
    refuse_elsewhere,
    who_answers,
)
from architecture.services.change_policy import policy_in_force
from architecture.services.dry_runs import cancel_dry_runs
from architecture.services.execution_attempts import ExecutionAttempt, names_of, note, note_on
from architecture.services.execution_records import seal
from architecture.services.leases import release_leases, take_leases
from architecture.services.notifications import settle_execution, tell_execution_ended
from architecture.services.previews import execution_rows, newest_preview
from architecture.services.reports import authors_of_report, decisions_on, operations_of, refuse_stale
from architecture.services.row_signatures import (
    refuse_unproven,
    refuse_unproven_execution,
    refuse_unproven_preview,
    sign_execution,
)
from elevata.accounts.roles import Permission
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.change_log import record_change
from elevata.jobs import services as jobs
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.submission import Submitted


class Requested(Submitted[Execution]):
    """Result of requesting an execution: a queued one, or the one that is active already."""

    @property
    def execution(self) -> Execution:
        return self.job


@transaction.atomic
def request_execution(
    *, report: ChangeReport, user: Any, preview_fingerprint: str = "", command: str = ""
) -> Requested:
    """Request the execution of an approved, previewed report. A repeated request returns the same execution.

    An execution that failed, was cancelled or lost is queued again, as its next attempt. Raises Refused with a code of
    ``refusals.CODES``; then nothing is written.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(report))
    refuse_elsewhere(report.environment, "the report")
    row = ChangeReport.objects.select_for_update().get(pk=report.pk)
    known = row.executions.filter(abandoned=False).first()
    if known is not None:
        if known.status == states.SUCCEEDED:
            raise Refused("ALREADY_EXECUTED")
        if known.status in states.ACTIVE:
            return Requested(known, requested=False)
        return Requested(resume_execution(execution=known, user=user))
    refuse_unapproved(row, user)
    preview = newest_preview(row)
    if preview is None:
        raise Refused("NO_PREVIEW")
    if preview_fingerprint and preview_fingerprint != preview.fingerprint:
        raise Refused("PREVIEW_STALE", "a newer preview was made than the one you have seen")
    refuse_unproven_preview(row, preview)
    refuse_stale(row)
    return _create(row, preview, user, command)


def refuse_unapproved(report: ChangeReport, user: Any) -> None:
    """Raise Refused unless the report has all required approvals, all are proven, and the user may execute it."""
    refuse_unproven(report)
    policy = policy_in_force(report.environment)
    decisions.refuse_execution(
        status=report.status,
        decisions=decisions_on(report),
        fingerprint=report.fingerprint,
        need=policy.approvals[report.risk],
        authors=authors_of_report(report),
        user=who_answers(user) if user is not None else "",
        approver_may_execute=policy.approver_may_execute,
    )


def _create(report: ChangeReport, preview: Preview, user: Any, command: str) -> Requested:
    try:
        with transaction.atomic():
            execution = Execution.objects.create(
                environment=report.environment,
                environment_name=report.environment.name,
                report=report,
                preview=preview,
                requested_by=user,
                requester=user.get_username(),
                command=command[:200],
            )
            sign_execution(execution)
            ExecutionOperation.objects.bulk_create(execution_rows(execution, preview, operations_of(report)))
    except IntegrityError:  # concurrent request
        return Requested(report.executions.filter(abandoned=False).get(), requested=False)
    cancel_dry_runs(report)
    with on_behalf_of(user):
        _log(execution, "requested")
    note_on(execution, execution_log.requested(execution.who, execution.command))
    return Requested(execution)


@transaction.atomic
def resume_execution(*, execution: Execution, user: Any) -> Execution:
    """Queue a failed, cancelled or lost execution again. Finished steps are not repeated.

    An execution without a heartbeat for too long counts as lost, even if it is not marked yet.
    """
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    if execution.report is None:
        raise Refused("NOT_RESUMABLE", "it belongs to a load run", "start the load run again")
    refuse_elsewhere(execution.environment, "the report")
    refuse_unproven_execution(execution)
    refuse_unapproved(execution.report, user)
    jobs.mark_lost(job_pk=execution.pk)
    queued = jobs.queue_again(job_pk=execution.pk)
    execution.refresh_from_db()
    if not queued:
        _refuse_state(execution, "resumed")
    cancel_dry_runs(execution.report)
    execution.operations.filter(status=ExecutionOperation.Status.FAILED).update(
        status=ExecutionOperation.Status.PLANNED, error="", observed=None, version_after=None, seconds=None
    )
    with on_behalf_of(user):
        _log(execution, "resumed")
    done = execution.operations.filter(status=ExecutionOperation.Status.SUCCEEDED).count()
    note_on(execution, execution_log.resumed(user.get_username(), done, execution.operations.count() - done))
    return execution


def claim_execution(*, execution_pk: int, worker: str) -> ExecutionAttempt | None:
    """Claim a queued execution and the leases of all its datasets.

    Returns None if it is already claimed or no longer queued. If a lease is held, the execution stays queued with the
    holder as reason; the sweep retries it.
    """
    try:
        return _claim(execution_pk, worker)
    except Refused as refused:
        _wait(execution_pk, f"waiting: {refused.message}", execution_log.waiting(refused.message))
        return None


@transaction.atomic
def _wait(execution_pk: int, phase: str, line: execution_log.Line) -> None:
    """Set the reason why a queued execution waits. It is logged once, not at every retry."""
    if jobs.wait(job_pk=execution_pk, phase=phase):
        note_on(Execution.objects.get(pk=execution_pk), line)


def log_failed_wakeup(job: Job, reason: str) -> None:
    """Add a line to an execution's log: the broker did not take the message for a worker."""
    note(job.pk, job.attempt, execution_log.not_told(reason))


def log_wakeup(job: Job) -> None:
    """Add a line to an execution's log: the broker takes messages again."""
    note(job.pk, job.attempt, execution_log.told_again())


@transaction.atomic
def _claim(execution_pk: int, worker: str) -> ExecutionAttempt | None:
    claimed = jobs.claim(job_pk=execution_pk, worker=worker, keep_start=True)
    if claimed is None:
        return None
    execution = Execution.objects.select_related("environment").get(pk=execution_pk)
    attempt = ExecutionAttempt(claimed.job_pk, claimed.number)
    keys = {str(key) for key in execution.operations.values_list("dataset_key", flat=True)}
    leases = take_leases(environment=execution.environment, dataset_keys=keys, holder=attempt.holder)
    names = names_of(keys, execution.environment)
    note(execution_pk, attempt.number, execution_log.claimed(attempt.number, worker, names))
    return replace(attempt, leases=leases)


@transaction.atomic
def cancel_execution(*, execution: Execution, user: Any) -> Execution:
    """Request that an execution stops between two steps; a queued execution is cancelled at once."""
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    error = {"code": "CANCELED", "message": f"cancelled by {user.get_username()}"}
    status = jobs.request_cancel(job_pk=execution.pk, error=error)
    execution.refresh_from_db()
    if status is not None:
        with on_behalf_of(user):
            _log(execution, "cancelled")
        at_once = status == states.CANCELED
        note_on(
            execution,
            (execution_log.canceled_at_once if at_once else execution_log.cancel_asked)(user.get_username()),
        )
    return execution


@transaction.atomic
def abandon_execution(*, execution: Execution, user: Any, reason: str) -> Execution:
    """End an execution that will not be resumed, and write a record of its finished steps."""
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    if not reason.strip():
        raise Refused("NO_REASON")
    abandoned = jobs.abandon(job_pk=execution.pk, reason=reason.strip()[:200])
    if abandoned:
        Execution.objects.filter(pk=execution.pk).update(abandoned=True)
    execution.refresh_from_db()
    if not abandoned:
        _refuse_state(execution, "abandoned")
    with on_behalf_of(user):
        _log(execution, "abandoned", reason.strip())
        settle_execution(execution)
        note_on(execution, execution_log.abandoned(user.get_username(), reason.strip()))
        seal(execution)
    return execution


@transaction.atomic
def end_attempt(*, attempt: ExecutionAttempt, wanted: str, error: dict | None = None) -> Execution | None:
    """End an attempt, release its leases, and write the record if the execution has ended.

    ``wanted`` is succeeded or failed; an execution with unfinished steps fails. Returns None if the attempt is not the
    current one.
    """
    execution = Execution.objects.select_related("environment").get(pk=attempt.job_pk)
    if wanted == states.SUCCEEDED and execution.operations.exclude(status="succeeded").exists():
        wanted = states.FAILED
    end = attempt.end(wanted=wanted, error=error)
    if end is None:
        return None
    released = release_leases(environment=execution.environment, holder=attempt.holder)
    execution.refresh_from_db()
    note(execution.pk, attempt.number, execution_log.ended(end, execution.seconds, execution.error, released))
    tell_execution_ended(execution)
    if end in states.ENDED:
        seal(execution)
    return execution


def end_lost_execution(job: Job, error: dict[str, Any]) -> None:
    """Release the leases of an execution that was marked as lost, log it and notify operators."""
    execution = Execution.objects.select_related("environment").get(pk=job.pk)
    attempt = ExecutionAttempt(job.pk, job.attempt)
    released = release_leases(environment=execution.environment, holder=attempt.holder)
    note(execution.pk, attempt.number, execution_log.given_up(error, released))
    tell_execution_ended(execution)


def current_requester(execution: Execution) -> Any:
    """Return the user who requested the execution or, if it was resumed, who resumed it last."""
    entries = ChangeLogEntry.objects.filter(subject_kind="execution", subject_key=str(execution.pk), action="resumed")
    entry = entries.select_related("user").order_by("-pk").first()
    return entry.user if entry is not None and entry.user is not None else execution.requested_by


def _refuse_state(execution: Execution, wanted: str) -> None:
    if execution.status in states.ACTIVE:
        raise Refused("ALREADY_RUNNING")
    if execution.status == states.SUCCEEDED:
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
