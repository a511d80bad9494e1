"""Columns of a Parquet file from its footer, and its first rows."""

import json
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from loader.domain.sources.sampling import Value
from loader.sources.text_files import ROWS, unreadable
from metadata.domain import types as ours
from metadata.domain.types import MAX_PRECISION, DataType

_KINDS = (
    (pa.types.is_boolean, ours.BOOLEAN),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width + _unsigned(kind) <= 32, ours.INTEGER),
    (lambda kind: pa.types.is_integer(kind) and kind.bit_width + _unsigned(kind) <= 64, ours.BIGINT),
    (pa.types.is_floating, ours.FLOAT),
    (pa.types.is_date, ours.DATE),
    (pa.types.is_timestamp, ours.TIMESTAMP),
    (pa.types.is_time, ours.TIME),
    (lambda kind: pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind), ours.STRING),
    (
        lambda kind: pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind),
        ours.BINARY,
    ),
    (pa.types.is_nested, ours.JSON),
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
        return DataType(ours.DECIMAL, precision=kind.precision, scale=kind.scale) if fits else None
    if kind == pa.uint64():
        return DataType(ours.DECIMAL, precision=20, scale=0)
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
