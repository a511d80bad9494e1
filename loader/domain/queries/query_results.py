"""Query results for users: ordered cells, tables of text.

Pure: it works on the answer of a read (values are text, as the warehouse casts them, NULL is None). Pages show values
through ``cell``.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from architecture.domain.tables import ColumnSpec, TableSpec
from metadata.domain.sensitivity import is_mask

# Longer values are truncated in tables; a key press shows the whole value.
SHOWN = 80
# Most characters of a value in a table of text.
SHOWN_IN_TEXT = 60

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


@dataclass(frozen=True)
class FoundRow:
    """Row of an answer: its entity key, and the values of the displayed columns."""

    entity_key: str
    values: tuple[tuple[str, str | None], ...]

    @property
    def cells(self) -> tuple[tuple[str, Cell], ...]:
        return tuple((name, cell(value)) for name, value in self.values)


@dataclass(frozen=True)
class FoundRows:
    columns: tuple[str, ...]
    rows: tuple[FoundRow, ...]


def found_rows(answer: Mapping[str, Any], table: TableSpec) -> FoundRows:
    """Return the rows of an answer: entity key, business key, attributes and the start of the version."""
    purpose = {column.name: column.purpose for column in table.columns}
    entity_key = table.column("entity_key").name
    columns = tuple(
        name for name in answer["columns"] if purpose.get(name) in (None, "business_key", "attribute", "started_at")
    )
    rows = []
    for row in answer["rows"]:
        values = dict(zip(answer["columns"], row, strict=True))
        rows.append(FoundRow(values.get(entity_key) or "", tuple((name, values[name]) for name in columns)))
    return FoundRows(columns, tuple(rows))
