"""Export of the answers of reads as JSON lines or CSV, and the key at which the next part begins.

Pure: it works on the answer of a read (``loader.spark.queries.reads``, ``loader.spark.historization.changes``).
Values are text as the warehouse casts them, and NULL is null: a number that JSON would round stays exact.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from loader.domain.queries.result_rows import csv_line

# Most rows of one answer. Longer results are read in parts (``after``).
MOST_ROWS = 1000
# Kinds whose rows come in the order of the business key, so that a part can begin after a key.
IN_PARTS = ("key_search", "as_of", "changes")
_CHANGE = ("op", "entity_key", "versions")


def json_lines(answer: Mapping[str, Any], op: str = "") -> Iterator[str]:
    """Yield every row as a JSON object on a line of its own. ``op`` keeps only changes of that kind."""
    if "changes" in answer:
        found: Iterable[Any] = (_told(answer["columns"], one) for one in _chosen(answer, op))
    else:
        found = (_named(answer["columns"], row) for row in answer["rows"])
    return (json.dumps(one, ensure_ascii=False) + "\n" for one in found)


def csv_lines(answer: Mapping[str, Any], op: str = "") -> Iterator[str]:
    """Yield the same rows as CSV with a header: an empty text is quoted, NULL is not.

    Changes have the columns of the two versions as ``before.…`` and ``after.…``.
    """
    columns = list(answer["columns"])
    if "changes" not in answer:
        return _csv(columns, answer["rows"])
    names = [*_CHANGE, *(f"{side}.{name}" for side in ("before", "after") for name in columns)]
    return _csv(names, (_flat(columns, one) for one in _chosen(answer, op)))


def rows_of(answer: Mapping[str, Any], op: str = "") -> int:
    """Return the number of rows."""
    return sum(1 for _ in _chosen(answer, op)) if "changes" in answer else len(answer["rows"])


def next_after(kind: str, answer: Mapping[str, Any], business_key: Sequence[str]) -> dict[str, str] | None:
    """Return the business key after which the next part begins; None if there is no next part, or no way to read it."""
    if not answer["truncated"] or kind not in IN_PARTS:
        return None
    if kind == "changes":
        last = answer["changes"][-1]
        named = _named(answer["columns"], last["after"] or last["before"] or ())
    else:
        named = _named(answer["columns"], answer["rows"][-1])
    return {name: named[name] for name in business_key} if set(business_key) <= set(named) else None


def _chosen(answer: Mapping[str, Any], op: str) -> Iterator[Mapping[str, Any]]:
    return (one for one in answer["changes"] if not op or one["op"] == op)


def _told(columns: Sequence[str], change: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: None if change[side] is None else _named(columns, change[side]) for side in ("before", "after")}
    return {"op": change["op"], "entity_key": change["key"], "versions": change["versions"], **sides}


def _flat(columns: Sequence[str], change: Mapping[str, Any]) -> list[str | None]:
    nothing = [None] * len(columns)
    told = [change["op"], change["key"], str(change["versions"])]
    return [*told, *(change["before"] or nothing), *(change["after"] or nothing)]


def _named(columns: Sequence[str], row: Sequence[str | None]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=False))


def _csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    yield csv_line(columns)
    for row in rows:
        yield csv_line(row)
