"""Breaking of leases: the holder is shut out at once, not only with its next heartbeat."""

from typing import Any

from django.db import transaction

from architecture.models import Execution, Lease
from architecture.services.executions.executions import give_up_execution
from architecture.services.executions.leases import break_lease
from loader.domain.runs.refusals import Refusal
from loader.models import LoadRun
from loader.services.runs.runs import LOAD_RUN, give_up_run

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
    if kind == LOAD_RUN:
        for run in LoadRun.objects.filter(run_id=name, attempt=attempt).select_related("environment", "execution"):
            give_up_run(run=run, error=error)
    elif kind == Lease.Holder.EXECUTION:
        for one in Execution.objects.filter(pk=int(name), attempt=attempt).select_related("environment"):
            give_up_execution(execution=one, error=error)
    return broken
