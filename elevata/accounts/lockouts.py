"""Throttling of sign-in attempts, locks and unlocking."""

import ipaddress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max, OuterRef, Q, QuerySet, Subquery, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from elevata.accounts.known_browsers import is_known
from elevata.accounts.permissions import current_actor, may, must_write
from elevata.accounts.roles import Permission, needed_role
from elevata.audit.services.change_log import record_change
from elevata.core.errors import MetadataError
from elevata.web import middleware

# Limits of sign-in attempts, named as in django-axes. Attempts are counted by name and address together, so nobody
# can lock a user out from elsewhere. Two wider limits, far above the number of typing errors, stop attempts on many
# names from one address, or on one name from many: these do not apply to browsers that the user has signed in from
# before (``known_browsers``).


_IPV6_SITE = 64


def address_of(request: HttpRequest) -> str | None:
    """Return the client's address; of IPv6 the network of its site, whose addresses a client can choose.

    A header counts only if settings name it, and only the part that the trusted proxies wrote: the
    ``CLIENT_ADDRESS_PROXIES``-th from its end. A client can forge everything before it.
    """
    told = request.META.get("REMOTE_ADDR", "")
    if settings.CLIENT_ADDRESS_HEADER:
        name = "HTTP_" + settings.CLIENT_ADDRESS_HEADER.upper().replace("-", "_")
        parts = [part.strip() for part in request.META.get(name, "").split(",")]
        if len(parts) >= settings.CLIENT_ADDRESS_PROXIES and _parsed(parts[-settings.CLIENT_ADDRESS_PROXIES]):
            told = parts[-settings.CLIENT_ADDRESS_PROXIES]
    address = _parsed(told)
    if address is None:
        return None
    if address.version == 6:
        return str(ipaddress.ip_network((address, _IPV6_SITE), strict=False).network_address)
    return str(address)


def _parsed(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return an address without brackets or port; None if it is invalid."""
    bare = text.strip()
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        address = ipaddress.ip_address(bare)
    except ValueError:
        return None
    return address.ipv4_mapped or address if address.version == 6 else address


def is_no_guess(request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
    """Return whether the request has no user name (single sign-on): failures of a provider lock nobody out."""
    return not (credentials or {}).get("username")


class Handler(AxesDatabaseHandler):
    """Handler that counts as django-axes does, and applies the wider limits, too."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """Return whether the attempt is refused without checking the password."""
        name = (credentials or {}).get("username") or ""
        return super().is_locked(request, credentials) or opens_at(request, name) is not None


def opens_at(request: HttpRequest, name: str) -> datetime | None:
    """Return when the wider bounds admit this name from this address again; None if they do now."""
    held = [at for at in (of_name(name), of_address(request.axes_ip_address)) if at is not None]
    return max(held) if held and not is_known(request, name) else None


def of_name(name: str) -> datetime | None:
    """Return the end of a name's lock, for attempts from any address; None if it is not locked."""
    return _until(AccessAttempt.objects.filter(username=name), settings.SIGN_IN_FAILURES_OF_NAME)


def of_address(address: str | None) -> datetime | None:
    """Return the end of an address's lock, for attempts on any name; None if it is not locked.

    The address of a proxy that all clients share is never locked.
    """
    if address is None or (settings.BEHIND_HTTPS and not settings.CLIENT_ADDRESS_HEADER):
        return None
    return _until(AccessAttempt.objects.filter(ip_address=address), settings.SIGN_IN_FAILURES_OF_ADDRESS)


def _until(attempts: QuerySet[AccessAttempt], most: int) -> datetime | None:
    """Return when enough attempts have expired; None if they are fewer than ``most`` now."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    counted = attempts.filter(attempt_time__gte=since).order_by("attempt_time")
    rows = list(counted.values_list("attempt_time", "failures_since_start"))
    left = sum(failures for _, failures in rows)
    if left < most:
        return None
    for at, failures in rows:
        left -= failures
        if left < most:
            return at + settings.AXES_COOLOFF_TIME
    raise AssertionError("a bound is at least 1")


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Return 429 with the time of the next permitted attempt."""
    name = (credentials or {}).get("username") or ""
    seconds = seconds_locked(name, request.axes_ip_address, opens_at(request, name))
    minutes = max(1, -(-seconds // 60))
    answer = middleware.answer(
        request,
        status=429,
        title="Too many attempts",
        detail=f"Signing in was tried too often with a wrong password. Try again in {minutes} "
        f"{'minute' if minutes == 1 else 'minutes'}, or ask an administrator to unlock it.",
        code="too_many_attempts",
    )
    answer.headers["Retry-After"] = str(seconds)
    return answer


def seconds_locked(name: str, address: str | None, wider: datetime | None = None) -> int:
    """Return how many seconds the lock of name and address, or of a wider limit, still lasts; at least one."""
    now = timezone.now()
    counted = AccessAttempt.objects.filter(
        username=name, ip_address=address, attempt_time__gte=now - settings.AXES_COOLOFF_TIME
    ).aggregate(at=Max("attempt_time"), times=Sum("failures_since_start"))
    is_over = (counted["times"] or 0) >= settings.AXES_FAILURE_LIMIT
    pair = counted["at"] + settings.AXES_COOLOFF_TIME if is_over else now
    return max(1, int((max(pair, wider or now) - now) / timedelta(seconds=1)))


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
    wide = [Lock(name, MANY, until) for name in names if (until := of_name(name)) is not None]
    return [*wide, *pairs]


def unlock(*, name: str) -> int:
    """Clear the failed attempts on a name from all addresses; return the number of locks removed.

    Writes a change-log entry. Raises MetadataError ``not_permitted`` for a user who may not manage users.
    """
    _must_manage()
    opened = len(locks(name))
    AccessAttempt.objects.filter(username=name).delete()
    if opened:
        _record("user", name)
    return opened


def unlock_address(*, address: str) -> bool:
    """Clear the failed attempts from an address on all names; return whether it was locked as a whole.

    ``address`` as it is counted: of IPv6 the site's network. Writes a change-log entry; ``not_permitted`` as above.
    """
    _must_manage()
    was_locked = of_address(address) is not None
    AccessAttempt.objects.filter(ip_address=address).delete()
    if was_locked:
        _record("address", address)
    return was_locked


def _record(kind: str, name: str) -> None:
    """Write the change-log entry of an unlocked user name or address."""
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
    if actor is not None and not may(actor, Permission.MANAGE_USERS):
        raise MetadataError("not_permitted", needed_role(Permission.MANAGE_USERS))
