"""Columns of Parquet files: which of two readers reads a file, and the values of the reader in Python.

Spark reads files of which it supports every type, encoding and compression. pyarrow reads the other files, in tasks,
and all files for the pages that show samples, so pages and loads decide by one rule. pyarrow's values are converted to
types that both readers have in common: geometries and unknown logical types are binary, half floats are floats,
unsigned numbers are wider signed ones, times of day are text, and timestamps have microseconds.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import islice
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from loader.readers.records.headers import check_typed_names
from loader.readers.records.parquet_footers import ColumnPart, column_parts
from loader.readers.records.plain_values import (
    INT96,
    UUID_LEAF,
    PlainColumn,
    RepeatedFields,
    UnreadableType,
    leaf_count,
    plain_column,
    plain_type,
)
from loader.readers.records.readers import LOCAL
from loader.readers.records.unpacking import unreadable

# Logical types that Spark's reader supports, by the physical type.
_READ_BY_SPARK = {
    "BOOLEAN": {"NONE"},
    "INT32": {"NONE", "INT", "DATE", "DECIMAL"},
    "INT64": {"NONE", "INT", "DECIMAL", "TIMESTAMP"},
    "INT96": {"NONE"},
    "FLOAT": {"NONE"},
    "DOUBLE": {"NONE"},
    "BYTE_ARRAY": {"NONE", "STRING", "ENUM", "JSON", "BSON"},
    "FIXED_LEN_BYTE_ARRAY": {"NONE", "DECIMAL"},
}
_NANOSECONDS = '"timeUnit":"nanoseconds"'
_SPARK_PRECISION = 38
# Numbers of the encodings PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY,
# DELTA_BYTE_ARRAY and RLE_DICTIONARY.
_ENCODINGS = {0, 2, 3, 4, 5, 6, 7, 8}
# Numbers of the compressions UNCOMPRESSED, SNAPPY, GZIP, ZSTD and LZ4_RAW.
_COMPRESSIONS = {0, 1, 2, 6, 7}
# Writer before Arrow 3.0, of whose packed pages of the second version the compression is not marked.
_FORMER_WRITER = "parquet-cpp version"
# Key of files with dates and times in the calendar before 1582, which Spark converts and pyarrow does not.
_FORMER_CALENDAR = b"org.apache.spark.legacyDateTime"
_ROWS = 10_000  # of a batch
ERRORS = (OSError, ValueError, pa.ArrowException)


@dataclass(frozen=True)
class ParquetColumn:
    """Column of a file: ``declared`` is the file's name of its type, ``type`` the type of its values.

    ``type`` is None if pyarrow has no values of this column; ``problem`` is the reason.
    """

    name: str
    declared: str
    type: pa.DataType | None
    problem: str = ""

    @property
    def is_time(self) -> bool:
        """Return True for times of day, whose values are text."""
        return self.declared.startswith("time3") or self.declared.startswith("time6")

    @property
    def may_be_cut(self) -> bool:
        """Return True if values, or parts of them, may have digits below microseconds."""
        return "[ns" in self.declared


@dataclass(frozen=True)
class ParquetFooter:
    """Columns of a file, and whether Spark's reader supports all of them."""

    columns: tuple[ParquetColumn, ...]
    read_by_spark: bool


def footer_of_end(end: bytes, shown: str) -> ParquetFooter:
    """Return the columns of a file by its footer and what follows it. Raise Refusal UNREADABLE_FILE, DUPLICATE_COLUMN.

    ``end`` may begin before the footer.
    """
    try:
        metadata = pq.read_metadata(BytesIO(end))
        parts = column_parts(end)
        fields = list(metadata.schema.to_arrow_schema())
        is_read_by_spark = _is_read_by_spark(metadata, parts)
        kinds, encrypted = _kinds_of_leaves(metadata, fields), _encrypted_leaves(metadata, parts)
    except ERRORS as error:
        raise unreadable(shown, str(error)) from error
    check_typed_names(shown, [field.name for field in fields])
    columns = []
    for field in fields:
        try:
            kind, problem = plain_type(field.type, kinds[field.name]), ""
        except UnreadableType as reason:
            kind, problem = None, str(reason)
            is_read_by_spark = is_read_by_spark and not isinstance(reason, RepeatedFields)
        if any(leaf == field.name or leaf.startswith(f"{field.name}.") for leaf in encrypted):
            kind, problem = None, "encrypted"
        columns.append(ParquetColumn(field.name, str(field.type), kind, problem))
    return ParquetFooter(tuple(columns), is_read_by_spark)


def open_parquet(stored: Any) -> pq.ParquetFile:
    """Return a file that is open for reading, with its checksums verified."""
    # Years that nanoseconds cannot hold come as other years, so timestamps of 96 bits are read as microseconds.
    return pq.ParquetFile(stored, coerce_int96_timestamp_unit="us", page_checksum_verification=True)


