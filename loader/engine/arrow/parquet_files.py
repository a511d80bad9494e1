"""Parquet files of Delta tables: reading, and writing with the statistics for the Delta log."""

import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from metadata.domain import types as data_types
from metadata.domain.types import DataType, parse

_ARROW = {
    data_types.INTEGER: pa.int32(),
    data_types.BIGINT: pa.int64(),
    data_types.FLOAT: pa.float64(),
    data_types.BOOLEAN: pa.bool_(),
    data_types.DATE: pa.date32(),
    data_types.TIMESTAMP: pa.timestamp("us", "UTC"),
    data_types.BINARY: pa.binary(),
}
_PRIVATE_FILE, _PRIVATE_FOLDER = stat.S_IRUSR | stat.S_IWUSR, stat.S_IRWXU
# Older writers store earlier times in another way, and some readers still expect that.
_ANCIENT = date(1900, 1, 1)
_EPOCH = date(1970, 1, 1)
_MICROSECONDS_OF_DAY = 86_400_000_000
# Delta truncates longer texts in its statistics by rules of its own.
_LONGEST_TEXT = 32


class NotPlain(Exception):
    """Error raised for a case that the general load must handle; no file of a table was changed."""


@dataclass(frozen=True)
class Field:
    """Column of a table: name, type in the metadata, and name and id in the files."""

    name: str
    type: str
    stored_name: str
    number: int | None = None
    nullable: bool = True


@dataclass(frozen=True)
class Table:
    """Table in a local folder; ``partition_by`` are column names."""

    folder: str
    fields: tuple[Field, ...]
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class StoredFile:
    """Data file of a table, with its partition values by stored name."""

    path: str
    partition: Mapping[str, str | None]


def arrow_type(type_: DataType) -> pa.DataType:
    """Return the Arrow type of stored values; types that are stored as text are strings."""
    if type_.name == data_types.DECIMAL:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW.get(type_.name, pa.string())


