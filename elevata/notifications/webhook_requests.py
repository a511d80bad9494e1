"""Webhook requests: body, signature and waits between attempts.

Requests follow the Standard Webhooks convention. Id, time and body are signed with every active secret, so that a
secret can be replaced without losing a webhook delivery.
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

# Number of attempts of a delivery; the last one is about 15 hours after the first.
MAX_ATTEMPTS = 8
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=6)

_BASE64 = "whsec_"
# Names and messages are no markup: not a mention, a link or a heading.
_SLACK_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_TEAMS_ESCAPES = str.maketrans({character: f"\\{character}" for character in "\\`*_[]#<>"})


@dataclass(frozen=True)
class WebhookPayload:
    """Event in a webhook's request.

    ``time`` is ISO 8601; ``page`` is a URL, or a path if ``PUBLIC_URL`` is not set.
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
        """Return the event as canonical JSON, so that every attempt sends the same bytes."""
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

    @property
    def line(self) -> str:
        """Return environment and title on one line."""
        place = f"[{self.environment}] " if self.environment else ""
        return " ".join(f"{place}{self.title}".split())

    def slack_body(self) -> bytes:
        """Return the event as a message of a Slack incoming webhook. Only its link is markup."""
        text = self.line.translate(_SLACK_ESCAPES)
        has_address = self.page.startswith("http")
        return canonical_json({"text": f"{text} <{self.page}|Open>" if has_address else text})

    def teams_body(self) -> bytes:
        """Return the event as an adaptive card, as a Teams workflow takes it."""
        card: dict[str, object] = {
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [{"type": "TextBlock", "wrap": True, "text": self.line.translate(_TEAMS_ESCAPES)}],
        }
        if self.page.startswith("http"):
            card["actions"] = [{"type": "Action.OpenUrl", "title": "Open", "url": self.page}]
        attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
        return canonical_json({"type": "message", "attachments": [attachment]})


def signature(*, event_id: str, timestamp: int, body: bytes, secrets: Iterable[str]) -> str:
    """Return the header ``webhook-signature``: for each secret, ``v1,`` and the HMAC-SHA-256 in base64."""
    content = f"{event_id}.{timestamp}.".encode() + body
    digests = (hmac.new(_key(secret), content, hashlib.sha256).digest() for secret in secrets)
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
    """Return the wait after the failed attempt ``attempt`` (from 1); ``spread``, from 0 to 1, is the jitter."""
    wait = min(_FIRST_WAIT * 4 ** min(attempt - 1, 20), _LONGEST_WAIT)
    return wait * (0.75 + 0.5 * spread)