@dataclass(frozen=True)
class ParquetReading:
    """Reader of wanted columns in Spark tasks. A file is (path with scheme, content); of a local file, None.

    Columns that a file lacks are not read: a group has files with the same columns.
    """

    names: tuple[str, ...]

    def batches(self, files: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield (URI, row number, values, marks of cut values) of the rows of these files."""
        for batch in files:
            for file in batch.to_pylist():
                yield from self._batches_of(file["path"], file["content"])

    def _batches_of(self, path: str, content: bytes | None) -> Iterator[pa.RecordBatch]:
        shown, number = path.removeprefix(LOCAL), 1
        with BytesIO(content) if content is not None else open(shown, "rb") as stored:
            for columns, count in read_columns(stored, shown, self.names):
                numbers = pa.array(range(number, number + count), pa.int64())
                uris = pa.repeat(pa.scalar(quote(path, safe="/:")), count)
                values, cut = [column.values for column in columns], [column.cut for column in columns]
                arrays = [uris, numbers, *values, *cut]
                yield pa.RecordBatch.from_arrays(arrays, [f"c{place}" for place in range(len(arrays))])
                number += count


def read_columns(
    stored: BinaryIO, shown: str, names: Sequence[str], rows: int = _ROWS
) -> Iterator[tuple[list[PlainColumn], int]]:
    """Yield the values of the wanted columns and the number of rows, batch by batch. Raise Refusal UNREADABLE_FILE.

    A name may differ in case from that in the file, as the names of a delivery's files may.
    """
    try:
        with open_parquet(stored) as file:
            if _FORMER_CALENDAR in (file.metadata.metadata or {}):
                raise unreadable(shown, "it has dates of the calendar before 1582 beside types that Spark cannot read")
            kinds = _kinds_of_leaves(file.metadata, file.schema_arrow)
            by_name = {name.lower(): name for name in file.schema_arrow.names}
            own = [by_name[name.lower()] for name in names]
            read = 0
            for batch in file.iter_batches(batch_size=rows, columns=own):
                yield [plain_column(batch.column(name), kinds[name]) for name in own], batch.num_rows
                read += batch.num_rows
            if read != file.metadata.num_rows:  # pyarrow leaves out rows of nested columns with certain empty pages
                raise unreadable(shown, f"its footer declares {file.metadata.num_rows:,} rows, but {read:,} were read")
    except ERRORS as error:
        raise unreadable(shown, str(error)) from error


def _kinds_of_leaves(metadata: pq.FileMetaData, fields: Iterable[pa.Field]) -> dict[str, tuple[str, ...]]:
    """Return by column the kinds of its leaves, in their order: INT96 or UUID_LEAF, which Arrow's types lack, or empty.

    ``fields`` are all columns of the file.
    """
    leaves = (metadata.schema.column(place) for place in range(len(metadata.schema)))
    return {field.name: tuple(map(_kind_of_leaf, islice(leaves, leaf_count(field.type)))) for field in fields}


def _kind_of_leaf(leaf: Any) -> str:
    if leaf.physical_type == INT96:
        return INT96
    return UUID_LEAF if leaf.logical_type.type == UUID_LEAF else ""


def _encrypted_leaves(metadata: pq.FileMetaData, groups: list[list[ColumnPart]]) -> set[str]:
    """Return the paths of the columns of which a part is encrypted."""
    places = {place for parts in groups for place, part in enumerate(parts) if part.is_encrypted}
    return {metadata.schema.column(place).path for place in places}


def _is_read_by_spark(metadata: pq.FileMetaData, groups: list[list[ColumnPart]]) -> bool:
    leaves = [metadata.schema.column(place) for place in range(len(metadata.schema))]
    if any(len(parts) != len(leaves) for parts in groups):
        raise ValueError("a row group has another number of columns than the file")
    if (metadata.created_by or "").startswith(_FORMER_WRITER) or not all(map(_has_type_of_spark, leaves)):
        return False
    return all(_is_supported(part) for parts in groups for part in parts)


def _is_supported(part: ColumnPart) -> bool:
    """Return True for a part of a column in encodings and a compression of Spark; one without encodings is unknown."""
    is_known = bool(part.encodings) and part.encodings <= _ENCODINGS and part.compression in _COMPRESSIONS
    return is_known and not part.is_encrypted


def _has_type_of_spark(leaf: Any) -> bool:
    logical = leaf.logical_type
    if logical.type not in _READ_BY_SPARK.get(leaf.physical_type, ()):
        return False
    match logical.type:
        case "TIMESTAMP":
            return _NANOSECONDS not in logical.to_json()
        case "DECIMAL":
            return leaf.precision <= _SPARK_PRECISION
    return True
