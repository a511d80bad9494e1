"""Locks of user names and addresses after failed sign-in attempts."""

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

from elevata.accounts.actors import current_actor
from elevata.accounts.known_browsers import is_known
from elevata.accounts.permissions import may, must_write
from elevata.accounts.roles import Permission, needed_role
from elevata.audit.services.change_log import record_change
from elevata.core.errors import MetadataError
from elevata.web import problems

# Sign-in attempts are counted by name and address together, so that nobody can lock a user out from another address.
# Two wider limits, far above the number of typing errors, stop attempts on many names from one address, and on one name
# from many addresses. The wider limits do not apply to known browsers (``elevata.accounts.known_browsers``).


_IPV6_SITE = 64


def address_of(request: HttpRequest) -> str | None:
    """Return the client's address; of IPv6 the network of its site, because a client can choose any address in it.

    The header that settings name has the address of each proxy at its end. The client's is the
    ``CLIENT_ADDRESS_PROXIES``-th from the end; a client can forge everything before it.
    """
    text = request.META.get("REMOTE_ADDR", "")
    if settings.CLIENT_ADDRESS_HEADER:
        name = "HTTP_" + settings.CLIENT_ADDRESS_HEADER.upper().replace("-", "_")
        parts = [part.strip() for part in request.META.get(name, "").split(",")]
        if len(parts) >= settings.CLIENT_ADDRESS_PROXIES and _parse_address(parts[-settings.CLIENT_ADDRESS_PROXIES]):
            text = parts[-settings.CLIENT_ADDRESS_PROXIES]
    address = _parse_address(text)
    if address is None:
        return None
    if address.version == 6:
        return str(ipaddress.ip_network((address, _IPV6_SITE), strict=False).network_address)
    return str(address)


def _parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
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
    """Return True if the request has no user name (single sign-on): a provider's failures lock no user."""
    return not (credentials or {}).get("username")


class Handler(AxesDatabaseHandler):
    """Handler of django-axes that also applies the wider limits."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """Return True if the attempt is refused without a check of the password."""
        name = (credentials or {}).get("username") or ""
        return super().is_locked(request, credentials) or opens_at(request, name) is not None


def opens_at(request: HttpRequest, name: str) -> datetime | None:
    """Return the time from which the wider limits permit this name and address again; None if they do now."""
    ends = [at for at in (of_name(name), of_address(_address_of(request))) if at is not None]
    return max(ends) if ends and not is_known(request, name) else None


def _address_of(request: HttpRequest) -> Any:
    return request.axes_ip_address  # type: ignore[attr-defined]  # set by django-axes


def of_name(name: str) -> datetime | None:
    """Return the end of a name's lock, for attempts from any address; None if it is not locked."""
    return _end_of_lock(AccessAttempt.objects.filter(username=name), settings.SIGN_IN_FAILURES_OF_NAME)


def of_address(address: str | None) -> datetime | None:
    """Return the end of an address's lock, for attempts on any name; None if it is not locked.

    The address of a proxy that all clients share is never locked.
    """
    if address is None or (settings.BEHIND_HTTPS and not settings.CLIENT_ADDRESS_HEADER):
        return None
    return _end_of_lock(AccessAttempt.objects.filter(ip_address=address), settings.SIGN_IN_FAILURES_OF_ADDRESS)


def _end_of_lock(attempts: QuerySet[AccessAttempt], most: int) -> datetime | None:
    """Return the time at which fewer than ``most`` attempts count; None if that is so now."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    recent = attempts.filter(attempt_time__gte=since).order_by("attempt_time")
    rows = list(recent.values_list("attempt_time", "failures_since_start"))
    count = sum(failures for _, failures in rows)
    if count < most:
        return None
    for at, failures in rows:
        count -= failures
        if count < most:
            return at + settings.AXES_COOLOFF_TIME
    raise AssertionError("a bound is at least 1")


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """Return 429 with the time of the next permitted attempt."""
    name = (credentials or {}).get("username") or ""
    seconds = seconds_locked(name, _address_of(request), opens_at(request, name))
    minutes = max(1, -(-seconds // 60))
    refusal = problems.answer(
        request,
        status=429,
        title="Too many attempts",
        detail=f"Signing in was tried too often with a wrong password. Try again in {minutes} "
        f"{'minute' if minutes == 1 else 'minutes'}, or ask an administrator to unlock it.",
        code="too_many_attempts",
    )
    refusal.headers["Retry-After"] = str(seconds)
    return refusal


def seconds_locked(name: str, address: str | None, wider: datetime | None = None) -> int:
    """Return the remaining seconds of the lock of name and address, or of a wider limit; at least one."""
    now = timezone.now()
    failures = AccessAttempt.objects.filter(
        username=name, ip_address=address, attempt_time__gte=now - settings.AXES_COOLOFF_TIME
    ).aggregate(at=Max("attempt_time"), times=Sum("failures_since_start"))
    is_over = (failures["times"] or 0) >= settings.AXES_FAILURE_LIMIT
    pair = failures["at"] + settings.AXES_COOLOFF_TIME if is_over else now
    return max(1, int((max(pair, wider or now) - now) / timedelta(seconds=1)))


MANY = "many addresses"


@dataclass(frozen=True)
class Lock:
    """Lock of a name after too many wrong passwords from one address, or from many; ``until`` is its end."""

    name: str
    address: str
    until: datetime


def locks(name: str = "") -> list[Lock]:
    """Return the current locks, by default of all names."""
    since = timezone.now() - settings.AXES_COOLOFF_TIME
    attempts = AccessAttempt.objects.filter(attempt_time__gte=since).exclude(username=None)
    if name:
        attempts = attempts.filter(username=name)
    of_same_name = attempts.filter(username=OuterRef("username")).order_by().values("username")
    rows = attempts.values("username", "ip_address").annotate(
        times=Sum("failures_since_start"),
        last=Max("attempt_time"),
        in_all=Subquery(of_same_name.annotate(times=Sum("failures_since_start")).values("times")),
    )
    most, most_in_all = settings.AXES_FAILURE_LIMIT, settings.SIGN_IN_FAILURES_OF_NAME
    locked_rows = list(rows.filter(Q(times__gte=most) | Q(in_all__gte=most_in_all)).order_by("username", "ip_address"))
    pairs = [
        Lock(row["username"], row["ip_address"] or "", row["last"] + settings.AXES_COOLOFF_TIME)
        for row in locked_rows
        if row["times"] >= most
    ]
    names = dict.fromkeys(row["username"] for row in locked_rows if row["in_all"] >= most_in_all)
    name_locks = [Lock(name, MANY, until) for name in names if (until := of_name(name)) is not None]
    return [*name_locks, *pairs]


def unlock(*, name: str) -> int:
    """Clear the failed attempts on a name from all addresses; return the number of locks removed.

    Writes a change-log entry. Raises MetadataError ``not_permitted`` for a user who may not manage users.
    """
    _must_manage()
    count = len(locks(name))
    AccessAttempt.objects.filter(username=name).delete()
    if count:
        _record("user", name)
    return count


def unlock_address(*, address: str) -> bool:
    """Clear the failed attempts from an address on all names; return True if it was locked.

    ``address`` is as ``address_of`` returns it. Writes a change-log entry. Raises MetadataError ``not_permitted`` for a
    user who may not manage users.
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
