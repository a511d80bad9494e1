"""Plain deliveries as Arrow tables: CSV of RFC 4180, and Parquet with the declared types."""

import csv
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import StringIO
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from loader.domain.reference.values import DoesNotFit, typed
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.domain.sources.repeated_headers import repeats_header
from loader.engine.arrow.parquet_files import NotPlain, arrow_type, check_years, microseconds
from metadata.domain import types as data_types
from metadata.domain.types import DataType, parse

CSV, PARQUET = "csv", "parquet"
# Maximum bytes of the files of a small table.
_LARGEST = 16_000_000
# Errors of pyarrow for broken files; a footer may have names that are not UTF-8.
_BROKEN = (OSError, ValueError, pa.ArrowException)
# Characters that Spark's reader or the general load treat specially: byte order mark, replacement character, NUL, and
# the private character that marks absent fields.
_SPECIAL = ("\ufeff", "\ufffd", "\0", "\ue000")


@dataclass(frozen=True)
class DeliveredFile:
    """Local file with the size and the time of the last write (ms) that were listed; ``name`` is its name in raw."""

    path: str
    size: int
    written: int
    name: str = ""


@dataclass(frozen=True)
class Column:
    """Declared column of a delivery; ``required``: it has a value in every row."""

    name: str
    type: str
    required: bool = False


@dataclass(frozen=True)
class Delivery:
    """Files of one delivery in CSV (with a header, in UTF-8, quoted by ``"``) or Parquet."""

    format: str
    files: tuple[DeliveredFile, ...]
    columns: tuple[Column, ...]
    delimiter: str = ","

    def check_unchanged(self) -> None:
        """Raise NotPlain if a file was changed since it was listed."""
        for file in self.files:
            status = os.stat(file.path)
            if (status.st_size, status.st_mtime_ns // 1_000_000) != (file.size, file.written):
                raise NotPlain(f"{file.path} was written while it was read")


def read_delivery(delivery: Delivery, limit: int) -> pa.Table:
    """Return the rows with the declared columns and types, and their provenance. Raise NotPlain for any other one."""
    if sum(file.size for file in delivery.files) > _LARGEST:
        raise NotPlain("the files are not small")
    read = _csv_rows if delivery.format == CSV else _parquet_rows
    table = pa.concat_tables([_with_provenance(read(delivery, file, limit), file) for file in delivery.files])
    if table.num_rows > limit:
        raise NotPlain(f"{table.num_rows} rows")
    for column in delivery.columns:
        if column.required and table[column.name].null_count:
            raise NotPlain(f"no value in {column.name}")
        check_years(table[column.name])
    return table


def _with_provenance(rows: pa.Table, file: DeliveredFile) -> pa.Table:
    count = rows.num_rows
    names = pa.repeat(pa.scalar(file.name, pa.string()), count)
    numbers = pa.array(range(1, count + 1), pa.int64())
    return rows.append_column(SOURCE_FILE, names).append_column(SOURCE_ROW, numbers)


def _csv_rows(delivery: Delivery, file: DeliveredFile, limit: int) -> pa.Table:
    with open(file.path, "rb") as stream:
        raw = stream.read()
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise NotPlain("it is not UTF-8") from None
    if any(character in text for character in _SPECIAL) or not _grammar(delivery.delimiter).fullmatch(text):
        raise NotPlain("it is not CSV of the plain kind")
    csv.field_size_limit(_LARGEST)
    records = csv.reader(StringIO(text, newline=""), delimiter=delivery.delimiter, strict=True)
    header = next(records, [])
    names = [column.name for column in delivery.columns]
    if sorted(header) != sorted(names):
        raise NotPlain("the header has other columns than the contract")
    rows = list(records)
    if len(rows) > limit or any(len(row) != len(header) for row in rows):
        raise NotPlain("a row has another number of fields, or there are too many rows")
    if any(repeats_header(row, header) for row in rows):
        raise NotPlain("a row repeats the header")
    if not all(map(any, rows)):
        raise NotPlain("a record has no value")
    fields = dict(zip(header, zip(*rows, strict=True) if rows else [()] * len(header), strict=True))
    return pa.table({column.name: _typed_array(fields[column.name], parse(column.type)) for column in delivery.columns})


def _grammar(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of records with correct quotes and line ends, and without blank lines."""
    separator = re.escape(delimiter)
    field = rf'(?:"(?:[^"]|"")*+"|[^"{separator}\r\n]*+)'
    record = rf"(?!\r?\n){field}(?:{separator}{field})*+"
    return re.compile(rf"(?:{record}(?:\r?\n|\Z))*+")


def _typed_array(texts: tuple[str, ...], type_: DataType) -> pa.Array:
    value_of = _reader(type_)
    try:
        return pa.array(list(map(value_of, texts)), arrow_type(type_))
    except (DoesNotFit, OverflowError):
        raise NotPlain(f"a value does not fit {type_}") from None


def _reader(type_: DataType) -> Callable[[str], Any]:
    """Return a function that converts a field; it converts each text once."""
    values: dict[str, Any] = {"": None}

    def value_of(text: str) -> Any:
        if text not in values:
            values[text] = typed(text, type_)
        return values[text]

    return value_of


def _parquet_rows(delivery: Delivery, file: DeliveredFile, limit: int) -> pa.Table:
    try:
        # Checksums of pages are verified where a file has them.
        stored = pq.ParquetFile(file.path, coerce_int96_timestamp_unit="us", page_checksum_verification=True)
    except _BROKEN:
        raise NotPlain("it is not Parquet of the plain kind") from None
    if sorted(stored.schema_arrow.names) != sorted(column.name for column in delivery.columns):
        raise NotPlain("the file has other columns than the contract")
    if stored.metadata.num_rows > limit:
        raise NotPlain(f"{stored.metadata.num_rows} rows")
    try:
        table = stored.read()
        table.validate(full=True)  # texts that are not UTF-8
    except _BROKEN:
        raise NotPlain("it is not Parquet of the plain kind") from None
    return pa.table({c.name: _with_type(table[c.name], parse(c.type)) for c in delivery.columns})


def _with_type(values: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    wanted = arrow_type(type_)
    values = microseconds(values)
    if values.type != wanted:
        raise NotPlain(f"{values.type} is delivered for {type_}")
    if wanted == pa.string() and type_.name != data_types.STRING:
        return _check_format(values, type_)
    if type_.length is not None and (pc.max(pc.utf8_length(values)).as_py() or 0) > type_.length:
        raise NotPlain(f"a text is longer than {type_}")
    return values


def _check_format(values: pa.ChunkedArray, type_: DataType) -> pa.ChunkedArray:
    """Return texts of a type with a format, like times. Raise NotPlain for a misfit, or blanks around a value."""
    for text in _texts(values):
        try:
            if typed(text, type_) != text:
                raise NotPlain(f"blanks around a value of type {type_}")
        except DoesNotFit:
            raise NotPlain(f"a value does not fit {type_}") from None
    return values


def _texts(values: pa.ChunkedArray) -> Iterator[str]:
    return (text for text in pc.unique(values).to_pylist() if text is not None)
