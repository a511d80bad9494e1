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


def check_holds_applied(*, name: str, applied: int | None, held: int | None, run: int) -> None:
    """Refuse a table that does not hold the newest run applied to it: an older state of it, or another table.

    ``applied`` is that run's sequence by the control database, ``held`` that of the newest run in the table,
    ``run`` this run's own, which an earlier attempt of it may have committed.
    """
    if applied is None or (held is not None and (held >= applied or held == run)):
        return
    has = "no run" if held is None else f"the runs up to number {held}"
    raise Refusal(
        "TABLE_BEHIND",
        f"{name}: run number {applied} was applied to it, and its table holds {has}",
        hint="Bring the table back as that run left it (the right mount, a newer backup, RESTORE to the newest "
        "version), then run again. If it is right as it is: manage.py accept_table, and load again what was lost.",
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
