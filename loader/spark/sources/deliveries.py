"""Deliveries of a run: feed file selection, reading, type inference, checks.

A location is a file, a folder (all files below it that are not hidden) or a pattern, given as a path or a URI
of any file system that Hadoop supports; compression is recognised by the file's ending. Formats and options are
described in ``metadata.domain.sources.reading_options``, conversion of values in ``loader.spark.expressions``.

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
DUPLICATE_COLUMN       a header, or a line of JSON lines, that names a column more than once
WRONG_ENCODING         bytes that are invalid in the source's encoding
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
UNREADABLE_COLUMN      a column of the contract in a type that no reader reads
NOT_RECORDS            an Avro file whose values are no records
TYPES_DIFFER           files of one delivery whose types of a column differ
MISSING_COLUMN         a column of the contract that is not delivered
RAGGED_ROW             a CSV record with too few or too many fields, a line of fixed width of another length
VALUE_DOES_NOT_FIT     a value that its column's type cannot hold (contract: history rule 5)
NULL_KEY, NULL_VALUE   no value in a required column
NULL_WATERMARK         no value in any watermark column
CONFLICTING_ROWS       rows of one key that differ (contract: history rule 1)
CHANGED_FILE           the file changed while it was checked (``Delivery.check_unchanged``)
=====================  =====================================================================
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain.manifest.loads import LoadManifest, RawcoreLoad, RawLoad
from loader.domain.manifest.sources import SourceSpec
from loader.domain.refusals import Refusal
from loader.domain.sources.feeds import NOTE, PREFIXES, FeedChoice, FeedFile, FeedLog, FeedRange, choose, with_note
from loader.domain.sources.marks import Reading, Window
from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.domain.spark_settings import is_cluster
from loader.spark.expressions import fits, typed
from loader.spark.session import persisted, source_roots
from loader.spark.sources.checks.keys import KeyedRows, check_keys
from loader.spark.sources.checks.rejections import RejectedRows, rejected_rows
from loader.spark.sources.checks.row_faults import check_rows, converted, refuse_faults
from loader.spark.sources.databases import open_table
from loader.spark.sources.delivery_reading import missing_columns, open_delivery
from loader.spark.sources.files import DeliveredFile, is_one_file, list_files
from loader.spark.sources.formats.delta_tables import OpenedChanges, changes_reader, new_versions
from loader.spark.sources.kafka.snapshot_rows import EarlierRows
from loader.spark.sources.kafka.topics import OpenedTopic, new_messages, open_topic
from loader.spark.sources.opened import Opened
from loader.spark.sources.provenance import with_provenance
from loader.spark.sources.schemas import (
    StoredRows,
    delivered_schema,
    inferred_columns,
    refused_schema,
    unknown_columns,
)
from loader.spark.sources.windows import within_window
from loader.spark.tables.commits import open_files
from loader.spark.tables.table_files import PLACE, TableFiles
from loader.spark.tables.tables import DeltaTable, RunCommit
from metadata.domain.sources.formats import DELTA, OP, SEQUENCE, reads_changes
from metadata.domain.sources.locations import Roots
from metadata.domain.sources.option_kinds import REFUSE_CHANGED
from metadata.domain.sql import quote_identifier

__all__ = ["Delivery", "discover", "fits", "read_delivery", "typed"]


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
    (``loader.spark.sources.schemas``). ``window`` is the part of a source with a watermark that was read. ``faults``
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
        if self._cached is None or is_cluster(self.opened.spark.sparkContext.master):
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
    where = {"roots": roots, "files": files}
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


def discover(spark: SparkSession, location: str, format_name: str, options: dict | None = None) -> dict:
    """Return the content of a delivery: ``{"columns": [{"name", "type", "nullable"}], "rows", "files"}``.

    Types are inferred from every row. Raise Refusal for a delivery that cannot be read.
    """
    source = SourceSpec(name=location, location=location, format=format_name, columns=(), options=options or {})
    opened = open_delivery(spark, source.name, location, format_name, source.options, roots=source_roots(spark))
    cached = persisted(opened.frame(numbered=True), StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        with opened.reading(again=False):
            checked = refuse_faults(opened, cached, source)
        rows = cached.where(~opened.is_empty_record) if checked.empty else cached
        columns = inferred_columns(opened, rows, opened.names)
    finally:
        cached.unpersist()
    return {
        "columns": [{"name": c["name"], "type": c["type"], "nullable": c["nullable_seen"]} for c in columns],
        "rows": checked.rows,
        "files": len(opened.files),
    }


# Feeds: the selection of the files or messages that a run reads, and their record in the commits of the raw table.


@dataclass(frozen=True)
class Feed:
    """Files or messages of a feed that one run reads, and the number of this run's rows already in raw."""

    load: RawLoad
    run_id: str
    table: TableFiles  # at the version whose log was read, so that a commit after it is a conflict
    log: FeedLog
    choice: FeedChoice
    files: tuple[DeliveredFile, ...] = ()
    rows: int = 0
    warnings: tuple[str, ...] = ()
    newest_read: int | None = None

    @classmethod
    def of(cls, session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest) -> "Feed":
        """Return the files or messages to read, from the location and the tables' logs.

        Raise Refusal CHANGED_SINCE_LOADED, or those of ``list_files`` or ``new_messages``.
        """
        raw = DeltaTable(session, warehouse, load.table.key)
        column, run_id = load.table.column("run_id").name, manifest.run_id
        table = open_files(session, raw, (column,))
        # The version before its log: a commit in between then is a conflict.
        log = _log_of(raw) if table.version >= 0 else FeedLog("")
        if run_id in log.runs:
            own = raw.frame().where(F.col(quote_identifier(column)) == run_id).count()
            message = "The table already held this run: nothing was added."
            return cls(load, run_id, table, log, FeedChoice(()), rows=own, warnings=(message,))
        applied = _common_feed_number(session, warehouse, load, manifest, log)
        if load.source.cluster is not None:
            choice, warnings = new_messages(session, load, log, applied)
            return cls(load, run_id, table, log, choice, warnings=warnings)
        if reads_changes(load.source.format, load.source.options):
            choice, warnings = new_versions(session, load, log, applied, full=manifest.full)
            return cls(load, run_id, table, log, choice, warnings=warnings)
        location = load.source.location
        listed = {file.path: file for file in list_files(session, location, source_roots(session))}
        choice = choose(
            load.name,
            log,
            (FeedFile(file.path, file.size, file.written, file.etag) for file in listed.values()),
            applied=applied,
            one_file=is_one_file(session, location),
            changed_files=load.source.options.get("changed_files", REFUSE_CHANGED),
        )
        files = tuple(listed[file.path] for file in choice.files)
        warnings = []
        if choice.gone:
            paths = ", ".join(DeliveredFile(path, 0, 0).shown for path in choice.gone[:3])
            warnings.append(
                f"{len(choice.gone)} files were read by a run that did not reach the history, and are no longer at "
                f"{location}: {paths}. Deliver them again if they are to be loaded."
            )
        if choice.changed:
            paths = ", ".join(DeliveredFile(path, 0, 0).shown for path in choice.changed[:3])
            warnings.append(
                f"Changed after they were loaded, and not read again: {paths} ({len(choice.changed)} in all)."
            )
        if not files:
            warnings.append(f"No new files: each of the {len(listed)} at {location} was loaded before.")
        return cls(load, run_id, table, log, choice, files, warnings=tuple(warnings))

    @property
    def part(self) -> Part:
        """Return what is read; empty if nothing is new."""
        return self.files or self.choice.ranges

    @property
    def counts(self) -> dict[str, int]:
        has_files = self.load.source.cluster is None and self.load.source.format != DELTA
        return {"files": len(self.files)} if has_files else {}

    @property
    def recorded(self) -> dict[str, int]:
        """Return the transaction identifiers of the run's commit."""
        return self.log.transactions(self.run_id, self.choice, self.newest_read)

    def after_reading(self, opened: Opened) -> "Feed":
        """Return the feed with what only its messages tell."""
        return replace(self, newest_read=opened.numbers.newest_read) if isinstance(opened, OpenedTopic) else self

    def earlier_rows(self) -> EarlierRows | None:
        """Return the rows of former loads, of runs that are not replaced; None if none is of a snapshot."""
        newest_read = self.log.newest_read(self.choice.ranges)
        names = {name: raw_name for raw_name, name in self.load.columns}
        keys = [column.name for column in self.load.source.columns if column.business_key]
        if newest_read is None or not {OP, SEQUENCE, *keys} <= names.keys():
            return None
        run_id = F.col(quote_identifier(self.load.table.column("run_id").name))
        columns = [F.col(quote_identifier(names[name])).alias(name) for name in dict.fromkeys((*keys, OP, SEQUENCE))]
        is_kept = ~run_id.isin(*self.choice.replaced) if self.choice.replaced else F.lit(True)
        return EarlierRows(newest_read, self.table.frame().where(is_kept).select(*columns))

    def replaced_rows(self) -> DataFrame | None:
        """Return the places of raw rows whose files are read again."""
        if not self.choice.replaced or not self.table.all:
            return None
        run_id = F.col(quote_identifier(self.load.table.column("run_id").name))
        return self.table.frame(placed=True).where(run_id.isin(*self.choice.replaced)).select(PLACE)


