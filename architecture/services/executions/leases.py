"""Leases: who may write to a dataset now. A load, an execution and a governed run never meet on one.

All leases of a run are taken at once or not at all, in the order of their keys, so that two runs
which want the same ones cannot wait for each other.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from architecture.domain.reports.workflow import Refused
from architecture.models import Environment, Lease
from architecture.report_places import place_of_environment
from architecture.selectors import dataset_names
from architecture.services.actors import must_be_permitted, on_behalf_of
from elevata.core.database import silent_before
from elevata.jobs import states
from metadata.domain.roles import Permission
from metadata.services.changelog import record_change

_FREE = {"holder_kind": "", "holder_id": "", "holder_attempt": 0, "taken_at": None, "heartbeat_at": None}


@dataclass(frozen=True)
class Holder:
    """Holder of leases: a load run (of any kind) or an execution, and its attempt."""

    kind: str
    id: str
    attempt: int

    def __str__(self) -> str:
        return f"{self.kind} {self.id}"


@dataclass(frozen=True)
class Held:
    """The leases that one attempt holds."""

    environment: Environment
    holder: Holder
    count: int

    def renew(self) -> bool:
        """Say that the holder is alive; False if it does not hold all of them any more."""
        mine = _of(self.environment, self.holder)
        return not self.count or mine.update(heartbeat_at=timezone.now()) == self.count

    def release(self) -> None:
        """Give back what is left of them."""
        release_leases(environment=self.environment, holder=self.holder)


@transaction.atomic
def take_leases(
    *,
    environment: Environment,
    dataset_keys: Collection[str],
    holder: Holder,
    silent_after: timedelta = states.LOST_AFTER,
) -> Held:
    """Take the leases of these datasets, all or none.

    Refused LEASE_HELD, naming the holder, unless each is free, run out, or of an older attempt of the
    same holder.
    """
    keys = sorted({str(key) for key in dataset_keys})
    now = timezone.now()
    known = {str(key) for key in _leases(environment, keys).values_list("dataset_key", flat=True)}
    Lease.objects.bulk_create(
        [Lease(environment=environment, dataset_key=key) for key in keys if key not in known], ignore_conflicts=True
    )
    own = Q(holder_kind=holder.kind, holder_id=holder.id, holder_attempt__lte=holder.attempt)
    available = Q(holder_kind="") | Q(heartbeat_at__lt=silent_before(silent_after)) | own
    for key in keys:
        taken = (
            _leases(environment, [key])
            .filter(available)
            .update(
                holder_kind=holder.kind,
                holder_id=holder.id,
                holder_attempt=holder.attempt,
                fence=F("fence") + 1,
                taken_at=now,
                heartbeat_at=now,
            )
        )
        if not taken:
            raise _refused(_leases(environment, [key]).select_related("environment").get())
    return Held(environment, holder, len(keys))


def release_leases(*, environment: Environment, holder: Holder) -> int:
    """Give back whatever this attempt holds; returns how many leases that were."""
    return _of(environment, holder).update(**_FREE)


@transaction.atomic
def break_lease(*, lease: Lease, person: Any, reason: str) -> Lease:
    """Take a lease away from its holder, who finds out with its next heartbeat. Stands in the change log."""
    must_be_permitted(person, Permission.EXECUTE_REPORTS, on=place_of_environment(lease.environment))
    if not reason.strip():
        raise Refused("NO_REASON")
    held = Lease.objects.select_for_update().get(pk=lease.pk)
    if held.holder_kind:
        Lease.objects.filter(pk=held.pk).update(**_FREE, fence=F("fence") + 1)
        with on_behalf_of(person):
            record_change(
                action="broken",
                subject_kind="lease",
                subject_key=f"{held.environment}/{held.dataset_key}",
                subject_name=f"lease of {_name(held)} in {held.environment}",
                before={"holder": f"{held.holder_kind} {held.holder_id}"},
                dataset_key=held.dataset_key,
                reason=reason.strip(),
            )
    held.refresh_from_db()
    return held


def _leases(environment: Environment, keys: Collection[str]) -> QuerySet[Lease]:
    return Lease.objects.filter(environment=environment, dataset_key__among=keys)


def _of(environment: Environment, holder: Holder) -> QuerySet[Lease]:
    return Lease.objects.filter(
        environment=environment, holder_kind=holder.kind, holder_id=holder.id, holder_attempt=holder.attempt
    )


def _refused(lease: Lease) -> Refused:
    return Refused(
        "LEASE_HELD",
        f"{lease.holder_kind} {lease.holder_id} writes to {_name(lease)} since {lease.taken_at:%Y-%m-%d %H:%M:%S} UTC",
    )


def _name(lease: Lease) -> str:
    key = str(lease.dataset_key)
    return dataset_names([key], environment=lease.environment)[key]
