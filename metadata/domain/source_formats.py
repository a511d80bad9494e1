"""Formats of delivered files and their reading options: one table each.

The check when metadata is saved, the check before a load, the endings that pages recognise and the tables of the
documentation all come from ``FORMATS`` and ``OPTIONS``.
"""

import codecs
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from elevata.core.errors import MetadataError
from metadata.domain.variables import VARIABLE

CSV, FIXED, JSONL, JSON, XML, XLSX = "csv", "fixed", "jsonl", "json", "xml", "xlsx"
PARQUET, ORC, AVRO, TABLE = "parquet", "orc", "avro", "table"
LATEST, FIRST = "latest", "first"
PACKED = (".gz", ".bz2", ".zst")


@dataclass(frozen=True)
class SourceFormat:
    """Format of a source dataset. ``is_text``: its values come as text, and raw keeps them so."""

    name: str
    label: str
    endings: tuple[str, ...]
    is_text: bool
    reader: str
    types: str


FORMATS = (
    SourceFormat(CSV, "CSV", (".csv", ".tsv", ".txt"), True, "Spark, by records", "inferred from every value"),
    SourceFormat(FIXED, "Fixed width", (), True, "Spark, by lines", "inferred from every value"),
    SourceFormat(JSONL, "JSON lines", (".jsonl", ".ndjson"), True, "Spark, by lines", "JSON's own, then the values"),
    SourceFormat(
        JSON, "JSON document", (".json",), True, "a task per file, 256 MB at most", "inferred from every value"
    ),
    SourceFormat(XML, "XML", (".xml",), True, "a task per file, 1 GB at most", "inferred from every value"),
    SourceFormat(
        XLSX, "Excel workbook", (".xlsx",), True, "a task per file, 64 MB at most", "inferred from every value"
    ),
    SourceFormat(PARQUET, "Parquet", (".parquet", ".pq"), False, "Spark, by columns", "the file's"),
    SourceFormat(ORC, "ORC", (".orc",), False, "Spark, by columns", "the file's"),
    SourceFormat(AVRO, "Avro", (".avro",), False, "Spark (`spark-avro`), by blocks", "the file's"),
    SourceFormat(TABLE, "Database table", (), False, "Spark, by JDBC", "the database's"),
)
NAMES = tuple(entry.name for entry in FORMATS)
FILE_FORMATS = tuple(entry.name for entry in FORMATS if entry.name != TABLE)
TEXT_FORMATS = tuple(entry.name for entry in FORMATS if entry.is_text)
_LABELS = {entry.name: entry.label for entry in FORMATS}
_BY_ENDING = {ending: entry.name for entry in FORMATS for ending in entry.endings}


def label_of(name: str) -> str:
    """Return the display name of a format."""
    return _LABELS[name]


def format_of(name: str) -> str:
    """Return the format that a file's ending indicates, compressed or not; empty if it indicates none."""
    for packed in PACKED:
        name = name.removesuffix(packed)
    return _BY_ENDING.get(f".{name.rpartition('.')[2].lower()}", "") if "." in name else ""


@dataclass(frozen=True)
class Kind:
    """Kind of an option's value: its description, and the condition that a value has to fulfil."""

    description: str
    fits: Callable[[Any], bool]