def microseconds(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert timestamps to microseconds in UTC, and large strings to strings; return other values unchanged."""
    if pa.types.is_timestamp(values.type) and values.type.unit in ("us", "ms") and values.type.tz in (None, "UTC"):
        return values.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_large_string(values.type):
        return values.cast(pa.string())
    return values


def check_years(values: pa.ChunkedArray) -> None:
    """Raise NotPlain for a date or time before 1900, or after the year 9999."""
    if not pa.types.is_temporal(values.type) or values.null_count == len(values):
        return
    # Compared as numbers: Python cannot hold some of them.
    is_date = pa.types.is_date(values.type)
    unit, number = (1, pa.int32()) if is_date else (_MICROSECONDS_OF_DAY, pa.int64())
    bounds = pc.min_max(values.cast(number))
    if bounds["min"].as_py() < (_ANCIENT - _EPOCH).days * unit:
        raise NotPlain(f"a time before {_ANCIENT}")
    if bounds["max"].as_py() >= ((date.max - _EPOCH).days + 1) * unit:
        raise NotPlain("a time after the year 9999")


def read_rows(table: Table, files: Iterable[StoredFile], limit: int, columns: Sequence[str] | None = None) -> pa.Table:
    """Return the rows of these files with the table's columns; columns that a file lacks are NULL.

    Raise NotPlain if there are more than ``limit``.
    """
    fields = [field for field in table.fields if columns is None or field.name in columns]
    schema = pa.schema([(field.name, arrow_type(parse(field.type))) for field in fields])
    parts, rows = [schema.empty_table()], 0
    for file in files:
        stored = pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us")
        rows += stored.metadata.num_rows
        if rows > limit:
            raise NotPlain(f"more than {limit} stored rows")
        present = set(stored.schema_arrow.names)
        read = stored.read([field.stored_name for field in fields if field.stored_name in present])
        arrays = [_column(read, field, schema.field(field.name).type, file.partition) for field in fields]
        parts.append(pa.table(arrays, schema=schema))
    return pa.concat_tables(parts)


def _column(read: pa.Table, field: Field, type_: pa.DataType, partition: Mapping[str, str | None]) -> Any:
    if field.stored_name in partition:
        return pa.array([partition[field.stored_name]] * read.num_rows, type_)
    if field.stored_name not in read.column_names:
        return pa.nulls(read.num_rows, type_)
    return microseconds(read[field.stored_name]).cast(type_)


def write_rows(table: Table, rows: pa.Table, partition: Mapping[str, str] | None = None) -> list[str]:
    """Write the rows as one file and return its ``add`` action as JSON. Without rows, write and return nothing.

    Columns that ``rows`` lacks are NULL. ``partition`` has the value of each partition column, by name.
    """
    if not rows.num_rows:
        return []
    partition = partition or {}
    fields = [field for field in table.fields if field.name not in partition]
    stored = pa.table([_values(rows, field) for field in fields], schema=pa.schema([_file_field(f) for f in fields]))
    by_name = {field.name: field.stored_name for field in table.fields}
    folders = [f"{by_name[name]}={value}" for name, value in partition.items()]
    name = f"part-00000-{uuid4()}-c000.snappy.parquet"
    folder = os.path.join(table.folder, *folders)
    os.makedirs(folder, mode=_PRIVATE_FOLDER, exist_ok=True)
    path = os.path.join(folder, name)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE_FILE), "wb") as file:
        pq.write_table(stored, file, store_schema=False, coerce_timestamps="us", store_decimal_as_integer=True)
    action = {
        "path": quote("/".join([*folders, name]), safe="/="),
        "partitionValues": {by_name[name]: value for name, value in partition.items()},
        "size": os.path.getsize(path),
        "modificationTime": int(time.time() * 1000),
        "dataChange": True,
        "stats": json.dumps(statistics(stored)),
    }
    return [json.dumps({"add": action})]


def _values(rows: pa.Table, field: Field) -> Any:
    type_ = arrow_type(parse(field.type))
    present = field.name in rows.column_names
    values = rows[field.name].cast(type_) if present else pa.nulls(rows.num_rows, type_)
    if not field.nullable and values.null_count:
        raise NotPlain(f"no value in {field.name}")
    return values


def _file_field(field: Field) -> pa.Field:
    number = {} if field.number is None else {"PARQUET:field_id": str(field.number)}
    return pa.field(field.stored_name, arrow_type(parse(field.type)), field.nullable, number)


def statistics(rows: pa.Table) -> dict[str, Any]:
    """Return Delta's statistics of a file: number of rows, NULLs, and the least and greatest values.

    Only types whose values all readers compare in the same way have bounds. Raise NotPlain for a time before 1900.
    """
    lowest, highest = {}, {}
    for name, values in zip(rows.column_names, rows.columns, strict=True):
        check_years(values)
        if not _is_bounded(values):
            continue
        bounds = pc.min_max(values)
        lowest[name], highest[name] = _bound(bounds["min"].as_py(), 0), _bound(bounds["max"].as_py(), 999)
    return {
        "numRecords": rows.num_rows,
        "minValues": lowest,
        "maxValues": highest,
        "nullCount": {name: rows[name].null_count for name in rows.column_names},
        "tightBounds": True,
    }


def _is_bounded(values: pa.ChunkedArray) -> bool:
    if values.null_count == len(values):
        return False
    if pa.types.is_string(values.type):
        return pc.max(pc.utf8_length(values)).as_py() <= _LONGEST_TEXT
    return pa.types.is_integer(values.type) or pa.types.is_temporal(values.type)


def _bound(value: Any, more: int) -> Any:
    """Return a bound as JSON. Instants are rounded to milliseconds: down, or up if ``more`` is 999 microseconds."""
    if isinstance(value, datetime):
        milliseconds = (value.astimezone(UTC).microsecond + more) // 1000
        rounded = value.astimezone(UTC).replace(microsecond=0)
        seconds, rest = divmod(milliseconds, 1000)
        instant = datetime.fromtimestamp(rounded.timestamp() + seconds, UTC)
        return f"{instant:%Y-%m-%dT%H:%M:%S}.{rest:03d}Z"
    return value.isoformat() if isinstance(value, date) else value
