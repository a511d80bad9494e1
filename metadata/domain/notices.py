"""Events for users and webhooks, and the format and retry times of a webhook's request.

A request follows the Standard Webhooks convention: its signature covers id, time and body, and names
every secret in use, so that a secret can be replaced without losing a delivery.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from urllib.parse import urlsplit

from elevata.core.canonical_json import canonical_json
from elevata.core.errors import MetadataError


class Kind(StrEnum):
    """Kinds of events. The values are part of webhooks' bodies and never change."""

    REPORT_WAITING = "report.waiting"
    REPORT_APPROVED = "report.approved"
    REPORT_REJECTED = "report.rejected"
    REPORT_EXECUTED = "report.executed"
    EXECUTION_FAILED = "execution.failed"
    DRIFT_FOUND = "drift.found"
    LOAD_FAILED = "load.failed"
    ACCOUNT_CHANGED = "account.changed"
    POLICY_PROPOSED = "policy.proposed"
    POLICY_DECIDED = "policy.decided"
    WEBHOOK_TEST = "webhook.test"


WORDS: dict[Kind, str] = {
    Kind.REPORT_WAITING: "A report waits for approval",
    Kind.REPORT_APPROVED: "A report was approved",
    Kind.REPORT_REJECTED: "A report was rejected",
    Kind.REPORT_EXECUTED: "A report was executed",
    Kind.EXECUTION_FAILED: "An execution failed",
    Kind.DRIFT_FOUND: "Drift was found",
    Kind.LOAD_FAILED: "A load failed",
    Kind.ACCOUNT_CHANGED: "Somebody changed an account",
    Kind.POLICY_PROPOSED: "A looser policy waits for a second person",
    Kind.POLICY_DECIDED: "A looser policy was accepted or rejected",
    Kind.WEBHOOK_TEST: "A test of a webhook",
}
# What people and webhooks choose from; a test goes where it is asked for.
CHOICES: tuple[Kind, ...] = tuple(kind for kind in Kind if kind is not Kind.WEBHOOK_TEST)
# Always in the list, whatever somebody chose: they show who acts in whose place and what decides.
ALWAYS_LISTED = frozenset({Kind.ACCOUNT_CHANGED, Kind.POLICY_PROPOSED, Kind.POLICY_DECIDED})

# Tries of a delivery: the last one is given up some 13 hours after the first.
TRIES = 8
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=30), timedelta(hours=6)

# Only variables made for this can be named: any other would sign with the product's own secrets.
SECRET_PREFIX = "ELEVATA_WEBHOOK_SECRET_"
_SECRET = re.compile(rf"{SECRET_PREFIX}[A-Z0-9_]{{1,80}}", re.ASCII)
_FILE_SUFFIX = "_FILE"
URL_LENGTH = 1000
_BASE64 = "whsec_"


@dataclass(frozen=True)
class Told:
    """An event as a webhook tells it; ``time`` in ISO 8601, ``page`` whole or, without a public address, a path."""

    event_id: str
    kind: str
    time: str
    environment: str
    title: str
    subject: Mapping[str, str]
    page: str
    facts: Mapping[str, object]

    def body(self) -> bytes:
        """Canonical JSON: the same bytes at every try."""
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
    """The header ``webhook-signature``: ``v1,`` and the HMAC-SHA-256 in base64, once for each secret."""
    signed = f"{event_id}.{timestamp}.".encode() + body
    digests = (hmac.new(_key(secret), signed, hashlib.sha256).digest() for secret in secrets)
    return " ".join(f"v1,{base64.b64encode(digest).decode()}" for digest in digests)


def _key(secret: str) -> bytes:
    """A secret that begins with ``whsec_`` is base64, any other is its text."""
    if not secret.startswith(_BASE64):
        return secret.encode()
    try:
        return base64.b64decode(secret.removeprefix(_BASE64), validate=True)
    except binascii.Error:
        raise MetadataError("bad_secret", "the secret begins with whsec_, but what follows is no base64") from None


def wait_after(attempt: int, spread: float) -> timedelta:
    """Return the wait after the failed attempt of this number (from 1); ``spread``, 0 to 1, keeps many apart."""
    whole = min(_FIRST_WAIT * 4 ** min(attempt - 1, 20), _LONGEST_WAIT)
    return whole * (0.75 + 0.5 * spread)


def check_url(url: str) -> None:
    """MetadataError ``bad_url`` unless it can be a webhook's address. Where it leads is judged when it is used."""
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise _bad("is no URL") from None
    if parts.scheme not in ("https", "http") or not host:
        raise _bad("must be like https://hooks.example.org/elevata")
    if len(url) > URL_LENGTH:
        raise _bad(f"is longer than {URL_LENGTH} characters")
    if parts.username is not None or parts.password is not None:
        raise _bad("holds a user or password, which would be stored and shown; requests are proven by their signature")
    if port == 0 or parts.fragment:
        raise _bad("must have a port above 0, and nothing behind a #")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise _bad("may hold printable ASCII only; write other characters as %…")


def shown_url(url: str) -> str:
    """The address without its path and parameters, which often are a secret themselves."""
    parts = urlsplit(url)
    more = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{more}"


def check_secret_name(name: str, field: str) -> None:
    """The name of the variable that holds a webhook's secret."""
    if not _SECRET.fullmatch(name) or name.endswith(_FILE_SUFFIX):
        raise MetadataError(
            "bad_secret",
            f"names an environment variable of its own: {SECRET_PREFIX} and capital letters, digits or _, like "
            f"{SECRET_PREFIX}TEAM. The secret itself never stands here",
            field,
        )


def check_kinds(kinds: Collection[str], field: str = "events", *, needed: bool = False) -> list[str]:
    """These kinds of events, each once, in the order in which they are listed."""
    unknown = sorted(set(kinds) - set(CHOICES))
    if unknown:
        raise MetadataError("unknown_event", f"unknown are {', '.join(unknown)}; there are {', '.join(CHOICES)}", field)
    if needed and not kinds:
        raise MetadataError("invalid", "choose at least one", field)
    return [str(kind) for kind in CHOICES if kind in kinds]


def _bad(message: str) -> MetadataError:
    return MetadataError("bad_url", message, "url")
