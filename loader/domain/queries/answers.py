"""Answers of reads: their kinds, limits and number of rows, and the key after which the next part begins."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from loader.domain.queries.comparison import DATES

# Kinds of the reads of a row's origin, of what was made of a delivered row, of an export, and of the difference of two
# states of a table.
ORIGIN, DESCENDANTS, EXPORT, COMPARE = "origin", "descendants", "export", "compare"
# Maximum number of rows in one answer. Longer results are read in parts (``after``).
MOST_ROWS = 1000
# Rows of a quarantine that an answer has, and that are kept of a refused delivery.
MOST_QUARANTINED = 10_000
# Maximum number of characters of a value, or of a malformed record, that a quarantine keeps of a delivery.
LONGEST_KEPT = 4000
# Maximum number of rows in an export.
MOST_EXPORTED = 5_000_000
# Kinds whose rows are ordered by business key, so that a part can begin after a key.
IN_PARTS = ("key_search", "as_of", "changes")


def rows_kind(kind: str, arguments: Mapping[str, Any]) -> str:
    """Return the kind of read that has the same rows: of an export or comparison, that of its rows."""
    if kind == COMPARE:
        return "as_of" if arguments.get("by") == DATES else COMPARE
    if kind != EXPORT:
        return kind
    if arguments.get("run_id"):
        return "changes"
    return "as_of" if arguments.get("at") else "sample"


def first_rows(rows: Iterable[Sequence[str | None]], most: int) -> list[list[str | None]]:
    """Return the first rows that together have at most ``most`` characters, and at least one row."""
    chosen: list[list[str | None]] = []
    size = 0
    for row in rows:
        size += sum(len(value) for value in row if value is not None)
        if chosen and size > most:
            break
        chosen.append(list(row))
    return chosen


def rows_of(answer: Mapping[str, Any]) -> int:
    """Return the number of rows; profiles and exports have it instead of rows."""
    rows = answer["changes"] if "changes" in answer else answer.get("exported", answer.get("rows"))
    return rows if isinstance(rows, int) else len(rows)


def next_after(
    kind: str, answer: Mapping[str, Any], business_key: Sequence[str], arguments: Mapping[str, Any]
) -> dict[str, str] | None:
    """Return the business key after which the next part begins.

    None if there is none, if it cannot be read, or if the rows are sorted by a column or continued with ``offset``.
    """
    if not answer["truncated"] or kind not in IN_PARTS or arguments.get("sort") or arguments.get("offset"):
        return None
    if kind == "changes":
        last = answer["changes"][-1]
        values = by_column(answer["columns"], last["after"] or last["before"] or ())
    else:
        values = by_column(answer["columns"], answer["rows"][-1])
    return {name: values[name] for name in business_key} if set(business_key) <= set(values) else None


def by_column(columns: Sequence[str], row: Sequence[str | None]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=False))