def feed_notes(
    session: SparkSession, warehouse: str, load: RawcoreLoad, run_id: str, last_run: RunCommit | None
) -> dict[str, str]:
    """Return the note about feeds for the leading table's next commit (``loader.domain.sources.feeds``).

    ``last_run`` is that table's newest commit of a run.
    """
    note = last_run.notes.get(NOTE) if last_run else None
    for source in load.inputs:
        if source.feed:
            log = _log_of(DeltaTable(session, warehouse, source.table.key))
            note = with_note(note, source.table.key, log, run_id)
    return {NOTE: note} if note else {}


def _common_feed_number(
    session: SparkSession, warehouse: str, load: RawLoad, manifest: LoadManifest, log: FeedLog
) -> int:
    """Return the newest feed number that every dataset reading this feed in the run has loaded.

    It is the log's newest number if none reads the feed.
    """
    numbers = [log.newest]
    for reader in manifest.rawcore:
        if any(source.feed and source.table.key == load.table.key for source in reader.inputs):
            commit = DeltaTable(session, warehouse, reader.leading.key).newest_run_commit()
            numbers.append(log.number_in(commit.notes.get(NOTE) if commit else None, load.table.key))
    return min(numbers)


# What Scala prints between a key and a value of a map.
_ARROW = " -> "


def _log_of(table: DeltaTable) -> FeedLog:
    """Return the files and runs in a raw table's log; its checksum file lists only a few transactions."""
    snapshot = table.snapshot()
    if snapshot.version() < 0:
        return FeedLog("")
    # One call for all of them: identifiers of feeds are JSON on one line.
    lines = snapshot.transactions().mkString("\n").split("\n")
    pairs = (line.rpartition(_ARROW) for line in lines if _ARROW in line)
    transactions = {name: int(number) for name, _, number in pairs if name.startswith(PREFIXES)}
    return FeedLog.of(snapshot.metadata().id(), transactions)
