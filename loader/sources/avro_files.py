"""Columns and first rows of Avro files, with the types that their schemas declare."""

import bz2
import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
from fastavro import _read as fastavro_read

from loader.domain.sources.sampling import Value
from loader.readers.records.avro_schemas import AvroSchema, kind_of, logical_of
from loader.sources.page_limits import LARGEST_READ
from loader.sources.text_files import ROWS, too_large_for_pages, unreadable
from loader.sources.typed_files import FAR, UNDECODED, Described, TypedRows, decimal_type, text_of_typed
from metadata.domain import types as data_types
from metadata.domain.types import DataType

_TYPES = {
    "boolean": data_types.BOOLEAN,
    "int": data_types.INTEGER,
    "long": data_types.BIGINT,
    "float": data_types.FLOAT,
    "double": data_types.FLOAT,
    "string": data_types.STRING,
    "enum": data_types.STRING,
    "null": data_types.STRING,
    "bytes": data_types.BINARY,
    "fixed": data_types.BINARY,
    "date": data_types.DATE,
    "time-millis": data_types.TIME,
    "time-micros": data_types.TIME,
    "timestamp-millis": data_types.TIMESTAMP,
    "timestamp-micros": data_types.TIMESTAMP,
    "timestamp-nanos": data_types.TIMESTAMP,
    "local-timestamp-millis": data_types.TIMESTAMP,
    "local-timestamp-micros": data_types.TIMESTAMP,
    "local-timestamp-nanos": data_types.TIMESTAMP,
}
_PER_SECOND = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
_FIRST_DAY = date(1970, 1, 1).toordinal()
_ERRORS = (
    OSError,
    ValueError,
    EOFError,
    LookupError,
    TypeError,
    pa.ArrowException,
    zlib.error,
    lzma.LZMAError,
    fastavro.schema.SchemaParseException,
)


# Stands for a byte that is no part of a character.
_HALF = re.compile("[\udc80-\udcff]")


class _Far(str):
    """Text of a date or timestamp outside of the years 1 to 9999."""


class _LargeBlock(Exception):
    """Error for a block of more than LARGEST_READ bytes, packed or unpacked."""


def read_avro(path: Path, rows: int = ROWS) -> TypedRows:
    """Return the first rows of an Avro file.

    Raise Refusal UNREADABLE_FILE, TOO_LARGE, NOT_RECORDS or DUPLICATE_COLUMN.
    """
    try:
        with path.open("rb") as stored:
            reader = fastavro.reader(stored, handle_unicode_errors="surrogateescape")
            schema = AvroSchema.of(reader.metadata["avro.schema"], path.name)
            records: list[Any] = list(islice(reader, rows + 1))
    except _LargeBlock:
        raise too_large_for_pages(path, LARGEST_READ) from None
    except _ERRORS as error:
        raise unreadable(path, error) from error
    columns = [_described(schema, part, records[:rows]) for part in schema.fields]
    values = [[_text(record.get(name)) for record in records[:rows]] for name, _, _, _ in columns]
    return TypedRows(columns, values, len(records) <= rows)


def _text(value: Any) -> Value:
    return None if _has_undecoded(value) else text_of_typed(value)


def _described(schema: AvroSchema, part: dict[str, Any], records: list[dict[str, Any]]) -> Described:
    name, problem = part["name"], schema.problem(part["type"])
    declared, known_type = _type_of(schema, part["type"])
    if problem:
        return name, declared, None, f"it is {problem}"
    for has_problem, words in ((_has_far, FAR), (_has_undecoded, UNDECODED)):
        row = next((row for row, record in enumerate(records, 1) if has_problem(record.get(name))), None)
        if row is not None:
            return name, declared, known_type, f"row {row} has {words}"
    return name, declared, known_type, ""


def _type_of(schema: AvroSchema, kind: Any) -> tuple[str, DataType | None]:
    """Return the file's name of a type, and the data type; a union with null is its other type."""
    members = schema.members(kind)
    if len(members) > 1:
        return "union", DataType(data_types.JSON)
    (kind,) = members or ["null"]
    logical, base = logical_of(kind), kind_of(kind)
    if logical == "decimal":
        precision, scale = kind["precision"], kind.get("scale", 0)
        return f"decimal({precision},{scale})", decimal_type(precision, scale)
    name = logical if logical in _TYPES else base
    return name, DataType(_TYPES.get(name, data_types.JSON))


