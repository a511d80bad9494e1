"""Reading one delivery and checking it as a whole, before anything is written.

A location is a file, a folder (everything below it that is not hidden) or a pattern; a path or the
URI of any file system that Hadoop knows; packed files are told by their ending. Formats are ``csv``,
``jsonl`` and ``parquet``; options are described in ``loader.spark.sources.options``, what fits a type
in ``loader.spark.sources.conversion``.

Refusals, in the order they are looked for:

=====================  =====================================================================
UNKNOWN_FORMAT,        the source asks for something that there is not
UNKNOWN_OPTION,
BAD_OPTION
BAD_LOCATION           the location cannot be read as a path or URI of a source
OUTSIDE_ROOTS          it leads, or a link among its files leads, out of the places of sources
MISSING_FILE           nothing is there
UNFINISHED_FOLDER      its writer is still at work there, or died
UNREADABLE_FILE        it is there but broken, locked away or of another format
TRUNCATED_FILE         a bzip2 file that stops before its end
EMPTY_FILE             a CSV file without even a header
UNREADABLE_HEADER      a CSV header whose quote is never closed
DUPLICATE_COLUMN       a header, or a JSON object, that names a column more than once
WRONG_ENCODING         bytes that are no characters in the encoding the source says
BAD_JSON               a line that is not one JSON object
UNCLOSED_QUOTE         a CSV field in quotes that the end of the file leaves open
STRAY_QUOTE            text between the quote that closes a CSV field and the next delimiter
MISSING_COLUMN         a column of the contract that is not delivered
RAGGED_ROW             a CSV record with too few or too many fields
VALUE_DOES_NOT_FIT     a value that its column's type cannot hold (contract: history rule 5)
NULL_KEY, NULL_VALUE   no value where there must be one
CONFLICTING_ROWS       rows of one key that differ (contract: history rule 1)
CHANGED_FILE           somebody wrote it while it was checked (``Delivery.check_unchanged``)
=====================  =====================================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from loader.domain.runs.manifest import SourceSpec
from loader.spark.runtime.session import source_roots
from loader.spark.sources.conversion import fits, typed
from loader.spark.sources.delivery_checks import check_keys, check_rows, converted
from loader.spark.sources.delivery_reading import Opened, missing_columns, open_delivery
from loader.spark.sources.files import JAVA_ERRORS, DeliveredFile, check_places, check_unchanged, unreadable
from loader.spark.sources.inference import inferred_columns

__all__ = ["Delivery", "discover", "fits", "read_delivery", "typed"]

# How Spark names what goes wrong when a file's bytes are not what its format promises.
_READ_FAILURES = ("FAILED_READ_FILE", "CANNOT_READ_FILE_FOOTER", "MALFORMED_CSV_RECORD")


@dataclass
class Delivery:
    """A delivery that keeps its contract.

    ``frame`` has the contract's columns, in its order and with the names they were delivered under:
    text from CSV and JSON lines, the contract's types from Parquet. ``rows`` counts what was
    delivered, ``duplicates`` the identical rows among it that ``frame`` does not repeat. ``unknown``
    describes delivered columns that the contract does not name; they are not in ``frame``.
    """

    frame: DataFrame
    rows: int
    duplicates: int
    _opened: Opened
    _kept: DataFrame | None
    unknown: list[dict] = field(default_factory=list)
    warnings: tuple[str, ...] = ()

    def check_unchanged(self) -> None:
        """To be asked when ``frame`` has been written, before that counts: what was checked must be what was read.

        Rows that are kept are the same rows. Raises Refusal CHANGED_FILE.
        """
        if self._kept is None:
            check_unchanged(self._opened.spark, self._opened.location, self._opened.roots, self._opened.files)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn Spark's errors while ``frame`` is read into Refusal CHANGED_FILE or UNREADABLE_FILE."""
        with _reading(self._opened, again=self._kept is None):
            yield

    def release(self) -> None:
        """Give back the memory that the rows were kept in; ``frame`` would read the files anew."""
        if self._kept is not None:
            self._kept.unpersist()


def read_delivery(spark: SparkSession, source: SourceSpec, files: tuple[DeliveredFile, ...] = ()) -> Delivery:
    """Read and check ``source``, or these of its files; the caller calls ``release`` when the frame is written.

    Raises Refusal. Text is parsed once: its rows are kept while they are checked. Parquet is read again, because
    a check needs few of its columns and to keep them all costs more.
    """
    wanted = tuple(column.name for column in source.columns)
    opened = open_delivery(
        spark,
        source.name,
        source.location,
        source.format,
        source.options,
        wanted,
        roots=source_roots(spark),
        files=files,
    )
    missing_columns(opened, wanted)
    frame = opened.frame()
    again = not opened.is_text
    kept = None if again else frame.persist(StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        with _reading(opened, again=again):
            found = check_rows(opened, frame, source)
            distinct, duplicates = check_keys(opened, frame, source, found.rows)
            unknown = inferred_columns(opened, frame, tuple(name for name in opened.names if name not in wanted))
        check_places(source.location, opened.roots, opened.files)
    except BaseException:
        if kept is not None:
            kept.unpersist()
        raise
    columns = [
        (opened.column(c.name) if opened.is_text else converted(opened, c, source.options)).alias(c.name)
        for c in source.columns
    ]
    return Delivery(distinct.select(*columns), found.rows, duplicates, opened, kept, unknown, found.warnings)


def discover(spark: SparkSession, location: str, format_name: str, options: dict | None = None) -> dict:
    """Return the content of a delivery: ``{"columns": [{"name", "type", "nullable"}], "rows", "files"}``.

    Types are inferred from every row. Raises Refusal for a delivery that cannot be read.
    """
    source = SourceSpec(name=location, location=location, format=format_name, columns=(), options=options or {})
    opened = open_delivery(spark, source.name, location, format_name, source.options, roots=source_roots(spark))
    kept = opened.frame().persist(StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        with _reading(opened, again=False):
            rows = check_rows(opened, kept, source).rows
        columns = inferred_columns(opened, kept, opened.names)
    finally:
        kept.unpersist()
    return {
        "columns": [{"name": c["name"], "type": c["type"], "nullable": c["nullable_seen"]} for c in columns],
        "rows": rows,
        "files": len(opened.files),
    }


@contextmanager
def _reading(opened: Opened, *, again: bool) -> Iterator[None]:
    """Broken files show where rows are first read; those that are read ``again`` may have changed since."""
    try:
        yield
    except JAVA_ERRORS as error:
        if again:
            check_unchanged(opened.spark, opened.location, opened.roots, opened.files)
        if any(name in str(error) for name in _READ_FAILURES):
            raise unreadable(opened.shown, error) from error
        raise
