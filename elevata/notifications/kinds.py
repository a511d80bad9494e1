"""Event kinds, and checks of a webhook's settings."""

import re
from collections.abc import Collection
from enum import StrEnum
from urllib.parse import urlsplit

from elevata.core.errors import MetadataError


class Kind(StrEnum):
    """Kinds of events; the values are part of webhook bodies and never change."""

    REPORT_WAITING = "report.waiting"
    REPORT_APPROVED = "report.approved"
    REPORT_REJECTED = "report.rejected"
    REPORT_OUTDATED = "report.outdated"
    REPORT_EXECUTED = "report.executed"
    EXECUTION_FAILED = "execution.failed"
    DRIFT_FOUND = "drift.found"
    LOAD_FAILED = "load.failed"
    LOAD_ENDED = "load.ended"
    SCHEDULE_LATE = "schedule.late"
    SOURCE_CHANGED = "source.changed"
    QUALITY_FAILED = "quality.failed"
    OWNERS_NOTIFIED = "owners.notified"
    COMMENT_MENTIONED = "comment.mentioned"
    ACCOUNT_CHANGED = "account.changed"
    POLICY_PROPOSED = "policy.proposed"
    POLICY_DECIDED = "policy.decided"
    WEBHOOK_TEST = "webhook.test"


WORDS: dict[Kind, str] = {
    Kind.REPORT_WAITING: "A report waits for approval",
    Kind.REPORT_APPROVED: "A report was approved",
    Kind.REPORT_REJECTED: "A report was rejected",
    Kind.REPORT_OUTDATED: "A report became outdated",
    Kind.REPORT_EXECUTED: "A report was executed",
    Kind.EXECUTION_FAILED: "An execution failed",
    Kind.DRIFT_FOUND: "Drift was found",
    Kind.LOAD_FAILED: "A load failed",
    Kind.LOAD_ENDED: "A load ended",
    Kind.SCHEDULE_LATE: "The data of a schedule was late",
    Kind.SOURCE_CHANGED: "A source differs from its contract",
    Kind.QUALITY_FAILED: "Quality checks failed",
    Kind.OWNERS_NOTIFIED: "Something affects what a user owns",
    Kind.COMMENT_MENTIONED: "A comment mentioned a user",
    Kind.ACCOUNT_CHANGED: "An account was changed",
    Kind.POLICY_PROPOSED: "A looser policy waits for a second user",
    Kind.POLICY_DECIDED: "A looser policy was accepted or rejected",
    Kind.WEBHOOK_TEST: "A test of a webhook",
}
# Kinds that webhooks select from; a test event goes to its own webhook only.
WEBHOOK_CHOICES: tuple[Kind, ...] = tuple(kind for kind in Kind if kind is not Kind.WEBHOOK_TEST)
# Kinds that users select from: those that ask for attention.
CHOICES: tuple[Kind, ...] = tuple(kind for kind in WEBHOOK_CHOICES if kind is not Kind.LOAD_ENDED)
# Kinds that are always in a user's list, whatever the user selects.
ALWAYS_LISTED = frozenset({Kind.ACCOUNT_CHANGED, Kind.POLICY_PROPOSED, Kind.POLICY_DECIDED})

# Only variables with this prefix are accepted, because others may have the product's own secrets.
SECRET_PREFIX = "ELEVATA_WEBHOOK_SECRET_"
_SECRET = re.compile(rf"{SECRET_PREFIX}[A-Z0-9_]{{1,80}}", re.ASCII)
_FILE_SUFFIX = "_FILE"
URL_LENGTH = 1000


def check_url(url: str) -> None:
    """Raise MetadataError ``bad_url`` for a text that is not a webhook URL.

    The host's address is checked when a request is sent.
    """
    try:
        parts = urlsplit(url)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise _bad_url("is no URL") from None
    if parts.scheme not in ("https", "http") or not host:
        raise _bad_url("must be like https://hooks.example.org/elevata")
    if len(url) > URL_LENGTH:
        raise _bad_url(f"is longer than {URL_LENGTH} characters")
    if parts.username is not None or parts.password is not None:
        raise _bad_url(
            "holds a user or password, which would be stored and shown; requests are proven by their signature"
        )
    if port == 0 or parts.fragment:
        raise _bad_url("must have a port above 0, and nothing behind a #")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise _bad_url("may hold printable ASCII only; write other characters as %…")


def shown_url(url: str) -> str:
    """Return the URL without its path and parameters, which often contain a secret."""
    parts = urlsplit(url)
    rest = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{parts.scheme}://{parts.netloc}{rest}"


def check_secret_name(name: str, field: str) -> None:
    """Raise MetadataError ``bad_secret`` unless the name is of a variable ``ELEVATA_WEBHOOK_SECRET_…``."""
    if not _SECRET.fullmatch(name) or name.endswith(_FILE_SUFFIX):
        raise MetadataError(
            "bad_secret",
            f"names an environment variable of its own: {SECRET_PREFIX} and capital letters, digits or _, like "
            f"{SECRET_PREFIX}TEAM. The secret itself never stands here",
            field,
        )


def check_kinds(
    kinds: Collection[str], field: str = "events", *, choices: Collection[Kind] = CHOICES, needed: bool = False
) -> list[str]:
    """Return these event kinds without duplicates, in the order of ``choices``.

    Raises MetadataError ``unknown_event``, or ``invalid`` if there is none and ``needed`` is True.
    """
    unknown = sorted(set(kinds) - set(choices))
    if unknown:
        raise MetadataError("unknown_event", f"unknown are {', '.join(unknown)}; there are {', '.join(choices)}", field)
    if needed and not kinds:
        raise MetadataError("invalid", "choose at least one", field)
    return [str(kind) for kind in choices if kind in kinds]


def _bad_url(message: str) -> MetadataError:
    return MetadataError("bad_url", message, "url")
