"""Breaking of leases: the holder is shut out at once, not only with its next heartbeat."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.models import Lease
from architecture.services.executions.leases import break_lease
from elevata.jobs.models import Job
from elevata.jobs.services import give_up
from loader.domain.runs.refusals import Refusal
from loader.services.runs.runs import LOAD_RUN

LEASE_BROKEN = "LEASE_BROKEN"


@transaction.atomic
def shut_out_holder(*, lease: Lease, fence: int, person: Any, reason: str) -> Lease:
    """Break a lease, and mark the run or execution that holds it as lost, which frees its other leases.

    ``fence`` is the lease's number as the user saw it: Refusal LEASE_MOVED if it is free or held by another since.
    Refused for a user without the permission, and without a reason. The change log records it. What the
    holder has committed stays; it can be started again and goes on from there.
    """
    held = Lease.objects.select_for_update(of=("self",)).select_related("environment").get(pk=lease.pk)
    if not held.holder_kind or held.fence != fence:
        now = f"{held.holder_kind} {held.holder_id} has it" if held.holder_kind else "it is free"
        raise Refusal("LEASE_MOVED", f"the lease is not what you have seen: {now} by now", hint="nothing was broken")
    kind, name, attempt = held.holder_kind, held.holder_id, held.holder_attempt
    broken = break_lease(lease=held, person=person, reason=reason)
    error = {
        "code": LEASE_BROKEN,
        "message": f"{person.get_username()} broke one of its leases: {reason.strip()}",
        "hint": "see that the reason is gone, then start it again: what it had finished is not done twice",
    }
    for job in _jobs_of(kind, name, attempt):
        give_up(job=job, error=error)
    return broken


def _jobs_of(kind: str, name: str, attempt: int) -> QuerySet[Job]:
    """Return the job of a lease's holder, if this is still its attempt."""
    jobs = Job.objects.filter(attempt=attempt)
    return jobs.filter(load_run_row__run_id=name) if kind == LOAD_RUN else jobs.filter(execution_row__pk=int(name))
