"""Changes of Delta tables of other writers: those of the versions after the last loaded one.

Delta's Change Data Feed has them (``loader.domain.sources.feeds``): rows with the columns ``_op`` and ``_sequence``. A
version that deletes a key and adds it again, like an overwrite or an update of the key's row in another file, changes
it: its delete is left out. The row before an update is a delete if no row of its version has its key afterwards: the
update changed the key.

Refusals beside those of ``loader.engine.sources.formats.delta_tables``:

=====================  =====================================================================
TABLE_REPLACED         the loaded versions are those of an earlier table
NO_CHANGE_FEED         the table records no changes, or did not in these versions
VERSIONS_GONE          versions, or files of changes, were removed before they were loaded
COLUMNS_CHANGED        columns were renamed, dropped or retyped between these versions
=====================  =====================================================================
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.window import Window

from loader.contract.manifest.loads import RawLoad
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.sources.feeds import CHANGES, VERSIONS_LOST, WHOLE, FeedChoice, FeedLog, FeedRange, choose_versions
from loader.engine.java_errors import JAVA_ERRORS, first_line, thrown_by
from loader.engine.session import source_roots
from loader.engine.sources.delivered_columns import attribute, attribute_at, folded_key, trimmed_key
from loader.engine.sources.files import DeliveredFile
from loader.engine.sources.formats.delta_tables import DeltaFormat, folder_name, newest_snapshot
from loader.engine.sources.opened import Delivered, Opened
from loader.engine.tables.tables import metadata_of
from metadata.domain.sources.formats import OP, SEQUENCE
from metadata.domain.sources.locations import Roots
from metadata.domain.sources.reading_options import ReadingOptions


@dataclass(frozen=True)
class OpenedChanges(Opened):
    """Changes of a Delta table between two versions."""

    @contextmanager
    def reading(self, *, again: bool) -> Iterator[None]:
        with super().reading(again=again), _reading(self.location):
            yield


class DeltaChanges(DeltaFormat):
    """Changes of a range of versions, or all rows at the last of them as inserts."""

    def __init__(self, read: FeedRange, keys: tuple[str, ...]) -> None:
        super().__init__()
        self.range, self.keys = read, keys

    def files(self, spark: SparkSession, location: str, roots: Roots) -> tuple[DeliveredFile, ...]:
        return (DeliveredFile(self.range.topic, 0, self.range.end - 1),)

    def table_name(self, opened: Opened) -> Column:
        """Return the name of the table's folder, and the version that made the change."""
        version = opened.column(SEQUENCE) - F.lit(self.range.base)
        return F.concat(F.lit(f"{folder_name(self.range.topic)}@v"), version.cast("string"))

    def _read(self, delivered: Delivered, paths: list[str]) -> DataFrame:
        with _reading(delivered.location):
            if self.range.partition == WHOLE:
                version = F.lit(self.range.base + self.range.end - 1).cast("bigint")
                return super()._read(delivered, paths).withColumns({OP: F.lit("I"), SEQUENCE: version})
            bounds = {"startingVersion": self.range.start, "endingVersion": self.range.end - 1}
            feed = delivered.spark.read.format("delta").option("readChangeFeed", True).options(**bounds)
            return _events(feed.load(self.range.topic), self.keys, self.range.base, delivered.options)


def _events(changes: DataFrame, keys: tuple[str, ...], base: int, options: ReadingOptions) -> DataFrame:
    """Return the rows of a change feed with their operation and version.

    Deletes and rows before an update are deletes of keys that do not come again in their version.
    """
    operation = F.when(F.col("_change_type").isin("delete", "update_preimage"), "D")
    operation = operation.when(F.col("_change_type") == "insert", "I").otherwise("U")
    rows = changes.withColumns({OP: operation, SEQUENCE: F.col("_commit_version") + F.lit(base)})
    described = {field.name: field.dataType for field in changes.schema}
    if keys and all(name in described or name.partition(".")[0] in described for name in keys):
        texts = []
        for name in keys:
            key = attribute(name) if name in described else attribute_at(name)
            is_text = isinstance(changes.select(key).schema[0].dataType, T.StringType)
            texts.append(folded_key(trimmed_key(key, options), options) if is_text else key)
        of_key = Window.partitionBy(*texts, SEQUENCE)
        rows = rows.withColumn("__comes", F.max(F.col(OP) != "D").over(of_key)).where(f"{OP} <> 'D' OR NOT __comes")
    else:
        rows = rows.where("_change_type <> 'update_preimage'")
    return rows.drop("_change_type", "_commit_version", "_commit_timestamp", "__comes")