def _is_character(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= 1 and value not in ("\n", "\r", "\0")


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


_OFFSET = re.compile(r"[+-](0\d|1[0-8]):[0-5]\d")


def _is_zone(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return bool(_OFFSET.fullmatch(value) or ZoneInfo(value))
    except (ValueError, OSError, ZoneInfoNotFoundError):
        return False


def _is_encoding(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(codecs.lookup(value))
    except (LookupError, ValueError):
        return False


_POSITIONS = re.compile(r"([^:]*[^:\s][^:]*):\s*([1-9]\d{0,4})\s*-\s*([1-9]\d{0,4})")
_RANGE = re.compile(r"([A-Z]{1,3})([1-9]\d{0,6})(?::([A-Z]{1,3})([1-9]\d{0,6}))?")


def range_of(text: Any) -> tuple[int, int, int | None, int | None] | None:
    """Return (first column, first row, last column, last row), from 1, of cells like A3:F200; None for other text.

    The last ones are None for a single cell like B2.
    """
    match = _RANGE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        return None
    left, top = column_number(match[1]), int(match[2])
    if match[3] is None:
        return left, top, None, None
    right, bottom = column_number(match[3]), int(match[4])
    return (left, top, right, bottom) if left <= right and top <= bottom else None


def column_number(letters: str) -> int:
    """Return the number, from 1, of a spreadsheet's column like AB."""
    number = 0
    for letter in letters.upper():
        number = number * 26 + ord(letter) - ord("A") + 1
    return number


def columns_of(text: Any) -> tuple[tuple[str, int, int], ...]:
    """Return name, first and last position of each column of a text like ``id:1-8, name:9-30``; empty for other text.

    Positions count from 1, names differ, and columns do not overlap.
    """
    if not isinstance(text, str):
        return ()
    matches = [_POSITIONS.fullmatch(part.strip()) for part in text.split(",")]
    columns = [(match[1].strip(), int(match[2]), int(match[3])) for match in matches if match]
    in_order = sorted(columns, key=lambda column: column[1])
    overlap = any(after <= end for (_, _, end), (_, after, _) in zip(in_order, in_order[1:], strict=False))
    names = {name for name, _, _ in columns}
    is_valid = all(matches) and len(names) == len(columns) and all(start <= end for _, start, end in columns)
    return tuple(columns) if is_valid and not overlap else ()


def names_of(text: Any) -> tuple[str, ...]:
    """Return the names in a text like ``changed_at, number``; empty for other values or a repeated name."""
    names = tuple(part.strip() for part in text.split(",")) if isinstance(text, str) else ()
    return names if all(names) and len(set(names)) == len(names) else ()


# An empty text switches the character off.
CHARACTER = Kind("one character", _is_character)
DELIMITER = Kind("one character, not empty", lambda value: _is_character(value) and value != "")
TEXT = Kind("text", _is_text)
FLAG = Kind("true or false", lambda value: isinstance(value, bool))
PATH = Kind("names with dots between, like result.items", lambda value: _is_text(value) and all(value.split(".")))
RANGE = Kind("cells like A3:F200, or the first cell like B2", lambda value: range_of(value) is not None)
POSITIONS = Kind("columns with positions like id:1-8, name:9-30", lambda value: bool(columns_of(value)))
ZONE = Kind("a time zone like Europe/Berlin or +02:00", _is_zone)
ENCODING = Kind("a character set like UTF-8, ISO-8859-1 or windows-1252", _is_encoding)
CHOICE = Kind("`latest` or `first`", lambda value: value in (LATEST, FIRST))
COLUMNS = Kind("names of columns with commas between", lambda value: bool(names_of(value)))
COUNT = Kind("a whole number from 1", lambda value: type(value) is int and value >= 1)


@dataclass(frozen=True)
class Option:
    """Reading option. ``default_in`` has the formats with another default."""

    name: str
    formats: tuple[str, ...]
    kind: Kind
    default: Any
    example: str
    meaning: str
    default_in: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    longest: int = 64
    required: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name.replace("_", " ").capitalize())

    @property
    def short_meaning(self) -> str:
        """Return the first sentence of the meaning, without its period."""
        return self.meaning.partition(". ")[0]

    def default_of(self, format_name: str) -> Any:
        return self.default_in.get(format_name, self.default)


OPTIONS = (
    Option("delimiter", (CSV,), DELIMITER, ",", "`;`", "character between fields"),
    Option(
        "quote",
        (CSV,),
        CHARACTER,
        '"',
        "`'`",
        "character around a field that contains a delimiter, quote or line end; empty: no field is quoted",
    ),
    Option(
        "escape",
        (CSV,),
        CHARACTER,
        None,
        "`\\`",
        "character before a quote inside a quoted field; by default the quote itself, doubled; empty: none",
    ),
    Option("encoding", (CSV, FIXED), ENCODING, "UTF-8", "`windows-1252`", "character set of the file"),
    Option(
        "header",
        (CSV, XLSX),
        FLAG,
        True,
        "`false`",
        "the first record has the names; if false, the fields are the contract's columns in their order",
    ),
    Option(
        "columns",
        (FIXED,),
        POSITIONS,
        None,
        "`id:1-8, name:9-30`",
        "names of the columns, each with its first and last character. A position that no column has is not read",
        longest=4000,
        required=True,
    ),
    Option("short_lines", (FIXED,), FLAG, False, "`true`", "a line may end early: what is missing is empty"),
    Option(
        "path",
        (JSON,),
        PATH,
        None,
        "`result.items`",
        "place of the array of objects in the document; by default the document itself",
        label="Path",
        longest=200,
    ),
    Option(
        "row_tag",
        (XML,),
        TEXT,
        None,
        "`order`",
        "name of the element that is one row; by default each element in the root element",
        label="Row element",
        longest=200,
    ),
    Option("sheet", (XLSX,), TEXT, None, "`Prices`", "name of the sheet; by default the first one"),
    Option(
        "range", (XLSX,), RANGE, None, "`B3:F200`", "cells that are read, the header in the first row; by default all"
    ),
    Option(
        "empty_is_null",
        TEXT_FORMATS,
        FLAG,
        True,
        "`false`",
        "an empty text is NULL, quoted or not; false keeps a quoted empty text of CSV as it is",
        default_in={JSONL: False, JSON: False},
        label="Empty is NULL",
    ),
    Option(
        "null_string",
        TEXT_FORMATS,
        TEXT,
        None,
        "`N/A`",
        "a text that stands for NULL, quoted or not",
        label="NULL text",
    ),
    Option(
        "query",
        (TABLE,),
        TEXT,
        None,
        "`SELECT id, name FROM sales.customer`",
        "one SELECT that is read instead of the location, in the database's SQL",
        longest=20_000,
    ),
    Option(
        "filter",
        (TABLE,),
        TEXT,
        None,
        "`deleted_at IS NULL`",
        "one condition over the columns of the table or query; only these rows are read",
        longest=4_000,
    ),
    Option(
        "partition_column",
        (TABLE,),
        TEXT,
        None,
        "`id`",
        "column by whose ranges connections divide the rows: numbers, dates or timestamps, best indexed",
        longest=200,
    ),
    Option(
        "partitions",
        (TABLE,),
        COUNT,
        None,
        "`4`",
        "number of ranges, each with a connection of its own; by default Spark's parallelism",
    ),
    Option(
        "fetch_size", (TABLE,), COUNT, 10_000, "`1000`", "rows that a connection fetches at a time; fewer for wide rows"
    ),
    Option("timeout", (TABLE,), COUNT, 3600, "`600`", "seconds that a statement may take"),
    Option(
        "timezone",
        NAMES,
        ZONE,
        "UTC",
        "`Europe/Berlin`",
        "zone of timestamps without one. A time that daylight saving skips refuses the delivery with its row; an "
        "ambiguous one is read as the earlier, with a warning and a count",
        label="Time zone",
    ),
    Option(
        "deduplicate",
        NAMES,
        CHOICE,
        None,
        "`latest`",
        "row that is kept of rows of one business key that differ: the last or first by `order_by`. The others are "
        "counted as superseded. Without it such rows refuse the delivery with `CONFLICTING_ROWS`, as rows do that are "
        "equal in `order_by`. It does not go with rows that have a time of their own",
        label="Repeated keys",
    ),
    Option(
        "order_by",
        NAMES,
        COLUMNS,
        None,
        "`changed_at, number`",
        "columns that order rows of one business key for `deduplicate`; NULL comes before every value for `latest`, "
        "and after it for `first`",
        label="Order of repeated keys",
        longest=1_000,
    ),
    Option(
        "expected_files",
        FILE_FORMATS,
        COUNT,
        None,
        "`3`",
        "number of files of a delivery (for a feed: of new files). Fewer are refused with `MISSING_FILE`, more with "
        "`EXTRA_FILE`",
        label="Number of files",
    ),
)


def options_of(format_name: str) -> dict[str, Option]:
    """Return a format's options by name."""
    return {option.name: option for option in OPTIONS if format_name in option.formats}


@dataclass(frozen=True)
class ReadingOptions:
    """Options of one source, with the format's defaults for those that are not given."""

    delimiter: str
    quote: str
    escape: str
    encoding: str
    header: bool
    columns: str | None
    short_lines: bool
    path: str | None
    row_tag: str | None
    sheet: str | None
    range: str | None
    empty_is_null: bool
    null_string: str | None
    timezone: str
    deduplicate: str | None
    order_by: str | None
    expected_files: int | None

    @classmethod
    def of(cls, format_name: str, given: Mapping[str, Any]) -> "ReadingOptions":
        """Return the checked options. Raise MetadataError ``bad_option``."""
        check_options(format_name, given)
        values = {option.name: given.get(option.name, option.default_of(format_name)) for option in OPTIONS}
        if values["escape"] is None:
            values["escape"] = values["quote"]
        return cls(**{entry.name: values[entry.name] for entry in fields(cls)})

    @property
    def order(self) -> tuple[str, ...]:
        """Return the columns that order rows of one key, empty without deduplication."""
        return names_of(self.order_by)

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name == "utf-8"

    @property
    def is_wide(self) -> bool:
        """Return True if a character takes two bytes or more, a line end included."""
        return codecs.lookup(self.encoding).name.startswith(("utf-16", "utf-32"))


def check_options(format_name: str, given: Any) -> None:
    """Raise MetadataError ``bad_option`` for unknown options, values of another kind, and missing required options."""
    if not isinstance(given, Mapping):
        raise _bad_option("options", f"must be fields with values, not {given!r}")
    known = options_of(format_name)
    for name, value in given.items():
        where = f"options.{name}"
        if name not in known:
            message = f"known are {', '.join(known)}" if known else "there are none"
            raise _bad_option(where, f"is no option of {format_name}; {message}")
        if isinstance(value, str) and VARIABLE in value:
            raise _bad_option(where, f"holds {VARIABLE}, which would stand for a variable of the worker")
        if not known[name].kind.fits(value):
            raise _bad_option(where, f"must be {known[name].kind.description}, not {value!r}")
    for name, option in known.items():
        if option.required and name not in given:
            raise _bad_option(f"options.{name}", f"is needed: {option.kind.description}")
    for name, other in (("deduplicate", "order_by"), ("order_by", "deduplicate")):
        if name in given and other not in given:
            raise _bad_option(f"options.{name}", f"needs {other}, too")


def _bad_option(where: str, message: str) -> MetadataError:
    return MetadataError("bad_option", message, where)


# Tables of the documentation.


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def formats_table() -> str:
    """Return the formats as a Markdown table."""
    rows = [
        (f"`{entry.name}`", entry.label, _listed(entry.endings), entry.reader, entry.types)
        for entry in FORMATS
        if entry.name != TABLE
    ]
    return _table(("format", "content", "endings", "read by", "types"), rows)


_GROUPS = {NAMES: "all", FILE_FORMATS: "all files", TEXT_FORMATS: "text: " + _listed(TEXT_FORMATS)}


def options_table() -> str:
    """Return the options as a Markdown table."""
    rows = [
        (
            f"`{option.name}`",
            _GROUPS.get(option.formats) or _listed(option.formats),
            option.kind.description,
            _default(option),
            option.example,
            option.meaning,
        )
        for option in OPTIONS
    ]
    return _table(("option", "formats", "type", "default", "example", "meaning"), rows)


def _default(option: Option) -> str:
    if option.required:
        return "needed"
    others = [f"{_shown(value)} for {name}" for name, value in option.default_in.items()]
    return "; ".join([_shown(option.default), *others])


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)
