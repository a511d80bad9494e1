"""Signatures with the audit key of the settings."""

from __future__ import annotations

from django.conf import settings

from elevata.audit.signatures import Keyring, Signature
from elevata.core.canonical_json import canonical_json

_known: tuple[tuple[str, ...], Keyring] | None = None


def keyring() -> Keyring:
    """Return the keyring of the settings; a new one after they change."""
    global _known
    keys = (settings.AUDIT_KEY, *settings.AUDIT_KEYS_FORMER)
    if _known is None or _known[0] != keys:
        _known = (keys, Keyring(keys[0], keys[1:]))
    return _known[1]


def sign(purpose: str, document: object) -> Signature:
    """Return the signature of a document: any value with canonical JSON."""
    return keyring().sign(purpose, canonical_json(document))


def signature_problem(signature: Signature, purpose: str, document: object) -> str:
    """Return the code of the problem of a document's signature; empty if it is valid."""
    return keyring().problem(signature, purpose, canonical_json(document))
