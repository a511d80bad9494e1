"""Condition that a schedule waits for after its due time: new files or rows of one source, with a deadline."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from elevata.core.errors import MetadataError
from elevata.core.words import counted

FILES, ROWS = "files", "rows"
SKIP, START = "skip", "start"
MOST_MINUTES = 7 * 24 * 60
MOST_ROWS = 1_000_000_000
# Files are listed at every tick; rows are counted less often, because a count may read the whole table.
CHECKED_EVERY = {FILES: timedelta(0), ROWS: timedelta(minutes=1)}


@dataclass(frozen=True)
class Wait:
    """Condition of a schedule.

    Attributes:
        kind: ``files``: the source's files differ from those of the last run, and are complete. ``rows``: the
            source's table has ``rows`` rows; with ``newer`` only rows count whose value in that column is later than
            the newest load of the source.
        source: stable key of the source dataset.
        minutes: time from the due time to the deadline.
        then: ``skip`` the run at the deadline, or ``start`` it anyway.
    """

    kind: str
    source: str
    rows: int = 1
    newer: str = ""
    minutes: int = 60
    then: str = SKIP

    @classmethod
    def from_json(cls, described: Any) -> "Wait | None":
        """Return the condition with these fields; None if there are none. Raise MetadataError at ``wait.…``."""
        if not described:
            return None
        if not isinstance(described, Mapping):
            raise _problem("", "must be fields with values")
        given = dict(described)
        kind = given.pop("for", None)
        unknown = sorted(set(given) - set(cls.__dataclass_fields__) | {"kind"} & set(given))
        if unknown:
            raise _problem(unknown[0], "is not known")
        if kind not in (FILES, ROWS):
            raise _problem("for", f"must be {FILES} or {ROWS}")
        wait = cls(kind, **{"source": "", **given})
        wait._check()
        return wait

    def _check(self) -> None:
        if not isinstance(self.source, str) or not self.source:
            raise _problem("source", "names the source whose data is waited for")
        if not _is_count(self.rows, MOST_ROWS):
            raise _problem("rows", f"must be a whole number from 1 to {MOST_ROWS:,}")
        if not _is_count(self.minutes, MOST_MINUTES):
            raise _problem("minutes", f"must be a whole number from 1 to {MOST_MINUTES:,}, which are seven days")
        if not isinstance(self.newer, str) or (self.newer and self.kind != ROWS):
            raise _problem("newer", f"names a column, and goes with {ROWS} only")
        if self.then not in (SKIP, START):
            raise _problem("then", f"must be {SKIP} or {START}")

    def as_json(self) -> dict[str, Any]:
        """Return the fields that matter for the kind."""
        of_rows = {"rows": self.rows} | ({"newer": self.newer} if self.newer else {}) if self.kind == ROWS else {}
        return {"for": self.kind, "source": self.source, **of_rows, "minutes": self.minutes, "then": self.then}

    def words(self, source: str) -> str:
        """Return the condition in words; ``source`` is the name of the source."""
        if self.kind == FILES:
            what = f"new files of {source}"
        else:
            what = f"{counted(self.rows, 'row')} of {source}" + (
                f" with {self.newer} after its last load" if self.newer else ""
            )
        end = "starts anyway" if self.then == START else "is skipped"
        return f"waits for {what}, at most {counted(self.minutes, 'minute')}; then the run {end}"

    def deadline(self, due: datetime) -> datetime:
        return due + timedelta(minutes=self.minutes)


@dataclass(frozen=True)
class Answer:
    """Result of one check. ``signature`` identifies the files that were seen."""

    text: str
    fulfilled: bool = False
    signature: str = ""


def answer_of_files(
    *, files: int, newest: str, signature: str, expected: int, last_check: str, last_run: str
) -> Answer:
    """Return True if files are new and complete: other than at the last run, and the same as at the last check.

    ``expected`` is the number of files that the source declares, 0 if any number will do.
    """
    count = f"{counted(files, 'file')}, the newest {newest}"
    if signature == last_run:
        return Answer(f"{count}: the same as at the last run", signature=signature)
    if files < expected:
        return Answer(f"{count}: {expected:,} are expected", signature=signature)
    if signature != last_check:
        return Answer(f"{count}: complete once the next check finds them unchanged", signature=signature)
    return Answer(count, True, signature)


def answer_of_rows(*, rows: int, wanted: int) -> Answer:
    """Return True if enough rows were counted; the count stops at the wanted number."""
    return Answer(f"{rows:,} of {wanted:,} rows", rows >= wanted)


def _is_count(value: Any, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= most


def _problem(field: str, message: str) -> MetadataError:
    return MetadataError("bad_wait", message, f"wait.{field}" if field else "wait")
