"""How often somebody may try to sign in, from where: the parts that django-axes asks for.

Attempts are counted by name and address together, so nobody locks others out from elsewhere.
"""

import ipaddress
from datetime import timedelta
from typing import Any

from axes.models import AccessAttempt
from django.conf import settings
from django.db.models import Max
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from elevata import problems

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


def locked_out(
    request: HttpRequest, response: HttpResponse | None = None, credentials: dict[str, Any] | None = None
) -> HttpResponse:
    """429 with when to try again."""
    name = (credentials or {}).get("username") or ""
    seconds = seconds_locked(name, request.axes_ip_address)
    minutes = max(1, -(-seconds // 60))
    answer = problems.answer(
        request,
        status=429,
        title="Too many attempts",
        detail=f"Signing in was tried too often with a wrong password. Try again in {minutes} "
        f"{'minute' if minutes == 1 else 'minutes'}, or ask an administrator to unlock it.",
        code="too_many_attempts",
    )
    answer.headers["Retry-After"] = str(seconds)
    return answer


def seconds_locked(name: str, address: str | None) -> int:
    """For how long the last counted attempt still locks, at least a second."""
    newest = AccessAttempt.objects.filter(username=name, ip_address=address).aggregate(at=Max("attempt_time"))["at"]
    left = (newest or timezone.now()) + settings.AXES_COOLOFF_TIME - timezone.now()
    return max(1, int(left / timedelta(seconds=1)))
