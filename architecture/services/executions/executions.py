"""Life cycle of an execution: requested, claimed, cancelled, lost, resumed, abandoned.

The states of its job are changed by ``elevata.jobs``. The writes of an attempt are in ``attempts``; the sealed
result in ``records``.
"""

from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

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
from elevata.jobs import services as jobs
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.submission import Submitted
from metadata.domain.roles import Permission
from metadata.services.changelog import record_change


class Requested(Submitted[Execution]):
    """Result of asking for an execution; an active one stays as it is."""

    @property
    def execution(self) -> Execution:
        return self.job


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
    known = row.executions.filter(abandoned=False).first()
    if known is not None:
        if known.status == states.SUCCEEDED:
            raise Refused("ALREADY_EXECUTED")
        if known.status in states.ACTIVE:
            return Requested(known, requested=False)
        return Requested(resume_execution(execution=known, person=person))
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
                environment_name=report.environment.name,
                report=report,
                preview=preview,
                requested_by=person,
                requester=person.get_username(),
                command=command[:200],
            )
            sign_execution(execution)
            ExecutionOperation.objects.bulk_create(execution_rows(execution, preview, operations_of(report)))
    except IntegrityError:  # somebody asked for it in this very moment
        return Requested(report.executions.filter(abandoned=False).get(), requested=False)
    with on_behalf_of(person):
        _log(execution, "requested")
    note_on(execution, said.requested(execution.who, execution.command))
    return Requested(execution)


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
    jobs.mark_lost(job_pk=execution.pk)
    queued = jobs.queue_again(job_pk=execution.pk)
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
    """Set what a queued execution waits for; the log says it once, however often it is tried."""
    if jobs.wait(job_pk=execution_pk, phase=phase):
        note_on(Execution.objects.get(pk=execution_pk), line)


def log_failed_wakeup(job: Job, reason: str) -> None:
    """Add a line to an execution's log: no worker could be woken for it."""
    note(job.pk, job.attempt, said.not_told(reason))


def log_wakeup(job: Job) -> None:
    """Add a line to an execution's log: the broker takes messages again."""
    note(job.pk, job.attempt, said.told_again())


@transaction.atomic
def _claim(execution_pk: int, worker: str) -> ExecutionAttempt | None:
    claimed = jobs.claim(job_pk=execution_pk, worker=worker, keep_start=True)
    if claimed is None:
        return None
    execution = Execution.objects.select_related("environment").get(pk=execution_pk)
    attempt = ExecutionAttempt(claimed.job_pk, claimed.number)
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
    status = jobs.request_cancel(job_pk=execution.pk, error=error)
    execution.refresh_from_db()
    if status is not None:
        with on_behalf_of(person):
            _log(execution, "cancelled")
        at_once = status == states.CANCELED
        note_on(execution, (said.canceled_at_once if at_once else said.cancel_asked)(person.get_username()))
    return execution


@transaction.atomic
def abandon_execution(*, execution: Execution, person: Any, reason: str) -> Execution:
    """End an execution that will not be resumed; its record is sealed with what it did."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_execution(execution))
    if not reason.strip():
        raise Refused("NO_REASON")
    abandoned = jobs.abandon(job_pk=execution.pk, reason=reason.strip()[:200])
    if abandoned:
        Execution.objects.filter(pk=execution.pk).update(abandoned=True)
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
    execution = Execution.objects.select_related("environment").get(pk=attempt.job_pk)
    if wanted == states.SUCCEEDED and execution.operations.exclude(status="succeeded").exists():
        wanted = states.FAILED
    end = attempt.end(wanted=wanted, error=error)
    if end is None:
        return None
    released = release_leases(environment=execution.environment, holder=attempt.holder)
    execution.refresh_from_db()
    note(execution.pk, attempt.number, said.ended(end, execution.seconds, execution.error, released))
    tell_execution_ended(execution)
    if end in states.ENDED:
        seal(execution)
    return execution


def end_lost_execution(job: Job, error: dict[str, Any]) -> None:
    """Settle an execution that was marked as lost: its leases, its log and its notices."""
    execution = Execution.objects.select_related("environment").get(pk=job.pk)
    attempt = ExecutionAttempt(job.pk, job.attempt)
    released = release_leases(environment=execution.environment, holder=attempt.holder)
    note(execution.pk, attempt.number, said.given_up(error, released))
    tell_execution_ended(execution)


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
