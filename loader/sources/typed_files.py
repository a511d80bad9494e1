"""Columns and first rows of Parquet, ORC and Avro files, with the types that the files declare."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import dataset, orc

from loader.domain.sources.sampling import Value
from loader.sources.text_files import ROWS, unreadable
from metadata.domain import types as data_types
from metadata.domain.types import MAX_PRECISION, DataType


@dataclass(frozen=True)
class TypedRows:
    """First rows of a file: (name, the file's type, data type or None) per column, and each column's values as text."""

    columns: list[tuple[str, str, DataType | None]]
    values: list[list[Value]]
    whole: bool


_KINDS = (
    (pa.types.is_boolean, data_types.BOOLEAN),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width + _extra_bits(kind) <= 32, data_types.INTEGER),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width + _extra_bits(kind) <= 64, data_types.BIGINT),
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


def read_parquet(path: Path, rows: int = ROWS) -> TypedRows:
    """Return the first rows of a Parquet file. Raise Refusal UNREADABLE_FILE."""
    try:
        with pq.ParquetFile(path) as file:
            schema, total = file.schema_arrow, file.metadata.num_rows
            batch = next(file.iter_batches(batch_size=rows), None) if total else None
            return _rows_of_batch(schema, batch, total, rows)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def read_orc(path: Path, rows: int = ROWS) -> TypedRows:
    """Return the first rows of an ORC file, without reading its first stripe whole. Raise Refusal UNREADABLE_FILE."""
    try:
        with path.open("rb") as stored:
            file = orc.ORCFile(stored)
            schema, total = file.schema, file.nrows
        head = dataset.dataset(path, format="orc").scanner(batch_size=rows).head(rows)
        return _rows_of_batch(schema, head, total, rows)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error


def _rows_of_batch(schema: pa.Schema, batch: pa.RecordBatch | pa.Table | None, total: int, rows: int) -> TypedRows:
    columns_of_batch = (
        [column.slice(0, rows).to_pylist() for column in batch.columns] if batch is not None else [[] for _ in schema]
    )
    columns = [(field.name, str(field.type), data_type(field.type)) for field in schema]
    values = [[_text(value) for value in column] for column in columns_of_batch]
    return TypedRows(columns, values, (len(values[0]) if values else 0) == total)


def data_type(kind: pa.DataType) -> DataType | None:
    """Return the data type for an Arrow type; None if the warehouse has none."""
    if pa.types.is_dictionary(kind):
        return data_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return _decimal(kind.precision, kind.scale)
    if kind == pa.uint64():
        return DataType(data_types.DECIMAL, precision=20, scale=0)
    return next((DataType(name) for fits, name in _KINDS if fits(kind)), None)


def _decimal(precision: int, scale: int) -> DataType | None:
    fits = precision <= MAX_PRECISION and 0 <= scale <= precision
    return DataType(data_types.DECIMAL, precision=precision, scale=scale) if fits else None


def _extra_bits(kind: pa.DataType) -> int:
    """Return 1 for an unsigned type: only a signed type with one more bit holds it."""
    return 1 if pa.types.is_unsigned_integer(kind) else 0


# Avro: the schema is JSON in the file's header, rows follow in blocks.


_AVRO = {
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
    "timestamp-millis": data_types.TIMESTAMP,
    "timestamp-micros": data_types.TIMESTAMP,
    "local-timestamp-millis": data_types.TIMESTAMP,
    "local-timestamp-micros": data_types.TIMESTAMP,
}


def read_avro(path: Path, rows: int = ROWS) -> TypedRows:
    """Return the first rows of an Avro file. Raise Refusal UNREADABLE_FILE."""
    try:
        with path.open("rb") as stored:
            reader = fastavro.reader(stored)
            fields = _avro_fields(reader.writer_schema)
            records = list(islice(_records(reader), rows + 1))
    except (OSError, ValueError, EOFError, LookupError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise unreadable(path, error) from error
    values = [[_text(record.get(name)) for record in records[:rows]] for name, _, _ in fields]
    return TypedRows(fields, values, len(records) <= rows)


def _records(reader: Any) -> Iterator[dict[str, Any]]:
    for record in reader:
        yield record if isinstance(record, dict) else {"value": record}


def _avro_fields(schema: Any) -> list[tuple[str, str, DataType | None]]:
    """Return the columns of a schema; one that is no record has one column ``value``, as in Spark."""
    if isinstance(schema, dict) and schema.get("type") == "record":
        return [(field["name"], *_avro_type(field["type"])) for field in schema["fields"]]
    return [("value", *_avro_type(schema))]


def _avro_type(kind: Any) -> tuple[str, DataType | None]:
    """Return the file's name of a type, and the data type; a union with null is its other type."""
    if isinstance(kind, list):
        others = [member for member in kind if member != "null"]
        return _avro_type(others[0]) if len(others) == 1 else ("union", DataType(data_types.JSON))
    if isinstance(kind, str):
        return kind, DataType(_AVRO.get(kind, data_types.JSON))
    logical, base = kind.get("logicalType", ""), kind.get("type")
    if logical == "decimal":
        return f"decimal({kind['precision']},{kind.get('scale', 0)})", _decimal(kind["precision"], kind.get("scale", 0))
    if logical in _AVRO:
        return logical, DataType(_AVRO[logical])
    return (base, DataType(_AVRO.get(base, data_types.JSON))) if isinstance(base, str) else _avro_type(base)


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
