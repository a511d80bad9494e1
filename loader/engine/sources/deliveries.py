"""Deliveries of a run: feed file selection, reading, type inference, checks.

A location is a file, a folder (all files below it that are not hidden) or a pattern, given as a path or a URI
of any file system that Hadoop supports; compression is recognised by the file's ending. Formats and options are
described in ``metadata.domain.sources.reading_options``, conversion of values in ``loader.engine.expressions``.

Refusals, in the order of the checks:

=====================  =====================================================================
UNKNOWN_FORMAT,        the source has an unknown format, option or option value
UNKNOWN_OPTION,
BAD_OPTION
BAD_LOCATION           the location is no path or URI of a source
OUTSIDE_ROOTS          the location, or a link among its files, leads out of the source roots
MISSING_FILE           no file exists, or fewer than the source declares
EXTRA_FILE             more files than the source declares
UNFINISHED_FOLDER      its writer is still writing, or died
UNREADABLE_FILE        the file is broken, not permitted or of another format
TRUNCATED_FILE         a bzip2 file that ends early
EMPTY_FILE             a CSV file without even a header
UNREADABLE_HEADER      a CSV header whose quote is never closed, or with a NUL byte
TOO_MANY_COLUMNS       more columns besides those of the contract than are read
LONG_LINE              a line of a text file that is too long
DUPLICATE_COLUMN       a header, a line of JSON lines or a typed file that names a column more than once
WRONG_ENCODING         bytes that are invalid in the source's encoding, or in UTF-8 in a typed file
BAD_JSON, BAD_XML      a line that is not one JSON object, a broken document
FORBIDDEN_XML          an XML document with a document type declaration
NO_SUCH_SHEET,         a workbook without the sheet, a document without the path, a path into a list
NO_SUCH_PATH
UNREADABLE_CELL        a cell of a workbook with an error, an uncalculated formula, an uncertain number or date
PASSWORD               a workbook that needs a password
TOO_LARGE              a document or workbook beyond the limits of its format
UNCLOSED_QUOTE         a quoted CSV field that is open at the end of the file
STRAY_QUOTE            text between the closing quote of a CSV field and the next delimiter, or a quote inside of a
                       field that does not begin with one
UNREADABLE_ROW         CSV without a quote or an escape that has the noncharacter U+FFFF
UNREADABLE_COLUMN      a column of the contract that is encrypted, or in a type that no reader reads
NOT_RECORDS            an Avro file whose values are no records
TYPES_DIFFER           files of one delivery whose types of a column differ
MISSING_COLUMN         a column of the contract that is not delivered
RAGGED_ROW             a CSV record with too few or too many fields, a line of fixed width of another length
REPEATED_HEADER        a CSV record that is the header again
VALUE_DOES_NOT_FIT     a value that its column's type cannot hold (contract: history rule 5)
NULL_KEY, NULL_VALUE   no value in a required column
NULL_WATERMARK         no value in any watermark column
CONFLICTING_ROWS       rows of one key that differ (contract: history rule 1)
CHANGED_FILE           the file changed while it was checked (``Delivery.check_unchanged``)
=====================  =====================================================================
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import FeedRange
from loader.domain.sources.marks import Reading, Window
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.domain.spark_settings import is_cluster
from loader.engine.session import persisted, source_roots
from loader.engine.sources.checks.keys import KeyedRows, check_keys
from loader.engine.sources.checks.rejections import RejectedRows, rejected_rows
from loader.engine.sources.checks.row_faults import check_rows, converted
from loader.engine.sources.databases import open_table
from loader.engine.sources.delivery_reading import missing_columns, open_delivery
from loader.engine.sources.files import DeliveredFile
from loader.engine.sources.formats.delta_changes import OpenedChanges, changes_reader
from loader.engine.sources.kafka.snapshot_rows import EarlierRows
from loader.engine.sources.kafka.topics import open_topic
from loader.engine.sources.opened import Opened
from loader.engine.sources.provenance import with_provenance
from loader.engine.sources.schemas import StoredRows, delivered_schema, refused_schema, unknown_columns
from loader.engine.sources.windows import within_window
from metadata.domain.sources.locations import Roots

# Files or messages of a feed that are read; all of the location if empty.
Part = tuple[DeliveredFile | FeedRange, ...]

# Writes the faulty rows of a delivery to its quarantine, and returns their number.
Reject = Callable[[RejectedRows], int]


@dataclass
class Delivery:
    """Delivery that fulfils its contract.

    ``rows_with_provenance`` has the contract's columns in its order, with the delivered names: as text from text
    formats, else in the contract's types; then the columns of ``loader.domain.sources.provenance``. ``frame`` has the
    same rows without these. ``rows`` counts the delivered rows, ``duplicates`` the identical ones that are missing
    in ``frame``, ``superseded`` those of whose key another row is there. ``unknown`` describes delivered columns
    outside the contract; they are not in ``frame``. ``schema`` has all delivered columns
    (``loader.engine.sources.schemas``). ``window`` is the part of a source with a watermark that was read. ``faults``
    is the refusal that names the rows with faults, if these were quarantined; ``quarantined`` is their number.
    ``doubt`` is the reason why rows may be missing, empty if the delivery is complete. ``empty`` counts the records
    without any value, which are left out.
    """

    rows_with_provenance: DataFrame
    rows: int
    duplicates: int
    opened: Opened
    _cached: DataFrame | None
    unknown: list[dict] = field(default_factory=list)
    warnings: tuple[str, ...] = ()
    window: Window | None = None
    superseded: int = 0
    schema: tuple[dict, ...] = ()
    faults: Refusal | None = None
    quarantined: int = 0
    doubt: str = ""
    empty: int = 0

    @property
    def frame(self) -> DataFrame:
        return self.rows_with_provenance.drop(SOURCE_FILE, SOURCE_ROW)

    def check_unchanged(self) -> None:
        """Raise Refusal CHANGED_FILE if a file changed between check and read.

        Call it after ``frame`` is written and before the commit. Cached rows cannot differ, except those of a lost
        executor of a cluster, which are read again.
        """
        if self._cached is None or is_cluster(self.opened.spark.sparkContext.master or ""):
            self.opened.check_unchanged()

    def reading(self) -> AbstractContextManager[None]:
        """Return a context in which Spark's errors while ``frame`` is read become refusals (``Opened.reading``)."""
        return self.opened.reading(again=self._cached is None)

    def release(self) -> None:
        """Release the cached rows and the source; afterwards ``frame`` reads files again."""
        if self._cached is not None:
            self._cached.unpersist()
        self.opened.release()


