"""Leases of datasets.

All leases of a run are taken together or not at all, in the order of their keys, so that two runs cannot wait for
each other.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.models import Environment, Lease
from architecture.permissions import must_be_permitted, on_behalf_of, place_of_environment
from architecture.selectors.dataset_states import dataset_names
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from elevata.core.database import shared_now, silent
from elevata.jobs import states

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
    """Leases of one attempt."""

    environment: Environment
    holder: Holder
    count: int

    def renew(self) -> bool:
        """Renew the leases; return False if the holder has lost one."""
        mine = _of(self.environment, self.holder)
        return not self.count or mine.update(heartbeat_at=shared_now()) == self.count

    def release(self) -> None:
        """Release the remaining leases."""
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

    Raises Refused LEASE_HELD, naming the holder, unless each is free, expired, or of an older attempt of the same
    holder. Leases in other environments with the same warehouse count, too, because they have the same tables.
    """
    keys = sorted({str(key) for key in dataset_keys})
    now = timezone.now()
    _refuse_held_beside(environment, keys, silent_after)
    known = {str(key) for key in _leases(environment, keys).values_list("dataset_key", flat=True)}
    Lease.objects.bulk_create(
        [Lease(environment=environment, dataset_key=key) for key in keys if key not in known], ignore_conflicts=True
    )
    own = Q(holder_kind=holder.kind, holder_id=holder.id, holder_attempt__lte=holder.attempt)
    available = Q(holder_kind="") | silent(_leases(environment, keys), silent_after) | own
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
                heartbeat_at=shared_now(),
            )
        )
        if not taken:
            raise _refused(_leases(environment, [key]).select_related("environment").get())
    return Held(environment, holder, len(keys))


def _refuse_held_beside(environment: Environment, keys: Collection[str], silent_after: timedelta) -> None:
    """Raise Refused LEASE_HELD for a dataset with a lease in another environment with the same warehouse."""
    same = Environment.objects.filter(warehouse=environment.warehouse).exclude(warehouse="")
    if not same.exclude(pk=environment.pk).exists():
        return
    # The lock serializes environments, which could otherwise take the same dataset at the same time.
    list(same.select_for_update().order_by("pk").values_list("pk", flat=True))
    beside = Lease.objects.filter(environment__in=same, dataset_key__among=keys).exclude(holder_kind="")
    beside = beside.exclude(environment=environment)
    row = beside.exclude(silent(beside, silent_after)).select_related("environment").first()
    if row is not None:
        raise _refused(row)


def release_leases(*, environment: Environment, holder: Holder) -> int:
    """Release all leases of this attempt; return their number."""
    return _of(environment, holder).update(**_FREE)


@transaction.atomic
def break_lease(*, lease: Lease, user: Any, reason: str) -> Lease:
    """Break a lease; its holder notices with the next heartbeat. Writes a change-log entry."""
    must_be_permitted(user, Permission.EXECUTE_REPORTS, on=place_of_environment(lease.environment))
    if not reason.strip():
        raise Refused("NO_REASON")
    row = Lease.objects.select_for_update().get(pk=lease.pk)
    if row.holder_kind:
        Lease.objects.filter(pk=row.pk).update(**_FREE, fence=F("fence") + 1)
        with on_behalf_of(user):
            record_change(
                action="broken",
                subject_kind="lease",
                subject_key=f"{row.environment}/{row.dataset_key}",
                subject_name=f"lease of {_name(row)} in {row.environment}",
                before={"holder": f"{row.holder_kind} {row.holder_id}"},
                dataset_key=row.dataset_key,
                reason=reason.strip(),
            )
    row.refresh_from_db()
    return row


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
