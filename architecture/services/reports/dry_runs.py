"""Dry runs: a preview's steps on shallow clones, before and after compared. The loader performs them."""

from typing import Any

from django.db import IntegrityError, transaction

from architecture.domain.reports import workflow
from architecture.models import Preview, Rehearsal
from architecture.report_places import place_of_report
from architecture.services.actors import must_be_permitted
from architecture.services.reports.reports import record_why_of
from elevata.jobs import states
from elevata.jobs.attempts import Attempt
from elevata.jobs.submission import Submitted
from metadata.domain.roles import Permission


class RequestedDryRun(Submitted[Rehearsal]):
    """A requested dry run; one that is active stays as it is."""

    @property
    def rehearsal(self) -> Rehearsal:
        return self.job


def request_rehearsal(*, preview: Preview, person: Any) -> RequestedDryRun:
    """Request a dry run; one that is queued or running is returned as it is."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_report(preview.report))
    workflow.refuse_closed(preview.report.status)
    exclusive = f"dry run of preview {preview.pk}"
    try:
        with transaction.atomic():
            rehearsal = Rehearsal.objects.create(
                preview=preview,
                requested_by=person,
                exclusive=exclusive,
                environment_name=preview.report.environment.name,
            )
    except IntegrityError:
        return RequestedDryRun(Rehearsal.objects.get(exclusive=exclusive), requested=False)
    record_why_of(preview.report, "rehearsed")
    return RequestedDryRun(rehearsal)


@transaction.atomic
def end_rehearsal(*, attempt: Attempt, result: dict | None = None, error: dict | None = None) -> bool:
    """Store the result, or the error. Return False if the attempt does not hold the dry run any more."""
    ended = attempt.end(wanted=states.FAILED if error else states.SUCCEEDED, error=error)
    if ended is not None:
        Rehearsal.objects.filter(pk=attempt.job_pk).update(result=result)
    return ended is not None
