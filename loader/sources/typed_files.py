"""Columns and first rows of Parquet and ORC files, with the types that the files declare."""

import json
import os
from base64 import b64encode
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import dataset, orc

from loader.contract.refusals import Refusal
from loader.domain.sources.sampling import Value
from loader.readers.records.headers import check_typed_names
from loader.readers.records.parquet_columns import ERRORS as PARQUET_ERRORS
from loader.readers.records.parquet_columns import (
    ParquetColumn,
    ParquetFooter,
    footer_of_end,
    open_parquet,
    read_columns,
)
from loader.readers.records.parquet_footers import ENDING
from loader.readers.records.plain_values import UnreadableType, far_rows, plain_column, undecoded_rows
from loader.sources.text_files import ROWS, unreadable
from metadata.domain import types as data_types
from metadata.domain.types import MAX_PRECISION, DataType

_LARGEST_ROWS = 256 << 20  # bytes of the rows of a sample, unpacked
FAR, UNDECODED = "a date outside of the years 1 to 9999", "a text that is not UTF-8"
# Name, the file's type, data type or None, and why the column cannot be taken, of a column.
Described = tuple[str, str, DataType | None, str]


@dataclass(frozen=True)
class TypedRows:
    """First rows of a file: its columns, and each column's values as text."""

    columns: list[Described]
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
    """Return the first rows of a Parquet file. Raise Refusal UNREADABLE_FILE, DUPLICATE_COLUMN or TOO_LARGE."""
    try:
        with open_parquet(path) as file:
            total, declared = file.metadata.num_rows, {field.name: field.type for field in file.schema_arrow}
            _check_size(path, file.metadata, rows)
    except PARQUET_ERRORS as error:
        raise unreadable(path, error) from error
    footer = _footer(path)
    columns = [_parquet_column(column, declared[column.name]) for column in footer.columns]
    names = [column.name for column in footer.columns if column.type is not None]
    with path.open("rb") as stored:
        read, count = next(read_columns(stored, path.name, names, rows), ([], 0))
    plain = {name: column.values for name, column in zip(names, read, strict=bool(read))}
    values: list[list[Value]]
    values = [_values(plain[name]) if name in plain else [None] * count for name, _, _, _ in columns]
    problems = {name: _problem_of_values(array) for name, array in plain.items()}
    described = [(name, shown, kind, problem or problems.get(name, "")) for name, shown, kind, problem in columns]
    return TypedRows(described, values, count == total)


def _footer(path: Path) -> ParquetFooter:
    """Return the footer of a file. Raise Refusal UNREADABLE_FILE or DUPLICATE_COLUMN."""
    with path.open("rb") as stored:
        stored.seek(-min(path.stat().st_size, ENDING), os.SEEK_END)
        length = int.from_bytes(stored.read(4), "little") + ENDING
        stored.seek(-min(path.stat().st_size, length), os.SEEK_END)
        return footer_of_end(stored.read(), path.name)


def _check_size(path: Path, metadata: Any, rows: int) -> None:
    """Raise Refusal TOO_LARGE if the first rows of a file, unpacked, would take too much memory."""
    if not metadata.num_row_groups or not metadata.num_rows:
        return
    first = metadata.row_group(0)
    size = first.total_byte_size // max(1, first.num_rows) * min(rows, first.num_rows)
    if size > _LARGEST_ROWS:
        raise Refusal(
            "TOO_LARGE",
            f"{path.name}: its first {min(rows, first.num_rows):,} rows take {size >> 20:,} MB, more than the "
            f"{_LARGEST_ROWS >> 20} MB that these pages read",
            file=path.name,
            count=_LARGEST_ROWS,
            hint="Describe the source in YAML, or by a file with smaller rows.",
        )


def _parquet_column(column: ParquetColumn, declared: pa.DataType) -> Described:
    if column.type is None:
        return column.name, column.declared, None, f"it is {column.problem}"
    return column.name, column.declared, data_type(declared if _is_own(declared) else column.type), ""


def _is_own(declared: pa.DataType) -> bool:
    """Return True for times of day and durations, whose values are of a type that does not tell it."""
    return pa.types.is_time(declared) or pa.types.is_duration(declared)


