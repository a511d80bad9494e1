"""Dry runs: the steps of a preview on shallow clones, which the loader executes."""

from typing import Any

from django.db import IntegrityError, transaction

from architecture.domain import report_states
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport, DryRun, Preview
from architecture.permissions import must_be_permitted, place_of_report
from architecture.services.reports import record_why_of
from elevata.accounts.roles import Permission
from elevata.jobs import services as jobs
from elevata.jobs import states
from elevata.jobs.services import Attempt
from elevata.jobs.submission import Submitted


class RequestedDryRun(Submitted[DryRun]):
    """Result of requesting a dry run: a queued one, or the one that is active already."""

    @property
    def dry_run(self) -> DryRun:
        return self.job


def request_dry_run(*, preview: Preview, user: Any) -> RequestedDryRun:
    """Request a dry run, or return the one that is queued or running. Raise Refused while the report is executed."""
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_report(preview.report))
    report_states.refuse_closed(preview.report.status)
    if preview.report.executions.filter(status__in=states.ACTIVE).exists():
        raise Refused("ALREADY_RUNNING")
    requested = queue_dry_run(preview, user)
    if requested.requested:
        record_why_of(preview.report, "dry_run")
    return requested


def queue_dry_run(preview: Preview, user: Any) -> RequestedDryRun:
    exclusive = f"dry run of preview {preview.pk}"
    try:
        with transaction.atomic():
            dry_run = DryRun.objects.create(
                preview=preview,
                requested_by=user,
                exclusive=exclusive,
                environment_name=preview.report.environment.name,
            )
    except IntegrityError:
        return RequestedDryRun(DryRun.objects.get(exclusive=exclusive), requested=False)
    return RequestedDryRun(dry_run)


def cancel_dry_runs(report: ChangeReport) -> None:
    """Cancel the dry runs of a report that is executed now, so that the execution does not wait for their results.

    The worker of a running one stops after the current step and drops the clones. Call in a transaction.
    """
    error = {"code": "CANCELED", "message": "the report is executed", "hint": "see its execution"}
    active = DryRun.objects.filter(preview__report=report, status__in=states.ACTIVE)
    for pk in active.values_list("pk", flat=True):
        jobs.request_cancel(job_pk=pk, error=error)


@transaction.atomic
def end_dry_run(*, attempt: Attempt, result: dict | None = None, error: dict | None = None) -> bool:
    """Store the result or error of a dry run. Return False if the attempt is not the current one."""
    ended = attempt.end(wanted=states.FAILED if error else states.SUCCEEDED, error=error)
    if ended is not None:
        DryRun.objects.filter(pk=attempt.job_pk).update(result=result)
    return ended is not None