def read_delivery(
    spark: SparkSession,
    source: SourceSpec,
    part: Part = (),
    reading: Reading | None = None,
    *,
    roots: Roots | None = None,
    reject: Reject | None = None,
    earlier: EarlierRows | None = None,
    stored: StoredRows | None = None,
) -> Delivery:
    """Read and check ``source``, or a part of it; the caller calls ``release`` after writing the frame.

    ``roots`` are the permitted places, by default those of the runner. ``reject`` takes the rows with faults, and
    without it they refuse the delivery whatever the source's options say. ``earlier`` are the rows of a topic in raw,
    and ``stored`` returns the rows of the delivery before.

    Raise Refusal, for faults of rows with all classes of them. Text is parsed once and its rows are cached while they
    are needed. A typed file, or a table with a snapshot, is read again, since the checks need few columns and caching
    all of them costs more.
    """
    opened = _open(spark, source, part, reading, roots or source_roots(spark), earlier)
    return read_opened(opened, source, reject, stored)


def read_opened(
    opened: Opened, source: SourceSpec, reject: Reject | None = None, stored: StoredRows | None = None
) -> Delivery:
    """Check an opened delivery, like ``read_delivery``; it is released if it is refused."""
    cached = None
    try:
        _check_file_count(opened)
        wanted = tuple(column.name for column in source.columns)
        missing_columns(opened, wanted)
        frame = opened.frame(numbered=opened.reader.has_files)
        is_read_again = opened.is_read_again
        if not is_read_again:
            frame = cached = persisted(frame, StorageLevel.MEMORY_AND_DISK_DESER)
        with opened.reading(again=is_read_again):
            result = check_rows(opened, frame, source)
            if not is_read_again:  # the rows are cached now, perhaps of another file than was opened
                opened.check_unchanged()
            accepted = frame.where(~result.has_fault) if result.faults else frame
            accepted = accepted.where(~opened.is_empty_record) if result.empty else accepted
            rows_accepted = accepted.count() if result.faults else result.rows
            try:
                keyed = check_keys(opened, accepted, source, rows_accepted)
            except Refusal:
                if not result.faults:
                    raise
                keyed = KeyedRows(accepted.limit(0))  # Refused for the faults, which come first.
            rejected = rejected_rows(opened, source, frame, result, keyed)
            quarantined = rejected.write(reject) if rejected is not None and reject is not None else 0
            if rejected is not None and (rejected.is_refused or reject is None):
                raise rejected.refusal
            rows_delivered = frame.where(~opened.is_empty_record) if result.empty else frame
            unknown = unknown_columns(opened, rows_delivered, wanted)
            placed = with_provenance(opened, frame, keyed.frame)
        opened.check_places()
    except BaseException as error:
        try:
            if isinstance(error, Refusal):
                error.schema = refused_schema(opened, source, error, cached, stored)
        finally:
            if cached is not None:
                cached.unpersist()
            opened.release()
        raise
    columns = [
        (opened.column(c.name) if opened.is_text else converted(opened, c, source.options)).alias(c.name)
        for c in source.columns
    ]
    rows, warnings = placed.select(*columns, SOURCE_FILE, SOURCE_ROW), (*opened.warnings, *result.warnings)
    return Delivery(
        rows,
        result.rows,
        keyed.duplicates,
        opened,
        cached,
        unknown,
        warnings,
        window=opened.window,
        superseded=keyed.superseded,
        schema=delivered_schema(opened, source, unknown),
        faults=rejected.refusal if rejected is not None else None,
        quarantined=quarantined,
        empty=result.empty,
    )


