"""Webhook requests: body, signature and times of the next tries.

A request follows the Standard Webhooks convention. It is signed over id, time and body with every active
secret, so that a secret can be replaced without losing a webhook delivery.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta

from elevata.core.canonical_json import canonical_json
from elevata.core.errors import MetadataError

# Tries of a delivery: the last one is given up some 13 hours after the first.
TRIES = 8
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=6)

_BASE64 = "whsec_"


@dataclass(frozen=True)
class Told:
    """Event as sent to a webhook.

    ``time`` is ISO 8601; ``page`` is a URL, or a path if no public address is set.
    """

    event_id: str
    kind: str
    time: str
    environment: str
    title: str
    subject: Mapping[str, str]
    page: str
    facts: Mapping[str, object]

    def body(self) -> bytes:
        """Return the canonical JSON, so that every attempt sends the same bytes."""
        return canonical_json(
            {
                "id": self.event_id,
                "type": self.kind,
                "time": self.time,
                "environment": self.environment,
                "title": self.title,
                "subject": dict(self.subject),
                "links": {"page": self.page},
                "facts": dict(self.facts),
            }
        )


def signature(*, event_id: str, timestamp: int, body: bytes, secrets: Iterable[str]) -> str:
    """Return the header ``webhook-signature``: ``v1,`` and the HMAC-SHA-256 in base64, for each secret."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    digests = (hmac.new(_key(secret), signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _key(secret: str) -> bytes:
    """Return the key bytes of a secret: base64 after the prefix ``whsec_``, else the text itself."""
    if not secret.startswith(_BASE64):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_BASE64), validate=True)
    except binascii.Error:
        raise MetadataError("bad_secret", "the secret begins with whsec_, but what follows is no base64") from None


def wait_after(attempt: int, spread: float) -> timedelta:
    """Return the wait after failed attempt number ``attempt`` (from 1); ``spread``, 0 to 1, adds jitter."""
    whole = min(_FIRST_WAIT * 4 ** min(attempt - 1, 20), _LONGEST_WAIT)
    return whole * (0.75 + 0.5 * spread)