def new_versions(
    spark: SparkSession, load: RawLoad, log: FeedLog, applied: int, *, full: bool
) -> tuple[FeedChoice, tuple[str, ...]]:
    """Return the versions that a feed has not loaded, up to the present one, and warnings.

    Raise Refusal TABLE_REPLACED, VERSIONS_GONE or NO_CHANGE_FEED.
    """
    path, table, snapshot = newest_snapshot(spark, load.source.location, source_roots(spark))
    if metadata_of(snapshot).properties.get("delta.enableChangeDataFeed") != "true":
        raise _no_change_feed(load.source.location, "records no changes")
    newest = snapshot.version()
    choice = choose_versions(load.name, log, path, snapshot.metadata().id(), newest, applied=applied, full=full)
    for read in choice.ranges:
        if read.partition == CHANGES and table.commit(read.start) is None:
            raise _versions_gone(load.source.location, f"its log has no version {read.start}")
    message = f"No new versions: version {newest} of {load.source.location} was loaded before."
    return choice, () if choice.ranges else (message,)


def changes_reader(source: SourceSpec, ranges: tuple[FeedRange, ...]) -> DeltaChanges:
    """Return the reader of a range of versions."""
    (read,) = ranges
    return DeltaChanges(read, tuple(column.name for column in source.columns if column.business_key))


_NOT_RECORDED = ("DELTA_MISSING_CHANGE_DATA", "change data was not recorded", "DELTA_CHANGE_TABLE_FEED_DISABLED")
_GONE = (
    "VersionNotFoundException", "DELTA_VERSION_NOT_FOUND", "DELTA_LOG_FILE_NOT_FOUND", "DELTA_VERSIONS_NOT_CONTIGUOUS",
    "FileNotFoundException", "FILE_NOT_EXIST", "DELTA_FILE_NOT_FOUND", "DELTA_VERSION_INVALID",
)  # fmt: skip


@contextmanager
def _reading(location: str) -> Iterator[None]:
    """Convert errors of Delta about changes that are not there into refusals."""
    try:
        yield
    except JAVA_ERRORS as failure:
        text = " ".join([str(failure), *(f"{thrown.name} {thrown.message}" for thrown in thrown_by(failure))])
        if any(word in text for word in _NOT_RECORDED):
            raise _no_change_feed(location, "did not record the changes of all versions since the last load") from None
        if any(word in text for word in _GONE):
            raise _versions_gone(location, first_line(failure)) from None
        if "DELTA_CHANGE_DATA_FEED_INCOMPATIBLE" in text:
            raise Refusal(
                "COLUMNS_CHANGED",
                f"{location}: columns of the table were renamed, dropped or retyped since the last load, so changes "
                "before and after cannot be read together",
                file=location,
                hint=VERSIONS_LOST,
            ) from None
        raise


def _versions_gone(location: str, reason: str) -> Refusal:
    return Refusal(
        "VERSIONS_GONE",
        f"{location}: versions of the table were removed before they were loaded: {reason}",
        file=location,
        hint=f"Load more often than the table is vacuumed and its log cleaned. {VERSIONS_LOST}",
    )


def _no_change_feed(location: str, reason: str) -> Refusal:
    return Refusal(
        "NO_CHANGE_FEED",
        f"the Delta table {location} {reason}",
        file=location,
        hint=f"Let its owner set delta.enableChangeDataFeed to true. {VERSIONS_LOST}",
    )
