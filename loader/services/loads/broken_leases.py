"""Breaking of leases: the holder's writes are refused at once, not only after its next heartbeat."""

from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from architecture.models import Lease
from architecture.services.leases import break_lease
from elevata.jobs.models import Job
from elevata.jobs.services import give_up
from loader.contract.refusals import Refusal
from loader.services.loads.attempts import LOAD_RUN

LEASE_BROKEN = "LEASE_BROKEN"


@transaction.atomic
def shut_out_holder(*, lease: Lease, fence: int, user: Any, reason: str) -> Lease:
    """Break a lease, and mark its holder (run or execution) as lost, which frees its other leases.

    ``fence`` is the lease's number on the user's page: raise Refusal LEASE_MOVED if it was released or taken since.
    Raise Refused for a user without the permission, and without a reason. Write a change-log entry. The holder's
    commits stay; it can be started again and continues after them.
    """
    current = Lease.objects.select_for_update(of=("self",)).select_related("environment").get(pk=lease.pk)
    if not current.holder_kind or current.fence != fence:
        now = f"{current.holder_kind} {current.holder_id} has it" if current.holder_kind else "it is free"
        raise Refusal("LEASE_MOVED", f"the lease is not what you have seen: {now} by now", hint="nothing was broken")
    kind, name, attempt = current.holder_kind, current.holder_id, current.holder_attempt
    broken = break_lease(lease=current, user=user, reason=reason)
    error = {
        "code": LEASE_BROKEN,
        "message": f"{user.get_username()} broke one of its leases: {reason.strip()}",
        "hint": "remove the cause, then start it again; finished parts are not repeated",
    }
    for job in _jobs_of(kind, name, attempt):
        give_up(job=job, error=error)
    return broken


def _jobs_of(kind: str, name: str, attempt: int) -> QuerySet[Job]:
    """Return the job of a lease's holder; empty if the job has another attempt by now."""
    jobs = Job.objects.filter(attempt=attempt)
    return jobs.filter(load_run_row__run_id=name) if kind == LOAD_RUN else jobs.filter(execution_row__pk=int(name))
