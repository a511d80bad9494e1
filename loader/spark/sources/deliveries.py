"""Reading and checking of a whole delivery, before anything is written.

A location is a file, a folder (all files below it that are not hidden) or a pattern, given as a path or a URI
of any file system that Hadoop supports; compression is recognised by the file's ending. Formats are ``csv``,
``jsonl`` and ``parquet``. Options are described in ``loader.spark.sources.options``, conversion of values in
``loader.spark.sources.conversion``.

Refusals, in the order of the checks:

=====================  =====================================================================
UNKNOWN_FORMAT,        the source has an unknown format, option or option value
UNKNOWN_OPTION,
BAD_OPTION
BAD_LOCATION           the location is no path or URI of a source
OUTSIDE_ROOTS          the location, or a link among its files, leads out of the source roots
MISSING_FILE           no file exists
UNFINISHED_FOLDER      its writer is still writing, or died
UNREADABLE_FILE        the file is broken, not permitted or of another format
TRUNCATED_FILE         a bzip2 file that ends early
EMPTY_FILE             a CSV file without even a header
UNREADABLE_HEADER      a CSV header whose quote is never closed
DUPLICATE_COLUMN       a header, or a JSON object, that names a column more than once
WRONG_ENCODING         bytes that are invalid in the source's encoding
BAD_JSON               a line that is not one JSON object
UNCLOSED_QUOTE         a quoted CSV field that is open at the end of the file
STRAY_QUOTE            text between the closing quote of a CSV field and the next delimiter
MISSING_COLUMN         a column of the contract that is not delivered
RAGGED_ROW             a CSV record with too few or too many fields
VALUE_DOES_NOT_FIT     a value that its column's type cannot hold (contract: history rule 5)
NULL_KEY, NULL_VALUE   no value in a required column
CONFLICTING_ROWS       rows of one key that differ (contract: history rule 1)
CHANGED_FILE           the file changed while it was checked (``Delivery.check_unchanged``)
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
    """Delivery that fulfils its contract.

    ``frame`` has the contract's columns in its order, with the delivered names: text from CSV and JSON lines,
    the contract's types from Parquet. ``rows`` counts the delivered rows, ``duplicates`` the identical ones
    that are missing in ``frame``. ``unknown`` describes delivered columns outside the contract; they are not
    in ``frame``.
    """

    frame: DataFrame
    rows: int
    duplicates: int
    _opened: Opened
    _kept: DataFrame | None
    unknown: list[dict] = field(default_factory=list)
    warnings: tuple[str, ...] = ()

    def check_unchanged(self) -> None:
        """Raise Refusal CHANGED_FILE if a file changed between check and read.

        Call it after ``frame`` is written and before the commit. Cached rows cannot differ.
        """
        if self._kept is None:
            check_unchanged(self._opened.spark, self._opened.location, self._opened.roots, self._opened.files)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn Spark's errors while ``frame`` is read into Refusal CHANGED_FILE or UNREADABLE_FILE."""
        with _reading(self._opened, again=self._kept is None):
            yield

    def release(self) -> None:
        """Release the cached rows; afterwards ``frame`` reads the files again."""
        if self._kept is not None:
            self._kept.unpersist()


def read_delivery(spark: SparkSession, source: SourceSpec, files: tuple[DeliveredFile, ...] = ()) -> Delivery:
    """Read and check ``source`` or some of its files; the caller calls ``release`` after writing the frame.

    Raise Refusal. Text is parsed once and its rows are cached while they are checked. Parquet is read again,
    since the checks need few of its columns and caching all of them costs more.
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

    Types are inferred from every row. Raise Refusal for a delivery that cannot be read.
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
    """Convert read errors into Refusal UNREADABLE_FILE, or CHANGED_FILE for files that are read ``again``."""
    try:
        yield
    except JAVA_ERRORS as error:
        if again:
            check_unchanged(opened.spark, opened.location, opened.roots, opened.files)
        if any(name in str(error) for name in _READ_FAILURES):
            raise unreadable(opened.shown, error) from error
        raise