def _has_far(value: Any) -> bool:
    return any(isinstance(part, _Far) for part in _parts(value))


def _has_undecoded(value: Any) -> bool:
    return any(isinstance(part, str) and _HALF.search(part) for part in _parts(value))


def _parts(value: Any) -> Iterator[Any]:
    """Yield the values that a value consists of, with the names of maps; the value itself if it has no parts."""
    parts = [*value, *value.values()] if isinstance(value, dict) else value
    if not isinstance(parts, list):
        yield value
        return
    for part in parts:
        yield from _parts(part)


# Readers of values and blocks in place of fastavro's, which has no dates beyond Python's and no nanoseconds, changes
# the text of UUIDs, needs further packages for some compressions, and unpacks blocks of any size.
def _date(days: int, *_: Any) -> date | _Far:
    try:
        return date.fromordinal(_FIRST_DAY + days)
    except (ValueError, OverflowError):
        return _Far(f"day {days} since 1970")


def _timestamp(unit: str, *, is_local: bool) -> Callable[..., datetime | _Far]:
    start = datetime(1970, 1, 1, tzinfo=None if is_local else UTC)

    def read(number: int, *_: Any) -> datetime | _Far:
        try:
            return start + timedelta(microseconds=number * 1_000_000 // _PER_SECOND[unit])
        except OverflowError:
            return _Far(f"{number} {unit} since 1970")

    return read


def _block_reader(new_decompressor: Callable[[], Any]) -> Callable[[Any], BytesIO]:
    """Return the reader of the blocks of a compression of Python's library."""

    def read(stored: Any) -> BytesIO:
        return _bounded(new_decompressor().decompress(_block(stored), LARGEST_READ + 1))

    return read


def _block(stored: Any) -> bytes:
    """Return the stored bytes of a block."""
    size = _length(stored)
    if size > LARGEST_READ:
        raise _LargeBlock
    return bytes(stored.read(size))


def _bounded(content: bytes) -> BytesIO:
    if len(content) > LARGEST_READ:
        raise _LargeBlock
    return BytesIO(content)


def _snappy(stored: Any) -> BytesIO:
    content = _block(stored)
    packed, checksum = content[:-4], content[-4:]
    size = _length(BytesIO(packed), is_signed=False)
    if size > LARGEST_READ:
        raise _LargeBlock
    plain = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(plain).to_bytes(4, "big") != checksum:
        raise ValueError("the checksum of a block is wrong")
    return BytesIO(plain)


def _zstandard(stored: Any) -> BytesIO:
    packed = BytesIO(_block(stored))
    return _bounded(pa.CompressedInputStream(packed, "zstd").read(LARGEST_READ + 1))


def _length(stored: Any, *, is_signed: bool = True) -> int:
    """Return a number of variable length: of Avro, whose sign is its last bit, or of snappy, without one."""
    number, shift = 0, 0
    while True:
        (part,) = stored.read(1) or _ended()
        number |= (part & 0x7F) << shift
        shift += 7
        if not part & 0x80:
            return number >> 1 if is_signed else number


def _ended() -> bytes:
    raise EOFError("the file ends within a block")


fastavro_read.BLOCK_READERS.update(
    {
        "null": lambda stored: BytesIO(_block(stored)),
        # The negative size of a window is that of a stream without a header.
        "deflate": _block_reader(lambda: zlib.decompressobj(-15)),
        "bzip2": _block_reader(bz2.BZ2Decompressor),
        "xz": _block_reader(lzma.LZMADecompressor),
        "snappy": _snappy,
        "zstandard": _zstandard,
    }
)
fastavro.read.LOGICAL_READERS.update(
    {"int-date": _date, "string-uuid": lambda text, *_: text}
    | {f"long-timestamp-{unit}": _timestamp(unit, is_local=False) for unit in _PER_SECOND}
    | {f"long-local-timestamp-{unit}": _timestamp(unit, is_local=True) for unit in _PER_SECOND}
)
