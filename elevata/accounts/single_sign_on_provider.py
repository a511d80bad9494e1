"""The provider of single sign-on: what settings say of it, and what it says of itself.

Named by ``ELEVATA_OIDC_ISSUER``; everything else is read from there (OpenID Connect Discovery) when
somebody first signs in, so the web process starts while the provider is away.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

import requests
from django.core.exceptions import ImproperlyConfigured

from metadata.domain.roles import Role

TIMEOUT = 10  # seconds
_KNOWN_FOR = 3600  # seconds


class ProviderProblem(Exception):
    """The provider does not answer, or not as it must."""


@dataclass(frozen=True)
class Provider:
    """Settings of the provider. ``roles`` maps each role to the groups that give it; empty: roles are given here.

    ``name`` is what the button says; ``groups_claim`` is the claim that holds somebody's groups.
    """

    issuer: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    name: str = "single sign-on"
    scopes: str = "openid profile email"
    groups_claim: str = "groups"
    roles: Mapping[Role, frozenset[str]] = field(default_factory=dict)

    def roles_for(self, claims: Mapping[str, Any]) -> frozenset[Role] | None:
        """The roles that somebody's groups give; None where roles are not the provider's business."""
        if not self.roles:
            return None
        told = claims.get(self.groups_claim) or ()
        groups = {told} if isinstance(told, str) else set(map(str, told))
        return frozenset(role for role, giving in self.roles.items() if giving & groups)


@dataclass(frozen=True)
class Endpoints:
    """Addresses of the provider; ``userinfo`` is empty if it has none."""

    authorization: str
    token: str
    keys: str
    userinfo: str


def provider_of_environment(environ: Mapping[str, str] = os.environ) -> Provider | None:
    """The provider that ``ELEVATA_OIDC_*`` describe; None without an issuer. ImproperlyConfigured for half of one."""
    issuer = environ.get("ELEVATA_OIDC_ISSUER", "").strip()
    if not issuer:
        return None
    if not _is_private_enough(issuer):
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
    except OSError as problem:
        raise ImproperlyConfigured(f"ELEVATA_OIDC_CLIENT_SECRET_FILE: {problem.strerror}") from None


def _roles(text: str) -> dict[Role, frozenset[str]]:
    """``editor=modellers, admin=platform`` → groups by role; a role may stand there several times."""
    found: dict[Role, frozenset[str]] = {}
    for part in filter(str.strip, text.split(",")):
        role, equals, group = (side.strip() for side in part.partition("="))
        if not equals or not group or role not in [one.value for one in Role]:
            known = ", ".join(one.value for one in Role)
            raise ImproperlyConfigured(f"ELEVATA_OIDC_ROLES: {part.strip()!r} must be ROLE=GROUP, ROLE one of {known}")
        found[Role(role)] = found.get(Role(role), frozenset()) | {group}
    return found


# --- what it says of itself ----------------------------------------------------------------------

_known: dict[str, tuple[float, Endpoints]] = {}


def endpoints_of(provider: Provider) -> Endpoints:
    """Return the addresses that the provider publishes; cached for an hour.

    Raise ProviderProblem if it does not answer.
    """
    at, known = _known.get(provider.issuer, (0.0, None))
    if known is None or monotonic() - at > _KNOWN_FOR:
        known = _discovered(provider.issuer)
        _known[provider.issuer] = (monotonic(), known)
    return known


def _discovered(issuer: str) -> Endpoints:
    try:
        answer = requests.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration", timeout=TIMEOUT)
        answer.raise_for_status()
        said = answer.json()
    except (requests.RequestException, ValueError) as problem:
        raise ProviderProblem(f"{issuer} does not describe itself: {type(problem).__name__}") from problem
    if not isinstance(said, dict) or said.get("issuer") != issuer:
        raise ProviderProblem(f"{issuer} says that it is another one")
    found = Endpoints(
        authorization=str(said.get("authorization_endpoint", "")),
        token=str(said.get("token_endpoint", "")),
        keys=str(said.get("jwks_uri", "")),
        userinfo=str(said.get("userinfo_endpoint", "")),
    )
    for address in (found.authorization, found.token, found.keys, *filter(None, [found.userinfo])):
        if not _is_private_enough(address):
            raise ProviderProblem(f"{issuer} names {address!r}, which is not https")
    return found


def _is_private_enough(address: str) -> bool:
    """https; plain http only to this very machine, which is for trying it out."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme != "http" or not parts.hostname:
        return False
    try:
        return ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname == "localhost"
