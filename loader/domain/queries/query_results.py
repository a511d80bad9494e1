"""Query results for users: ordered cells, export, masked columns.

Pure: it works on the answer of a read (values are text, as the warehouse casts them, NULL is None). Pages show values
through ``cell``.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from architecture.domain.tables import ColumnSpec, TableSpec
from elevata.core.spreadsheets import csv_line
from loader.domain.queries.comparison import DATES
from metadata.domain.sensitivity import is_mask

# Longer values are truncated in tables; a key press shows the whole value.
SHOWN = 80
# Most characters of a value in a table of text.
SHOWN_IN_TEXT = 60

# Kinds of the reads of a row's origin, of what was made of a delivered row, of an export, and of the difference of two
# states of a table.
ORIGIN, DESCENDANTS, EXPORT, COMPARE = "origin", "descendants", "export", "compare"
NULL, EMPTY, BLANK, TEXT, MASKED = "null", "empty", "blank", "text", "masked"
_ORDER = ("business_key", "attribute", "foreign_key", None)
_WORDS = {
    "business_key": "business key",
    "attribute": "",
    "foreign_key": "foreign key",
    "entity_key": "entity key",
    "history_key": "version key",
    "row_hash": "row hash",
    "run_id": "load run",
    "loaded_at": "load time",
    "source_file": "source file",
    "source_row": "source row",
    "load_day": "load day",
}


@dataclass(frozen=True)
class Heading:
    """Heading of a column: ``role`` in words, ``personal`` data, ``masked`` for the reader.

    ``technical`` columns are those of the warehouse; ``type`` is empty for a column that is not described.
    """

    name: str
    type: str = ""
    role: str = ""
    personal: bool = False
    technical: bool = False
    masked: bool = False


@dataclass(frozen=True)
class Cell:
    """Displayed value: ``kind`` is NULL, empty text, blanks, text or masked; ``head`` is the part shown at first."""

    kind: str
    text: str = ""
    head: str = ""

    @property
    def is_cut(self) -> bool:
        return self.head != self.text


@dataclass(frozen=True)
class Grid:
    """Table of headings and rows of cells."""

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]


def grid_of(
    answer: Mapping[str, Any], table: TableSpec, personal: Collection[str] = (), purposes: Collection[str | None] = ()
) -> Grid:
    """Return the rows of an answer with ordered columns: keys, other described or unknown ones, technical ones.

    ``purposes`` are those of the shown columns, None for unknown ones; by default, all are shown.
    """
    columns = {column.name: column for column in table.columns}
    names = list(answer["columns"])
    shown = [place for place, name in enumerate(names) if not purposes or _purpose(columns, name) in purposes]
    places = sorted(shown, key=lambda place: (_rank(columns, names[place]), place))
    masked = answer.get("masked", ())
    headings = tuple(heading(names[place], table, personal, masked) for place in places)
    rows = tuple(tuple(cell(row[place]) for place in places) for row in answer["rows"])
    return Grid(headings, rows)


def entity_keys(answer: Mapping[str, Any], table: TableSpec) -> list[str]:
    """Return the entity key of each row of an answer, empty where the reader does not see it; [] without such a key."""
    name = next((column.name for column in table.of_purpose("entity_key")), None)
    if name not in answer["columns"]:
        return []
    place = answer["columns"].index(name)
    return [row[place] if re.fullmatch(r"[0-9a-f]{64}", row[place] or "") else "" for row in answer["rows"]]


def delivered_rows(answer: Mapping[str, Any], table: TableSpec) -> list[dict[str, str]]:
    """Return run, file and number of each row of a raw table; empty for a row whose source has no numbers."""
    purposes = {"run": "run_id", "file": "source_file", "row": "source_row"}
    names = {name: table.column(purpose).name for name, purpose in purposes.items()}
    if not set(names.values()) <= set(answer["columns"]):
        return [{} for _ in answer["rows"]]
    places = {name: answer["columns"].index(own) for name, own in names.items()}
    origins = [{name: row[place] for name, place in places.items()} for row in answer["rows"]]
    return [item if all(item.values()) else {} for item in origins]


def heading(name: str, table: TableSpec, personal: Collection[str] = (), masked: Collection[str] = ()) -> Heading:
    """Return the heading of a column of a table, described or not."""
    column = next((column for column in table.columns if column.name == name), None)
    if column is None:
        return Heading(name, role="not described any more", masked=name in masked)
    technical = column.purpose not in _ORDER
    role = _WORDS.get(column.purpose, column.purpose.replace("_", " "))
    return Heading(name, column.type, role, name in personal, technical, name in masked)


def _purpose(columns: Mapping[str, ColumnSpec], name: str) -> str | None:
    return columns[name].purpose if name in columns else None


def _rank(columns: Mapping[str, ColumnSpec], name: str) -> int:
    purpose = _purpose(columns, name)
    return _ORDER.index(purpose) if purpose in _ORDER else len(_ORDER)


def cell(value: str | None) -> Cell:
    """Return a value as a cell; NULL, empty text and blanks are different kinds."""
    if value is None:
        return Cell(NULL)
    if is_mask(value):
        return Cell(MASKED, value, value)
    if value == "":
        return Cell(EMPTY)
    if not value.strip():
        return Cell(BLANK, value, value)
    return Cell(TEXT, value, value if len(value) <= SHOWN else f"{value[: SHOWN - 1]}…")


def value_text(value: Any) -> str | None:
    """Return a value of a query's answer as text: numbers and nested values as JSON; None for NULL."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def text_table(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    """Return rows as a table of text for a terminal; long values are cut, line ends become blanks."""
    lines = [[_on_one_line(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *lines, strict=True)]
    ruler = ["-" * width if name else "" for name, width in zip(columns, widths, strict=True)]
    table = [list(columns), ruler, *lines]
    return "".join(
        "  ".join(value.ljust(width) for value, width in zip(line, widths, strict=True)).rstrip() + "\n"
        for line in table
    )


def _on_one_line(value: str | None) -> str:
    plain = "NULL" if value is None else " ".join(value.split("\n"))
    return plain if len(plain) <= SHOWN_IN_TEXT else f"{plain[: SHOWN_IN_TEXT - 1]}…"


def header_of(names: Iterable[str]) -> str:
    """Return column names as the value of an HTTP header, which is ASCII: percent-encoded, separated by commas."""
    return ", ".join(quote(name) for name in names)


# --- changes by a run ------------------------------------------------------------------------------

INSERTED, UPDATED, DELETED, CAME_BACK = "I", "U", "D", "R"
OPERATIONS = {INSERTED: "inserted", UPDATED: "updated", DELETED: "deleted", CAME_BACK: "came back"}


@dataclass(frozen=True)
class ChangedField:
    """Field of a changed row; ``changed`` if there are both versions and they differ."""

    name: str
    before: Cell
    after: Cell
    changed: bool = False


@dataclass(frozen=True)
class KeyChange:
    """Change of one key by a run. ``fields`` are the displayed ones: of an update, those that changed.

    ``versions`` is the number of versions of the key that the run wrote or ended.
    """

    op: str
    entity_key: str
    key: tuple[tuple[str, Cell], ...]
    fields: tuple[ChangedField, ...]
    versions: int

    @property
    def said(self) -> str:
        return OPERATIONS[self.op]


def key_changes(answer: Mapping[str, Any], table: TableSpec) -> tuple[KeyChange, ...]:
    """Return the changes in an answer of kind ``changes``, in order."""
    purpose = {column.name: column.purpose for column in table.columns}
    return tuple(_key_change(change, list(answer["columns"]), purpose) for change in answer["changes"])


def _key_change(change: Mapping[str, Any], columns: list[str], purpose: Mapping[str, str]) -> KeyChange:
    before = dict(zip(columns, change["before"], strict=True)) if change["before"] is not None else None
    after = dict(zip(columns, change["after"], strict=True)) if change["after"] is not None else None
    present = after or before or {}
    key = tuple((name, cell(present[name])) for name in columns if purpose.get(name) == "business_key")
    fields = []
    for name in columns:
        if purpose.get(name) not in (None, "attribute", "foreign_key"):
            continue
        old, new = (before or {}).get(name), (after or {}).get(name)
        differs = before is not None and after is not None and old != new
        if change["op"] != UPDATED or differs:
            fields.append(ChangedField(name, cell(old), cell(new), differs))
    return KeyChange(change["op"], change["key"], key, tuple(fields), change["versions"])


# Export of the answers of reads as JSON lines or CSV, and the key after which the next part begins. Pure: it works on
# the answer of a read (``loader.spark.queries.reads``, ``loader.spark.queries.history_queries``). Values are text as
# the warehouse casts them, and NULL is null: a number that JSON would round stays exact.


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
_CHANGE = ("op", "entity_key", "versions")


def rows_kind(kind: str, arguments: Mapping[str, Any]) -> str:
    """Return the kind of read that has the same rows: of an export or comparison, that of its rows."""
    if kind == COMPARE:
        return "as_of" if arguments.get("by") == DATES else COMPARE
    if kind != EXPORT:
        return kind
    if arguments.get("run_id"):
        return "changes"
    return "as_of" if arguments.get("at") else "sample"


def json_lines(answer: Mapping[str, Any]) -> Iterator[str]:
    """Yield every row as a JSON object on a line of its own."""
    if "changes" in answer:
        objects: Iterable[Any] = (_change_object(answer["columns"], change) for change in answer["changes"])
    else:
        objects = (_by_column(answer["columns"], row) for row in answer["rows"])
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
        values = _by_column(answer["columns"], last["after"] or last["before"] or ())
    else:
        values = _by_column(answer["columns"], answer["rows"][-1])
    return {name: values[name] for name in business_key} if set(business_key) <= set(values) else None


def _change_object(columns: Sequence[str], change: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: None if change[side] is None else _by_column(columns, change[side]) for side in ("before", "after")}
    return {"op": change["op"], "entity_key": change["key"], "versions": change["versions"], **sides}


def _change_row(columns: Sequence[str], change: Mapping[str, Any]) -> list[str | None]:
    absent = [None] * len(columns)
    cells = [change["op"], change["key"], str(change["versions"])]
    return [*cells, *(change["before"] or absent), *(change["after"] or absent)]


def _by_column(columns: Sequence[str], row: Sequence[str | None]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=False))


def _csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    yield csv_line(columns)
    for row in rows:
        yield csv_line(row)
