"""Query results for users: ordered cells, export, masked columns.

Pure: it works on the answer of a read (values are text, as the warehouse casts them, NULL is None). Every value
that a page of data shows passes ``cell``, every one in a file for a spreadsheet ``csv_text``.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from architecture.domain.tables import ColumnSpec, TableSpec
from loader.domain.manifest import Masking
from loader.domain.refusals import SAID, Refusal
from metadata.domain.history_policy import HistoryPolicy
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
    """Return the heading of a column of a table, described or not."""
    column = next((column for column in table.columns if column.name == name), None)
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


def value_text(value: Any) -> str | None:
    """Return a value of a query's answer as text: numbers and nested values as JSON; None for NULL."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
    return tuple(_key_change(change, list(answer["columns"]), purpose) for change in answer["changes"])


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


# Export of the answers of reads as JSON lines or CSV, and the key after which the next part begins. Pure: it works on
# the answer of a read (``loader.spark.reads``, ``loader.spark.history_queries``). Values are text as the warehouse
# casts them, and NULL is null: a number that JSON would round stays exact.


# Most rows of one answer. Longer results are read in parts (``after``).
MOST_ROWS = 1000
# Kinds whose rows are ordered by business key, so that a part can begin after a key.
IN_PARTS = ("key_search", "as_of", "changes")
_CHANGE = ("op", "entity_key", "versions")


def json_lines(answer: Mapping[str, Any], op: str = "") -> Iterator[str]:
    """Yield every row as a JSON object on a line of its own. ``op`` keeps only changes of that kind."""
    if "changes" in answer:
        objects: Iterable[Any] = (_told(answer["columns"], change) for change in _chosen(answer, op))
    else:
        objects = (_named(answer["columns"], row) for row in answer["rows"])
    return (json.dumps(item, ensure_ascii=False) + "\n" for item in objects)


def csv_lines(answer: Mapping[str, Any], op: str = "") -> Iterator[str]:
    """Yield the same rows as CSV with a header: an empty text is quoted, NULL is not.

    Changes have the columns of the two versions as ``before.…`` and ``after.…``.
    """
    columns = list(answer["columns"])
    if "changes" not in answer:
        return _csv(columns, answer["rows"])
    names = [*_CHANGE, *(f"{side}.{name}" for side in ("before", "after") for name in columns)]
    return _csv(names, (_flat(columns, change) for change in _chosen(answer, op)))


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
    return (change for change in answer["changes"] if not op or change["op"] == op)


def _told(columns: Sequence[str], change: Mapping[str, Any]) -> dict[str, Any]:
    sides = {side: None if change[side] is None else _named(columns, change[side]) for side in ("before", "after")}
    return {"op": change["op"], "entity_key": change["key"], "versions": change["versions"], **sides}


def _flat(columns: Sequence[str], change: Mapping[str, Any]) -> list[str | None]:
    nothing = [None] * len(columns)
    cells = [change["op"], change["key"], str(change["versions"])]
    return [*cells, *(change["before"] or nothing), *(change["after"] or nothing)]


def _named(columns: Sequence[str], row: Sequence[str | None]) -> dict[str, Any]:
    return dict(zip(columns, row, strict=False))