def _open(
    spark: SparkSession,
    source: SourceSpec,
    part: Part,
    reading: Reading | None,
    roots: Roots,
    earlier: EarlierRows | None,
) -> Opened:
    if source.database is not None:
        return open_table(spark, source, reading)
    ranges = tuple(entry for entry in part if isinstance(entry, FeedRange))
    if source.cluster is not None:
        return open_topic(spark, source, ranges, earlier)
    files = tuple(entry for entry in part if isinstance(entry, DeliveredFile))
    wanted = tuple(column.name for column in source.columns)
    keys = tuple(column.name for column in source.columns if column.business_key)
    where: dict[str, Any] = {"roots": roots, "files": files}
    if ranges:
        where["reader"] = changes_reader(source, ranges)
    opened = open_delivery(spark, source.name, source.location, source.format, source.options, wanted, keys, **where)
    if ranges:
        return OpenedChanges(**vars(opened))
    return opened if reading is None else within_window(opened, source, reading)


def _check_file_count(opened: Opened) -> None:
    """Raise Refusal MISSING_FILE or EXTRA_FILE for another number of files than the source declares."""
    expected, count = opened.options.expected_files, len(opened.files)
    if expected in (None, count):
        return
    raise Refusal(
        "MISSING_FILE" if count < expected else "EXTRA_FILE",
        f"{opened.location}: a delivery has {expected} files, as its source declares, and this one has {count}",
        file=opened.location,
        count=count,
        hint="Load it when it is whole and alone there, or change the source's option expected_files.",
    )
