"""Who is locked out of sign-in, and letting them in again."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max, Sum
from django.utils import timezone

from metadata.domain.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.permissions import may, must_write
from metadata.services.actor import current_actor
from metadata.services.changelog import record_change


@dataclass(frozen=True)
class Lock:
    """Too many wrong passwords for a name from one address; ``until`` is when it opens by itself."""

    name: str
    address: str
    until: datetime


def locks(name: str = "") -> list[Lock]:
    """What is locked now: all, or those of one name."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    counted = AccessAttempt.objects.filter(attempt_time__gte=since).exclude(username=None)
    if name:
        counted = counted.filter(username=name)
    rows = counted.values("username", "ip_address").annotate(
        times=Sum("failures_since_start"), last=Max("attempt_time")
    )
    over = rows.filter(times__gte=settings.AXES_FAILURE_LIMIT).order_by("username", "ip_address")
    return [Lock(row["username"], row["ip_address"] or "", row["last"] + settings.AXES_COOLOFF_TIME) for row in over]


def unlock(*, name: str) -> int:
    """Forget the wrong passwords given for a name, wherever they came from. Returns how many locks that opened.

    Stands in the change log. MetadataError ``not_permitted`` for a person who may not manage people.
    """
    must_write()
    actor: Any = current_actor().user
    if actor is not None and not may(actor, Permission.MANAGE_PEOPLE):
        raise MetadataError("not_permitted", f"this needs the permission {Permission.MANAGE_PEOPLE}")
    opened = len(locks(name))
    AccessAttempt.objects.filter(username=name).delete()
    if opened:
        record_change(
            action="changed",
            subject_kind="person",
            subject_key=name,
            subject_name=name,
            before={"sign_in": "locked"},
            after={"sign_in": "unlocked"},
        )
    return opened
