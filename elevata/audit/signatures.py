"""Signatures with keys outside the database: HMAC-SHA-256, with a key id.

The key id is the start of the key's hash, so that a signature by a former key can be distinguished from a forged one.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from dataclasses import dataclass

SHORTEST = 32  # characters of a key
_ID_DIGITS = 16


@dataclass(frozen=True)
class Signature:
    """Signature with the id of its key, both in hex digits; empty if unsigned."""

    key_id: str = ""
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Return the signature written as ``key id:value``; an empty one for any other text."""
        key_id, colon, value = text.partition(":")
        return cls(key_id, value) if colon else cls()

    def __str__(self) -> str:
        return f"{self.key_id}:{self.value}"


def key_id_of(key: str) -> str:
    """Return the id of a key, which does not reveal the key."""
    return hashlib.sha256(b"elevata audit key id\0" + key.encode()).hexdigest()[:_ID_DIGITS]


class Keyring:
    """Signing key, and former keys whose signatures are still accepted."""

    def __init__(self, key: str, former: Iterable[str] = ()) -> None:
        self._keys = {key_id_of(text): text.encode() for text in (*former, key)}
        self.key_id = key_id_of(key)

    def sign(self, purpose: str, message: bytes) -> Signature:
        """Return the signature of a message; ``purpose`` makes it invalid for other kinds of messages."""
        return Signature(self.key_id, _hmac(self._keys[self.key_id], purpose, message))

    def problem(self, signature: Signature, purpose: str, message: bytes) -> str:
        """Return the problem of a signature, ``key_unknown`` or ``signature_wrong``; empty if it is valid."""
        key = self._keys.get(signature.key_id)
        if key is None:
            return "key_unknown" if signature.key_id else "signature_wrong"
        expected = _hmac(key, purpose, message)
        return "" if hmac.compare_digest(expected.encode(), signature.value.encode()) else "signature_wrong"


def _hmac(key: bytes, purpose: str, message: bytes) -> str:
    return hmac.digest(key, purpose.encode() + b"\0" + message, "sha256").hex()
