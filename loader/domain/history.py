"""The words and guards of history that the engine and the reference share.

The rules themselves are worked out in ``loader.domain.reference``; ``loader.spark.history`` does
the same on Delta, and tests drive both and compare.
"""

from collections.abc import Iterable
from datetime import UTC, datetime

from loader.domain.refusals import Refusal

NEW, CHANGED, DELETED, REAPPEARED, UNCHANGED = "new", "changed", "deleted", "reappeared", "unchanged"


def parse_instant(text: str) -> datetime:
    """An instant from ISO 8601 text; without a zone it is UTC."""
    instant = datetime.fromisoformat(text)
    return instant.replace(tzinfo=UTC) if instant.tzinfo is None else instant.astimezone(UTC)


def check_later(*, name: str, at: str, newest: Iterable[str | None]) -> None:
    """Refuse a run that is not later than the newest applied one: it would be mis-filed."""
    applied = max((parse_instant(known) for known in newest if known), default=None)
    if applied is not None and parse_instant(at) <= applied:
        raise Refusal(
            "NOT_LATER",
            f"{name}: the run is dated {at}, which is not later than the newest applied run ({applied.isoformat()})",
            hint="Give the run a later time with --at.",
        )


def check_empty(*, name: str, rows: int, would_close: int, allowed: bool) -> None:
    """Refuse an empty full snapshot that would close something, unless the run allows it."""
    if rows == 0 and would_close > 0 and not allowed:
        raise Refusal(
            "EMPTY_SNAPSHOT",
            f"{name}: the snapshot is empty and would close all {would_close} open versions",
            count=would_close,
            hint="If the source really is empty, run again with --allow-empty.",
        )
