"""Export of the answers of reads as JSON lines or CSV.

Pure: it works on the answer of a read (``loader.engine.queries.reads``, ``loader.engine.queries.history_queries``).
Values are text as the warehouse casts them, and NULL is null: a number that JSON would round stays exact.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from elevata.core.spreadsheets import csv_line
from loader.domain.queries.answers import by_column

_CHANGE = ("op", "entity_key", "versions")


def json_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield every row as a JSON object on a line of its own."""
    if "changes" in answer:
        objects: Iterable[Any] = (_change_object(answer["columns"], change) for change in answer["changes"])
    else:
        objects = (by_column(answer["columns"], row) for row in answer["rows"])
    return (json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def csv_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield the same rows as CSV with a header: an empty text is quoted, NULL is not."""
    return _csv(*flat_rows(answer))


def flat_rows(answer: Mapping[str, Any]) -> tuple[list[str], Iterable[Sequence[str | None]]]:
    """Return the columns and rows of an answer.

    Changes have the columns of the two versions as ``before.…`` and ``after.…``.
    """
    columns = list(answer["columns"])
    if "changes" in answer:
        return [*_CHANGE, *sides_of(columns)], (_change_row(columns, change) for change in answer["changes"])
    return columns, answer["rows"]


def sides_of(columns: Sequence[str]) -> list[str]:
    """Return the names of columns with values before and after."""
    return [f"{side}.{name}" for side in ("before", "after") for name in columns]


def _change_object(columns: Sequence[str], change: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: None if change[side] is None else by_column(columns, change[side]) for side in ("before", "after")}
    return {"op": change["op"], "entity_key": change["key"], "versions": change["versions"], **sides}


def _change_row(columns: Sequence[str], change: Mapping[str, Any]) -> list[str | None]:
    absent = [None] * len(columns)
    cells = [change["op"], change["key"], str(change["versions"])]
    return [*cells, *(change["before"] or absent), *(change["after"] or absent)]


def _csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    yield csv_line(columns)
    for row in rows:
        yield csv_line(row)
