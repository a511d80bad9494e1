"""Display of rows: ordered columns, cells that distinguish NULL from empty text, and CSV.

Pure: it works on the answer of a read (values are text, as the warehouse casts them, NULL is None). Every value
that a page of data shows passes ``cell``, every one in a file for a spreadsheet ``csv_text``.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from architecture.domain.states.tables import TableSpec
from metadata.domain.sensitivity import is_mask

# Longer values are cut in tables; a key press shows the whole value.
SHOWN = 80

# Prefixes by which spreadsheets recognise formulas, full-width forms included.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)

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
}


@dataclass(frozen=True)
class Heading:
    """Heading of a column: ``role`` in words, ``personal`` data, ``masked`` for the reader.

    ``technical`` columns are the warehouse's own; ``type`` is empty for a column that only the table knows.
    """

    name: str
    type: str = ""
    role: str = ""
    personal: bool = False
    technical: bool = False
    masked: bool = False


@dataclass(frozen=True)
class Cell:
    """A value: ``kind`` is NULL, empty text, blanks, text or masked; ``head`` is the part shown at first."""

    kind: str
    text: str = ""
    head: str = ""

    @property
    def is_cut(self) -> bool:
        return self.head != self.text


@dataclass(frozen=True)
class Grid:
    """Headings, and rows of as many cells."""

    headings: tuple[Heading, ...]
    rows: tuple[tuple[Cell, ...], ...]


def grid_of(answer: Mapping, table: TableSpec, personal: Collection[str] = ()) -> Grid:
    """Return the rows of an answer, columns in order: keys, other described or unknown ones, the warehouse's own."""
    known = {column.name: column for column in table.columns}
    names = list(answer["columns"])
    places = sorted(range(len(names)), key=lambda place: (_rank(known, names[place]), place))
    masked = answer.get("masked", ())
    headings = tuple(heading(names[place], table, personal, masked) for place in places)
    rows = tuple(tuple(cell(row[place]) for place in places) for row in answer["rows"])
    return Grid(headings, rows)


def heading(name: str, table: TableSpec, personal: Collection[str] = (), masked: Collection[str] = ()) -> Heading:
    """Return the heading of a column of a table, or of one that nothing describes any more."""
    column = next((one for one in table.columns if one.name == name), None)
    if column is None:
        return Heading(name, role="not described any more", masked=name in masked)
    technical = column.purpose not in _ORDER
    role = _WORDS.get(column.purpose, column.purpose.replace("_", " "))
    return Heading(name, column.type, role, name in personal, technical, name in masked)


def _rank(known: Mapping, name: str) -> int:
    purpose = known[name].purpose if name in known else None
    return _ORDER.index(purpose) if purpose in _ORDER else len(_ORDER)


def cell(value: str | None) -> Cell:
    """Return a value as a cell: NULL, empty text and text of blanks are three different kinds."""
    if value is None:
        return Cell(NULL)
    if is_mask(value):
        return Cell(MASKED, value, value)
    if value == "":
        return Cell(EMPTY)
    if not value.strip():
        return Cell(BLANK, value, value)
    return Cell(TEXT, value, value if len(value) <= SHOWN else f"{value[: SHOWN - 1]}…")


def csv_text(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> str:
    """Return the rows as CSV (RFC 4180) for a spreadsheet: every value in quotation marks, NULL without any.

    A text that a spreadsheet would take for a formula begins with an apostrophe; numbers stay as they are.
    """
    return "".join(csv_line(map(_no_formula, row)) for row in (columns, *rows))


def _no_formula(value: str | None) -> str | None:
    if value is None or not value.lstrip(" ").startswith(_FORMULA) or _NUMBER.fullmatch(value):
        return value
    return f"'{value}"


def csv_line(values: Iterable[str | None]) -> str:
    """Return one line of CSV."""
    return ",".join(map(_quoted, values)) + "\r\n"


def _quoted(value: str | None) -> str:
    return "" if value is None else '"' + value.replace('"', '""') + '"'


def header_of(names: Iterable[str]) -> str:
    """Return column names as the value of an HTTP header, which takes ASCII: percent-encoded, with commas between."""
    return ", ".join(quote(name) for name in names)


# --- changes by a run ------------------------------------------------------------------------------

INSERTED, UPDATED, DELETED, CAME_BACK = "I", "U", "D", "R"
OPERATIONS = {INSERTED: "inserted", UPDATED: "updated", DELETED: "deleted", CAME_BACK: "came back"}


@dataclass(frozen=True)
class ChangedField:
    """A field of a changed row; ``changed`` where both versions are there and differ."""

    name: str
    before: Cell
    after: Cell
    changed: bool = False


@dataclass(frozen=True)
class KeyChange:
    """Change of one key by a run. ``fields`` are all that are shown: of an update, those that changed.

    ``versions`` is how many versions of the key the run wrote or ended.
    """

    op: str
    entity_key: str
    key: tuple[tuple[str, Cell], ...]
    fields: tuple[ChangedField, ...]
    versions: int

    @property
    def said(self) -> str:
        return OPERATIONS[self.op]


def key_changes(answer: Mapping, table: TableSpec) -> tuple[KeyChange, ...]:
    """Return the changes of an answer of kind ``changes``, in its order."""
    purpose = {column.name: column.purpose for column in table.columns}
    return tuple(_key_change(one, list(answer["columns"]), purpose) for one in answer["changes"])


def _key_change(one: Mapping, columns: list[str], purpose: Mapping[str, str]) -> KeyChange:
    before = dict(zip(columns, one["before"], strict=True)) if one["before"] is not None else None
    after = dict(zip(columns, one["after"], strict=True)) if one["after"] is not None else None
    present = after or before or {}
    key = tuple((name, cell(present[name])) for name in columns if purpose.get(name) == "business_key")
    fields = []
    for name in columns:
        if purpose.get(name) not in (None, "attribute", "foreign_key"):
            continue
        old, new = (before or {}).get(name), (after or {}).get(name)
        differs = before is not None and after is not None and old != new
        if one["op"] != UPDATED or differs:
            fields.append(ChangedField(name, cell(old), cell(new), differs))
    return KeyChange(one["op"], one["key"], key, tuple(fields), one["versions"])