def _csv(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> Iterator[str]:
    yield csv_line(columns)
    for row in rows:
        yield csv_line(row)


# Columns of a table for a reader: unmasked, as keyed hashes, or masked. Pure. A column without a description is
# masked, since its sensitivity is unknown. A hash of a sensitive key is hashed again with a secret: otherwise a
# guessed key could be confirmed by its hash.


# Columns that hold the time by which versions are dated.
_DATED = ("started_at", "ended_at", "updated_at", "event_at")
# Codes of refusals: with values of the named column as samples, with names as samples, with Spark's own message.
_OF_ONE_COLUMN = ("VALUE_DOES_NOT_FIT", "CAST_FAILS")
_OF_NAMES = ("MISSING_COLUMN", "UNKNOWN_COLUMN", "DUPLICATE_COLUMN")
_BY_SPARK = ("UNEXPECTED", "STEP_FAILED", "SOURCE_FAILED")
_OF_VERSIONS = ("versions", "as_of", "changes")
# Arguments that contain values of the business key.
_BY_KEY = ("text", "after", "business_key")


@dataclass(frozen=True)
class Sensitive:
    """Stable keys and current names (lower case) of a dataset's sensitive columns, and stable keys of all columns."""

    keys: frozenset[str]
    names: frozenset[str]
    known_keys: frozenset[str]

    def has(self, column: ColumnSpec) -> bool:
        return column.key in self.keys or column.name.lower() in self.names


def masking_of(table: TableSpec, sensitive: Sensitive, policy: HistoryPolicy, secret: str) -> Masking:
    """Return the masking for a reader without the permission to read sensitive values."""
    described = table.of_purpose("business_key", "attribute")
    masked = {column.key for column in described if sensitive.has(column)}
    hashed = {column.key for column in table.columns if masked & {part for _, part in column.hash_of}}
    # A history key is a hash of the entity key, so it is hashed wherever that one is.
    hashed |= {column.key for column in table.columns if hashed & {part for _, part in column.hash_of}}
    if masked:
        masked |= {column.key for column in table.of_purpose("row_hash")}
    if _dated_by_masked(table, sensitive, policy):
        masked |= {column.key for column in table.of_purpose(*_DATED)}
    shown = [column for column in table.columns if column.key not in masked | hashed]
    others = sensitive.known_keys - sensitive.keys - masked - hashed
    return Masking(
        shown=tuple(sorted({column.key for column in shown} | others)),
        shown_names=tuple(column.name.lower() for column in shown),
        hashed=tuple(sorted(hashed)),
        secret=secret,
    )


def _dated_by_masked(table: TableSpec, sensitive: Sensitive, policy: HistoryPolicy) -> bool:
    name = (policy.time_column or "").lower()
    return any(column.name.lower() == name and sensitive.has(column) for column in table.columns)


def without_values(refusal: Refusal, sensitive: Collection[str]) -> Refusal:
    """Return a refusal without any value of a sensitive column: without samples, unless they are harmless.

    ``sensitive`` are names in lower case. A refusal about the values of one other column stays as it is, and so
    does one whose samples are names.
    """
    if not sensitive or refusal.code in _OF_NAMES:
        return refusal
    of_another = refusal.code in _OF_ONE_COLUMN and refusal.column and refusal.column.lower() not in sensitive
    if of_another and not _names_any(refusal.samples, sensitive):
        return refusal
    message, hint = refusal.message, refusal.hint
    if refusal.code in SAID:
        refusal = replace(refusal, file="")
        message = f"{message.partition(':')[0]}: {SAID[refusal.code]}; what Spark says of it may hold sensitive values"
    if refusal.code in _BY_SPARK:
        message = f"{message.partition(':')[0]}: it failed; what Spark says of it may hold sensitive values"
    if refusal.samples:
        hint = f"{hint} Examples are masked: the dataset has sensitive columns.".strip()
    return replace(refusal, message=message, hint=hint, samples=())


def _names_any(samples: Collection[str], names: Collection[str]) -> bool:
    """Return True if a sample has a row's key with one of these columns, as ``name=value``."""
    return any(f"{name}=" in sample.lower() for name in names for sample in samples)


def may_hold_values(error: Mapping[str, Any]) -> bool:
    """Return whether a refusal as JSON has samples, or a message that comes from Spark."""
    return bool(error.get("samples")) or error.get("code") in (*_BY_SPARK, *SAID)


def without_examples(error: Mapping[str, Any] | None, name: str) -> dict[str, Any] | None:
    """Return a refusal as JSON for a reader who may not read the data of ``name``: without any value."""
    if not error:
        return None
    refusal = without_values(replace(Refusal.from_json(dict(error)), column=""), ("",))
    hint = f"You need the permission metadata.read_data for {name} to see examples." if error.get("samples") else ""
    return replace(refusal, column=error.get("column", ""), hint=hint or error.get("hint", "")).as_json()


def without_any_value(error: Mapping[str, Any]) -> str:
    """Return a refusal, given as JSON, on one line for logs, notices and runs: without any value."""
    refusal = Refusal.from_json(dict(error))
    return replace(without_values(replace(refusal, column=""), ("",)), hint=refusal.hint).one_line()


def must_not_tell(kind: str, arguments: Mapping[str, Any], table: TableSpec, masking: Masking) -> None:
    """Raise Refusal MASKED_COLUMN for a read whose rows would reveal a masked value by being selected."""
    keys = masked_names(table.of_purpose("business_key"), masking)
    used = [name for name in _BY_KEY if arguments.get(name)]
    if keys and used:
        raise _refused(f"{', '.join(keys)} is masked for you, so rows cannot be found by it")
    if kind in _OF_VERSIONS and masked_names(table.of_purpose("started_at"), masking):
        raise _refused("versions are dated by a column that is masked for you")


def masked_names(columns: Collection[ColumnSpec], masking: Masking) -> list[str]:
    """Return the names of the columns that are masked for a reader."""
    return [column.name for column in columns if column.key not in (*masking.shown, *masking.hashed)]


def _refused(said: str) -> Refusal:
    return Refusal(
        "MASKED_COLUMN",
        said,
        hint="Ask an administrator for the role of a steward, or find rows by the hash of their key.",
    )
