"""Provider of single sign-on: its settings, and its published metadata.

Settings name it by ``ELEVATA_OIDC_ISSUER``. Its addresses are read by OpenID Connect Discovery at the first sign-in,
so that the web process can start while the provider is down.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from threading import BoundedSemaphore
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import requests
from django.core.exceptions import ImproperlyConfigured

from elevata.accounts.roles import Role

TIMEOUT = 10  # seconds
_CACHE_SECONDS = 3600  # seconds
# A provider that did not answer is not asked again for this time.
_FAILED_SECONDS = 5
# Requests of users who are not signed in reach the provider: at most so many threads of a process wait for it.
_MOST_AT_ONCE = 2
_slots = BoundedSemaphore(_MOST_AT_ONCE)


class ProviderProblem(Exception):
    """Error of a provider that does not answer, or answers incorrectly."""


@dataclass(frozen=True)
class Provider:
    """Settings of the provider.

    ``name`` is the label of the button, ``groups_claim`` the claim with a user's groups. ``roles`` maps roles to
    groups; if it is empty, roles are assigned in the product.
    """

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    name: str = "single sign-on"
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    roles: Mapping[Role, frozenset[str]] = field(default_factory=dict)

    def roles_for(self, claims: Mapping[str, Any]) -> frozenset[Role] | None:
        """Return the roles of a user's groups; None if the provider does not assign roles."""
        if not self.roles:
            return None
        claim = claims.get(self.groups_claim) or ()
        groups = {claim} if isinstance(claim, str) else set(map(str, claim))
        return frozenset(role for role, role_groups in self.roles.items() if role_groups & groups)


@dataclass(frozen=True)
class Endpoints:
    """Addresses of the provider; ``userinfo`` is empty if it has none."""

    authorization: str
    token: str
    keys: str
    userinfo: str


def provider_of_environment(environ: Mapping[str, str] = os.environ) -> Provider | None:
    """Return the provider of the variables ``ELEVATA_OIDC_*``; None without an issuer.

    Raises ImproperlyConfigured for incomplete settings.
    """
    issuer = environ.get("ELEVATA_OIDC_ISSUER", "").strip()
    if not issuer:
        return None
    if not _is_secure(issuer):
        raise ImproperlyConfigured("ELEVATA_OIDC_ISSUER must be an https address")
    client = environ.get("ELEVATA_OIDC_CLIENT_ID", "").strip()
    if not client:
        raise ImproperlyConfigured("ELEVATA_OIDC_ISSUER needs ELEVATA_OIDC_CLIENT_ID beside it")
    return Provider(
        issuer=issuer,
        client_id=client,
        client_secret=_secret(environ),
        name=environ.get("ELEVATA_OIDC_NAME", "").strip() or Provider.name,
        scopes=environ.get("ELEVATA_OIDC_SCOPES", "").strip() or Provider.scopes,
        groups_claim=environ.get("ELEVATA_OIDC_GROUPS_CLAIM", "").strip() or Provider.groups_claim,
        roles=_roles(environ.get("ELEVATA_OIDC_ROLES", "")),
    )


def _secret(environ: Mapping[str, str]) -> str:
    path = environ.get("ELEVATA_OIDC_CLIENT_SECRET_FILE", "").strip()
    if not path:
        return environ.get("ELEVATA_OIDC_CLIENT_SECRET", "")
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(f"ELEVATA_OIDC_CLIENT_SECRET_FILE: {error.strerror}") from None


def _roles(text: str) -> dict[Role, frozenset[str]]:
    """Return groups by role from ``editor=modellers, admin=platform``; a role may occur several times."""
    groups: dict[Role, frozenset[str]] = {}
    for part in filter(str.strip, text.split(",")):
        role, equals, group = (side.strip() for side in part.partition("="))
        if not equals or not group or role not in [known_role.value for known_role in Role]:
            known = ", ".join(known_role.value for known_role in Role)
            raise ImproperlyConfigured(f"ELEVATA_OIDC_ROLES: {part.strip()!r} must be ROLE=GROUP, ROLE one of {known}")
        groups[Role(role)] = groups.get(Role(role), frozenset()) | {group}
    return groups


@contextmanager
def provider_slot() -> Iterator[None]:
    """Limit the threads that wait for the provider. Raise ProviderProblem at once if as many wait already."""
    if not _slots.acquire(blocking=False):
        raise ProviderProblem(f"{_MOST_AT_ONCE} other requests wait for the provider")
    try:
        yield
    finally:
        _slots.release()


_endpoints: dict[str, tuple[float, Endpoints | ProviderProblem]] = {}


def endpoints_of(provider: Provider) -> Endpoints:
    """Return the addresses that the provider publishes; cached for an hour.

    Raises ProviderProblem if it does not answer.
    """
    known = _known_endpoints(provider.issuer)
    if known is None:
        with provider_slot():
            known = _known_endpoints(provider.issuer) or _discover_and_cache(provider.issuer)
    if isinstance(known, ProviderProblem):
        raise known
    return known


def _known_endpoints(issuer: str) -> Endpoints | ProviderProblem | None:
    at, known = _endpoints.get(issuer, (0.0, None))
    seconds = _FAILED_SECONDS if isinstance(known, ProviderProblem) else _CACHE_SECONDS
    return known if monotonic() - at <= seconds else None


def _discover_and_cache(issuer: str) -> Endpoints | ProviderProblem:
    known: Endpoints | ProviderProblem
    try:
        known = _discover(issuer)
    except ProviderProblem as problem:
        known = problem
    _endpoints[issuer] = (monotonic(), known)
    return known


def _discover(issuer: str) -> Endpoints:
    try:
        response = requests.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=TIMEOUT)
        response.raise_for_status()
        metadata = response.json()
    except (requests.RequestException, ValueError) as error:
        raise ProviderProblem(f"{issuer} does not describe itself: {type(error).__name__}") from error
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        raise ProviderProblem(f"{issuer} says that it is another one")
    endpoints = Endpoints(
        authorization=str(metadata.get("authorization_endpoint", "")),
        token=str(metadata.get("token_endpoint", "")),
        keys=str(metadata.get("jwks_uri", "")),
        userinfo=str(metadata.get("userinfo_endpoint", "")),
    )
    for address in (endpoints.authorization, endpoints.token, endpoints.keys, *filter(None, [endpoints.userinfo])):
        if not _is_secure(address):
            raise ProviderProblem(f"{issuer} names {address!r}, which is not https")
    return endpoints


def _is_secure(address: str) -> bool:
    """Return True for https, and for http to this machine, for trials."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme != "http" or not parts.hostname:
        return False
    try:
        return ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname == "localhost"