def read_orc(path: Path, rows: int = ROWS) -> TypedRows:
    """Return the first rows of an ORC file, without reading its first stripe whole.

    Raise Refusal UNREADABLE_FILE or DUPLICATE_COLUMN.
    """
    try:
        with path.open("rb") as stored:
            file = orc.ORCFile(stored)
            schema, total = file.schema, file.nrows
        head = dataset.dataset(path, format="orc").scanner(batch_size=rows).head(rows)
    except (OSError, pa.ArrowException) as error:
        raise unreadable(path, error) from error
    check_typed_names(path.name, schema.names)
    columns: list[Described] = []
    values: list[list[Value]] = []
    for field in schema:
        array = head[field.name].combine_chunks() if head.num_rows else pa.array([], field.type)
        try:
            plain = plain_column(array).values
        except UnreadableType as reason:
            columns.append((field.name, str(field.type), None, f"it is {reason}"))
            values.append([None] * len(array))
            continue
        columns.append((field.name, str(field.type), data_type(field.type), _problem_of_values(plain)))
        values.append(_values(plain))
    return TypedRows(columns, values, head.num_rows == total)


def _values(plain: pa.Array) -> list[Value]:
    """Return values as text; those that Python cannot hold stay empty (``_problem_of_values``)."""
    unheld = pc.or_(far_rows(plain), undecoded_rows(plain)).to_pylist()
    values = zip(plain, unheld, strict=True)
    return [None if is_unheld else text_of_typed(_with_maps(value.as_py(), plain.type)) for value, is_unheld in values]


def _with_maps(value: Any, kind: pa.DataType) -> Any:
    """Return a value of Arrow with its maps, which are lists of pairs, as a load writes them to JSON."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_struct(kind):
        return {part.name: _with_maps(value[part.name], part.type) for part in kind}
    if not pa.types.is_map(kind):
        return [_with_maps(part, kind.value_type) for part in value]
    entries = [(_with_maps(key, kind.key_type), _with_maps(part, kind.item_type)) for key, part in value]
    if pa.types.is_nested(kind.key_type):
        return [{"key": key, "value": part} for key, part in entries]
    return {_key_text(key): part for key, part in entries}


def _key_text(key: Any) -> Value:
    match key:
        case datetime():
            return key.isoformat(timespec="microseconds").replace("+00:00", "Z")
        case bytes():
            return b64encode(key).decode()
    return text_of_typed(key)


def _problem_of_values(plain: pa.Array) -> str:
    """Return the problem of a column with a date outside of the years 1 to 9999, or with bytes that are no text."""
    for rows, problem in ((far_rows(plain), FAR), (undecoded_rows(plain), UNDECODED)):
        marks = rows.to_pylist()
        if True in marks:
            return f"row {marks.index(True) + 1} has {problem}"
    return ""


def data_type(kind: pa.DataType) -> DataType | None:
    """Return the data type for an Arrow type; None if the warehouse has none."""
    if pa.types.is_dictionary(kind):
        return data_type(kind.value_type)
    if pa.types.is_decimal(kind):
        return decimal_type(kind.precision, kind.scale)
    if kind == pa.uint64():
        return DataType(data_types.DECIMAL, precision=20, scale=0)
    return next((DataType(name) for fits, name in _KINDS if fits(kind)), None)


def decimal_type(precision: int, scale: int) -> DataType | None:
    fits = precision <= MAX_PRECISION and 0 <= scale <= precision
    return DataType(data_types.DECIMAL, precision=precision, scale=scale) if fits else None


def _extra_bits(kind: pa.DataType) -> int:
    """Return 1 for an unsigned type: only a signed type with one more bit holds it."""
    return 1 if pa.types.is_unsigned_integer(kind) else 0


def text_of_typed(value: Any) -> Value:
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
            return json.dumps(value, default=_inner, ensure_ascii=False)
    return str(value)


def _inner(value: Any) -> Any:
    """Return a value inside of a nested one for JSON."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    is_whole = isinstance(value, Decimal) and value == value.to_integral_value()
    return int(value) if is_whole else text_of_typed(value)
