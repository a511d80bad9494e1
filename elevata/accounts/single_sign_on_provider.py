"""Provider of single sign-on: its settings, and its published metadata.

Settings name it by ``ELEVATA_OIDC_ISSUER``; all else comes from OpenID Connect Discovery at the first sign-in, so
the web process starts while the provider is down.
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

from elevata.accounts.roles import Role

TIMEOUT = 10  # seconds
_KNOWN_FOR = 3600  # seconds


class ProviderProblem(Exception):
    """Error of a provider that does not answer, or answers incorrectly."""


@dataclass(frozen=True)
class Provider:
    """Settings of the provider. ``roles`` maps each role to its groups; empty: roles are assigned in the product.

    ``name`` is the label of the button; ``groups_claim`` is the claim with a user's groups.
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
    """Return the provider that ``ELEVATA_OIDC_*`` describe; None without an issuer.

    Raises ImproperlyConfigured for incomplete settings.
    """
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
    """Return groups by role from ``editor=modellers, admin=platform``; a role may occur several times."""
    found: dict[Role, frozenset[str]] = {}
    for part in filter(str.strip, text.split(",")):
        role, equals, group = (side.strip() for side in part.partition("="))
        if not equals or not group or role not in [one.value for one in Role]:
            known = ", ".join(one.value for one in Role)
            raise ImproperlyConfigured(f"ELEVATA_OIDC_ROLES: {part.strip()!r} must be ROLE=GROUP, ROLE one of {known}")
        found[Role(role)] = found.get(Role(role), frozenset()) | {group}
    return found


# --- provider metadata ---------------------------------------------------------------------------

_known: dict[str, tuple[float, Endpoints]] = {}


def endpoints_of(provider: Provider) -> Endpoints:
    """Return the addresses that the provider publishes; cached for an hour.

    Raises ProviderProblem if it does not answer.
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
        metadata = answer.json()
    except (requests.RequestException, ValueError) as problem:
        raise ProviderProblem(f"{issuer} does not describe itself: {type(problem).__name__}") from problem
    if not isinstance(metadata, dict) or metadata.get("issuer") != issuer:
        raise ProviderProblem(f"{issuer} says that it is another one")
    found = Endpoints(
        authorization=str(metadata.get("authorization_endpoint", "")),
        token=str(metadata.get("token_endpoint", "")),
        keys=str(metadata.get("jwks_uri", "")),
        userinfo=str(metadata.get("userinfo_endpoint", "")),
    )
    for address in (found.authorization, found.token, found.keys, *filter(None, [found.userinfo])):
        if not _is_private_enough(address):
            raise ProviderProblem(f"{issuer} names {address!r}, which is not https")
    return found


def _is_private_enough(address: str) -> bool:
    """Return whether the address is https; plain http only to this machine, for trials."""
    parts = urlsplit(address)
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme != "http" or not parts.hostname:
        return False
    try:
        return ip_address(parts.hostname).is_loopback
    except ValueError:
        return parts.hostname == "localhost"
