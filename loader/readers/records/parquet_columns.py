"""Columns of Parquet files: which of two readers reads a file, and the values of the reader in Python.

Spark reads files of which it supports every type, encoding and compression. pyarrow reads the other files, in tasks,
and all files for the pages that show samples, so pages and loads decide by one rule. pyarrow's values are converted to
types that both readers have in common: geometries and unknown logical types are binary, half floats are floats,
unsigned numbers are wider signed ones, times of day are text, and timestamps have microseconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from loader.readers.records.content import unreadable
from loader.readers.records.plain_values import INT96, UUID_LEAF, PlainColumn, UnreadableType, plain_column, plain_type
from loader.readers.records.readers import LOCAL

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
_ENCODINGS = {
    "PLAIN",
    "PLAIN_DICTIONARY",
    "RLE",
    "RLE_DICTIONARY",
    "BIT_PACKED",
    "DELTA_BINARY_PACKED",
    "DELTA_LENGTH_BYTE_ARRAY",
    "DELTA_BYTE_ARRAY",
}
_COMPRESSIONS = {"UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "LZ4"}  # LZ4 is LZ4_RAW; the former LZ4 is unknown
# Writer before Arrow 3.0, of whose packed pages of the second version the compression is not marked.
_FORMER_WRITER = "parquet-cpp version"
# Key of files with dates and times in the calendar before 1582, which Spark converts and pyarrow does not.
_FORMER_CALENDAR = b"org.apache.spark.legacyDateTime"
_ROWS = 10_000  # of a batch
ERRORS = (OSError, pa.ArrowException)


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


def footer_of(metadata: pq.FileMetaData) -> ParquetFooter:
    """Return the columns of a file by its metadata. Raise ArrowException for a schema that pyarrow does not support."""
    kinds = _kinds_of_leaves(metadata)
    columns = []
    for field in metadata.schema.to_arrow_schema():
        try:
            columns.append(ParquetColumn(field.name, str(field.type), plain_type(field.type, kinds.get(field.name))))
        except UnreadableType as reason:
            columns.append(ParquetColumn(field.name, str(field.type), None, str(reason)))
    return ParquetFooter(tuple(columns), _is_read_by_spark(metadata))


def footer_of_end(end: bytes, shown: str) -> ParquetFooter:
    """Return the columns of a file by its last bytes. Raise Refusal UNREADABLE_FILE."""
    try:
        return footer_of(pq.read_metadata(BytesIO(end)))
    except ERRORS as error:
        raise unreadable(shown, str(error)) from error


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
    """Yield the values of the wanted columns and the number of rows, batch by batch. Raise Refusal UNREADABLE_FILE."""
    try:
        with open_parquet(stored) as file:
            if _FORMER_CALENDAR in (file.metadata.metadata or {}):
                raise unreadable(shown, "it has dates of the calendar before 1582 beside types that Spark cannot read")
            kinds = _kinds_of_leaves(file.metadata)
            for batch in file.iter_batches(batch_size=rows, columns=list(names)):
                yield [plain_column(batch.column(name), kinds.get(name)) for name in names], batch.num_rows
    except ERRORS as error:
        raise unreadable(shown, str(error)) from error


def _kinds_of_leaves(metadata: pq.FileMetaData) -> dict[str, str]:
    """Return the kinds of columns that Arrow's types do not tell, by name."""
    leaves = [metadata.schema.column(place) for place in range(len(metadata.schema))]
    kinds = {leaf.path: INT96 for leaf in leaves if leaf.physical_type == INT96}
    return kinds | {leaf.path: UUID_LEAF for leaf in leaves if leaf.logical_type.type == UUID_LEAF}


def _is_read_by_spark(metadata: pq.FileMetaData) -> bool:
    leaves = [metadata.schema.column(place) for place in range(len(metadata.schema))]
    if (metadata.created_by or "").startswith(_FORMER_WRITER) or not all(map(_has_type_of_spark, leaves)):
        return False
    chunks = (
        metadata.row_group(group).column(place)
        for group in range(metadata.num_row_groups)
        for place in range(len(leaves))
    )
    return all(_is_supported(chunk) for chunk in chunks)


def _is_supported(chunk: Any) -> bool:
    """Return True for a part of a column in encodings and a compression of Spark; one without encodings is unknown."""
    encodings = set(chunk.encodings)
    return bool(encodings) and encodings <= _ENCODINGS and chunk.compression in _COMPRESSIONS


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
