"""Signatures of this installation, by the audit key of its settings."""

from __future__ import annotations

from django.conf import settings

from elevata.core.canonical_json import canonical_json
from metadata.domain.signing import Keyring, Signature

_known: tuple[tuple[str, ...], Keyring] | None = None


def keyring() -> Keyring:
    """Return the keys in force; made again when settings change."""
    global _known
    keys = (settings.AUDIT_KEY, *settings.AUDIT_KEYS_FORMER)
    if _known is None or _known[0] != keys:
        _known = (keys, Keyring(keys[0], keys[1:]))
    return _known[1]


def sign(purpose: str, document: object) -> Signature:
    """Sign a document, which is anything that has canonical JSON."""
    return keyring().sign(purpose, canonical_json(document))


def signature_problem(signature: Signature, purpose: str, document: object) -> str:
    """Return why the signature of a document does not hold: a code, or nothing if it does."""
    return keyring().problem(signature, purpose, canonical_json(document))
