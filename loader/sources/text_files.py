"""First rows and columns of CSV, JSON lines and Parquet files.

CSV is read by the standard library's reader, which preserves ``007``.
"""

import bz2
import csv
import gzip
import io
import json
from collections.abc import Iterator
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from elevata.core import strict_json
from elevata.core.words import counted
from loader.domain.contracts import Value
from loader.domain.refusals import Refusal
from metadata.domain import types as data_types
from metadata.domain.types import MAX_PRECISION, DataType

ROWS = 2_000
# Characters of one file; a file whose first rows are longer is sampled by fewer rows.
MOST_CHARACTERS = 16_000_000
_OPENERS = {".gz": gzip.open, ".bz2": bz2.open}
_DELIMITERS = (",", ";", "\t", "|")
_UNREADABLE = (OSError, EOFError, gzip.BadGzipFile)

Rows = tuple[list[str], list[list[Value]], bool]


class _Number(str):
    """A number of a JSON text, as it is written there."""


def guess_delimiter(path: Path, encoding: str) -> str:
    """Return the delimiter that is most frequent in the first line; a comma if there is none."""
    with _opened(path, encoding) as stream:
        line = next(_lines(stream, path, encoding), "")
    return max(_DELIMITERS, key=line.count) if any(sign in line for sign in _DELIMITERS) else ","


def read_csv(path: Path, options: dict[str, Any], rows: int = ROWS) -> Rows:
    """Return names, rows of text, and whether these are all. Raise Refusal as a load would."""
    encoding = options.get("encoding") or "UTF-8"
    quote = options.get("quote", '"')
    escape = options.get("escape", quote)
    dialect: dict[str, Any] = {"delimiter": options.get("delimiter") or ",", "strict": True}
    if not quote:
        dialect |= {"quoting": csv.QUOTE_NONE}
    elif escape == quote:
        dialect |= {"quotechar": quote}
    else:
        dialect |= {"quotechar": quote, "escapechar": escape or None, "doublequote": False}
    nulls = _nulls(options, empty_is_null=True)
    with _opened(path, encoding) as stream:
        try:
            reader = csv.reader(_lines(stream, path, encoding), **dialect)
            records = (record for record in reader if record)
            header = next(records, None)
            if header is None:
                raise _empty(path)
            named = options.get("header", True)
            names = _names(path, header) if named else [f"column_{n}" for n in range(1, len(header) + 1)]
            found: list[list[Value]] = [] if named else [_values(header, nulls)]
            for record in records:
                if len(record) != len(names):
                    raise _ragged(path, reader.line_num, record, names, dialect["delimiter"])
                if len(found) == rows:
                    return names, found, False
                found.append(_values(record, nulls))
        except csv.Error as error:
            raise Refusal(
                "UNREADABLE_ROW",
                f"{path.name}, line {reader.line_num}: {error}",
                file=path.name,
                row=reader.line_num,
                hint="A quote may not be closed, or another sign may be the quote: correct how the file is read.",
            ) from error
    return names, found, True


def read_json_lines(path: Path, options: dict[str, Any], rows: int = ROWS) -> tuple[list[str], list[dict], bool]:
    """Return keys in order of appearance, objects by key, and whether these are all. Raise Refusal as a load would.

    Text stays ``str``; ``is_number`` distinguishes numbers from it.
    """
    found: list[dict[str, Any]] = []
    names: dict[str, None] = {}
    nulls = _nulls(options, empty_is_null=False)
    with _opened(path, "UTF-8") as stream:
        for number, line in enumerate(_lines(stream, path, "UTF-8"), start=1):
            if not line.strip():
                continue
            if len(found) == rows:
                return list(names), found, False
            described = _object(path, number, line)
            found.append({name: None if text_of(value) in nulls else value for name, value in described.items()})
            names.update(dict.fromkeys(found[-1]))
    if not found:
        raise _empty(path)
    return list(names), found, True


def is_number(value: Any) -> bool:
    return isinstance(value, _Number)


def _opened(path: Path, encoding: str) -> TextIO:
    try:
        if path.suffix in _OPENERS:
            return _OPENERS[path.suffix](path, "rt", encoding=encoding, newline="")
        if path.suffix in (".zst", ".snappy", ".lz4", ".deflate", ".xz"):
            raise Refusal(
                "UNREADABLE_FILE",
                f"{path.name} is packed as {path.suffix}, which these pages do not unpack",
                file=path.name,
                hint="A load may read it all the same. Describe the source in YAML, or deliver it as .gz.",
            )
        return path.open(encoding=encoding, newline="")
    except OSError as error:
        raise unreadable(path, error) from error


def _lines(stream: TextIO, path: Path, encoding: str) -> Iterator[str]:
    """Yield lines until too much was read. The BOM is removed from the first one."""
    taken = 0
    try:
        while taken < MOST_CHARACTERS and (line := stream.readline(MOST_CHARACTERS)):
            yield line.removeprefix("\ufeff") if taken == 0 else line
            taken += len(line)
    except UnicodeDecodeError as error:
        raise Refusal(
            "WRONG_ENCODING",
            f"{path.name} is not {encoding}: the bytes {error.object[error.start : error.start + 4].hex(' ')} "
            "are no character there",
            file=path.name,
            hint="Say the file's encoding above; windows-1252 and ISO-8859-1 are common.",
        ) from None
    except _UNREADABLE as error:
        raise unreadable(path, error) from error


