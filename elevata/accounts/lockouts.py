"""Locked sign-ins, and unlocking them."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max, OuterRef, Q, Subquery, Sum
from django.utils import timezone

from elevata.accounts.throttling import of_address, of_name
from elevata.core.errors import MetadataError
from metadata.domain.roles import Permission, needed_role
from metadata.permissions import may, must_write
from metadata.services.actor import current_actor
from metadata.services.changelog import record_change

MANY = "many addresses"


@dataclass(frozen=True)
class Lock:
    """Too many wrong passwords for a name from one address, or from many; ``until`` is when it opens by itself."""

    name: str
    address: str
    until: datetime


def locks(name: str = "") -> list[Lock]:
    """Return the present locks: all, or those of one name."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    counted = AccessAttempt.objects.filter(attempt_time__gte=since).exclude(username=None)
    if name:
        counted = counted.filter(username=name)
    of_one = counted.filter(username=OuterRef("username")).order_by().values("username")
    rows = counted.values("username", "ip_address").annotate(
        times=Sum("failures_since_start"),
        last=Max("attempt_time"),
        in_all=Subquery(of_one.annotate(times=Sum("failures_since_start")).values("times")),
    )
    most, most_in_all = settings.AXES_FAILURE_LIMIT, settings.SIGN_IN_FAILURES_OF_NAME
    over = list(rows.filter(Q(times__gte=most) | Q(in_all__gte=most_in_all)).order_by("username", "ip_address"))
    pairs = [
        Lock(row["username"], row["ip_address"] or "", row["last"] + settings.AXES_COOLOFF_TIME)
        for row in over
        if row["times"] >= most
    ]
    names = dict.fromkeys(row["username"] for row in over if row["in_all"] >= most_in_all)
    wide = [Lock(one, MANY, until) for one in names if (until := of_name(one)) is not None]
    return [*wide, *pairs]


def unlock(*, name: str) -> int:
    """Forget the wrong passwords given for a name, wherever they came from. Returns how many locks that opened.

    Stands in the change log. MetadataError ``not_permitted`` for a person who may not manage people.
    """
    _must_manage()
    opened = len(locks(name))
    AccessAttempt.objects.filter(username=name).delete()
    if opened:
        _record("person", name)
    return opened


def unlock_address(*, address: str) -> bool:
    """Forget the wrong passwords given from an address, for whatever names. Returns whether it was locked as a whole.

    ``address`` as it is counted: of IPv6 the site's network. Stands in the change log; ``not_permitted`` as above.
    """
    _must_manage()
    was_locked = of_address(address) is not None
    AccessAttempt.objects.filter(ip_address=address).delete()
    if was_locked:
        _record("address", address)
    return was_locked


def _record(kind: str, name: str) -> None:
    """An entry of the change log: sign-in is open again for a person's name, or an address."""
    record_change(
        action="changed",
        subject_kind=kind,
        subject_key=name,
        subject_name=name,
        before={"sign_in": "locked"},
        after={"sign_in": "unlocked"},
    )


def _must_manage() -> None:
    must_write()
    actor: Any = current_actor().user
    if actor is not None and not may(actor, Permission.MANAGE_PEOPLE):
        raise MetadataError("not_permitted", needed_role(Permission.MANAGE_PEOPLE))
