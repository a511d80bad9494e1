"""Limits of sign-in attempts by name and address, as django-axes calls them.

Attempts are counted by name and address together, so nobody locks others out from elsewhere. Two wider bounds,
far above what people mistype, stop who tries many names from one address, or one name from many: these do
not count for browsers that the person has signed in with before (``known_browsers``).
"""

import ipaddress
from datetime import datetime, timedelta
from typing import Any

from axes.handlers.database import AxesDatabaseHandler
from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max, QuerySet, Sum
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from elevata.accounts.known_browsers import is_known
from elevata.web import error_pages

_IPV6_SITE = 64


def address_of(request: HttpRequest) -> str | None:
    """The address somebody comes from; of IPv6 the network of their site, where addresses are for the taking.

    A header is believed only if settings name it, and only the part that the trusted proxies in front
    wrote: the ``CLIENT_ADDRESS_PROXIES``-th from its end. What came before, anybody may have made up.
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
    """An address, without brackets or port; None if it is none."""
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
    """Signing in without a name (by single sign-on) guesses nothing: a provider in trouble locks nobody out."""
    return not (credentials or {}).get("username")


class Handler(AxesDatabaseHandler):
    """Counts as the library does, and asks for the wider bounds, too."""

    def is_locked(self, request: HttpRequest, credentials: dict[str, Any] | None = None) -> bool:
        """Return whether the attempt is refused without checking the password."""
        name = (credentials or {}).get("username") or ""
        return super().is_locked(request, credentials) or opens_at(request, name) is not None


def opens_at(request: HttpRequest, name: str) -> datetime | None:
    """Return when the wider bounds admit this name from this address again; None if they do now."""
    held = [at for at in (of_name(name), of_address(request.axes_ip_address)) if at is not None]
    return max(held) if held and not is_known(request, name) else None


def of_name(name: str) -> datetime | None:
    """Until when a name was tried too often, wherever from; None if it was not."""
    return _until(AccessAttempt.objects.filter(username=name), settings.SIGN_IN_FAILURES_OF_NAME)


def of_address(address: str | None) -> datetime | None:
    """Until when too much was tried from an address, whatever names; None if it was not.

    An address that is a proxy's for all who come tells nothing.
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
    """429 with when to try again."""
    name = (credentials or {}).get("username") or ""
    seconds = seconds_locked(name, request.axes_ip_address, opens_at(request, name))
    minutes = max(1, -(-seconds // 60))
    answer = error_pages.answer(
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
    """For how long the last attempt counted for the two still locks, or a wider bound; at least a second."""
    now = timezone.now()
    counted = AccessAttempt.objects.filter(
        username=name, ip_address=address, attempt_time__gte=now - settings.AXES_COOLOFF_TIME
    ).aggregate(at=Max("attempt_time"), times=Sum("failures_since_start"))
    is_over = (counted["times"] or 0) >= settings.AXES_FAILURE_LIMIT
    pair = counted["at"] + settings.AXES_COOLOFF_TIME if is_over else now
    return max(1, int((max(pair, wider or now) - now) / timedelta(seconds=1)))