def unreadable(path: Path, error: Exception) -> Refusal:
    said = getattr(error, "strerror", None) or str(error)
    return Refusal(
        "UNREADABLE_FILE",
        f"{path.name} cannot be read: {said[:300]}",
        file=path.name,
        hint="Check that the file is whole, that its ending says how it is packed, and who may read it.",
    )


def _names(path: Path, header: list[str]) -> list[str]:
    names = [field.strip() or f"(column {place})" for place, field in enumerate(header, start=1)]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{path.name}: the header names {', '.join(twice[:5])} more than once",
            file=path.name,
            row=1,
            column=twice[0],
            count=len(twice),
            hint="Every column needs a name of its own: ask for another delivery, or say that the file has no header.",
        )
    return names


def _nulls(options: dict[str, Any], *, empty_is_null: bool) -> frozenset[str]:
    """Return the texts that mean NULL."""
    empty = [""] if options.get("empty_is_null", empty_is_null) else []
    return frozenset([*empty, *([options["null_string"]] if options.get("null_string") else [])])


def _values(record: list[str], nulls: frozenset[str]) -> list[Value]:
    return [None if value in nulls else value for value in record]


def _empty(path: Path) -> Refusal:
    return Refusal(
        "EMPTY_FILE",
        f"{path.name} is empty: it has nothing that would name its columns",
        file=path.name,
        hint="A delivery without rows still names its columns in its first line.",
    )


def _ragged(path: Path, line: int, record: list[str], names: list[str], delimiter: str) -> Refusal:
    other = next((sign for sign in _DELIMITERS if sign != delimiter and len(names) == 1 and sign in names[0]), "")
    hint = "A field that holds the delimiter or a line end must be in quotes. Is the delimiter right?"
    if other:
        hint = f"The header has {other!r} in it: is that the delimiter?"
    return Refusal(
        "RAGGED_ROW",
        f"{path.name}, line {line}: {counted(len(record), 'field')}, where the header has {len(names)}",
        file=path.name,
        row=line,
        samples=(delimiter.join(record)[:80],),
        hint=hint,
    )


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        found = strict_json.loads(line, parse_int=_Number, parse_float=_Number)
    except strict_json.BadJson as error:
        message = str(error)
    else:
        if isinstance(found, dict):
            return found
        message = "it is no object"
    raise Refusal(
        "BAD_JSON",
        f"{path.name}, line {number}: not one JSON object ({message})",
        file=path.name,
        row=number,
        samples=(line.strip()[:80],),
        hint="JSON lines hold one object per line, from { to }.",
    )


def text_of(value: Any) -> Value:
    """Return a value of a JSON object as a load reads it: text as it is, all else as it is written."""
    if value is None or isinstance(value, str):
        return None if value is None else str(value)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


# The csv module refuses fields above 128 kB by default; a description may well be longer.
csv.field_size_limit(io.DEFAULT_BUFFER_SIZE * 256)


# Columns of a Parquet file from its footer, and its first rows.


_KINDS = (
    (pa.types.is_boolean, data_types.BOOLEAN),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width + _unsigned(kind) <= 32, data_types.INTEGER),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width + _unsigned(kind) <= 64, data_types.BIGINT),
    (pa.types.is_floating, data_types.FLOAT),
    (pa.types.is_date, data_types.DATE),
    (pa.types.is_timestamp, data_types.TIMESTAMP),
    (pa.types.is_time, data_types.TIME),
    (
        lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind),
        data_types.STRING,
    ),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind),
        data_types.BINARY,
    ),
    (pa.types.is_nested, data_types.JSON),
)


def read_parquet(path: Path, rows: int = ROWS) -> tuple[list[tuple[str, str, DataType | None]], list[list[Value]], int]:
    """Return (name, the file's own type, ours or None) per column, columns of values as text, and the number of rows.

    Raise Refusal UNREADABLE_FILE.
    """
    try:
        with pq.ParquetFile(path) as file:
            schema, total = file.schema_arrow, file.metadata.num_rows
            batch = next(file.iter_batches(batch_size=rows), None) if total else None
            found = [column.to_pylist() for column in batch.columns] if batch is not None else [[] for _ in schema]
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    columns = [(field.name, str(field.type), data_type(field.type)) for field in schema]
    return columns, [[_text(value) for value in column] for column in found], total


def data_type(kind: pa.DataType) -> DataType | None:
    """Return our type for one of Arrow's; None where the warehouse has none."""
    if pa.types.is_dictionary(kind):
        return data_type(kind.value_type)
    if pa.types.is_decimal(kind):
        fits = kind.precision <= MAX_PRECISION and 0 <= kind.scale <= kind.precision
        return DataType(data_types.DECIMAL, precision=kind.precision, scale=kind.scale) if fits else None
    if kind == pa.uint64():
        return DataType(data_types.DECIMAL, precision=20, scale=0)
    return next((DataType(name) for fits, name in _KINDS if fits(kind)), None)


def _unsigned(kind: pa.DataType) -> int:
    """Return 1 for an unsigned type: only a signed type with one more bit holds it."""
    return 1 if pa.types.is_unsigned_integer(kind) else 0


def _text(value: Any) -> Value:
    match value:
        case None | str():
            return value
        case bool():
            return "true" if value else "false"
        case datetime() | date() | time():
            return value.isoformat()
        case bytes():
            return value.hex()
        case Decimal():
            return format(value, "f")
        case dict() | list():
            return json.dumps(value, default=str, ensure_ascii=False)
    return str(value)
