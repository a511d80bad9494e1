"""Delta tables of other writers: their rows at the version that is the newest when the load begins.

Refusals beside those of every delivery (``loader.engine.sources.deliveries``):

=====================  =====================================================================
MISSING_TABLE,         there is no table, or its log cannot be read
UNREADABLE_TABLE
=====================  =====================================================================
"""

from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.contract.refusals import Refusal
from loader.engine.java_errors import JAVA_ERRORS, thrown_by
from loader.engine.sources.files import DeliveredFile, checked_location
from loader.engine.sources.formats.typed_files import TypedFormat
from loader.engine.sources.opened import Delivered, Opened
from loader.engine.tables.tables import ContradictedChecksum, DeltaTable
from metadata.domain.sources.locations import Roots


class DeltaFormat(TypedFormat):
    """Delta. The delivery's one file is the table; the time of its last write is a version."""

    has_files = False

    def __init__(self) -> None:
        super().__init__("delta")

    def files(self, spark: SparkSession, location: str, roots: Roots) -> tuple[DeliveredFile, ...]:
        """Return the table at its newest version. Raise Refusal MISSING_TABLE or UNREADABLE_TABLE."""
        path, _, snapshot = newest_snapshot(spark, location, roots)
        return (DeliveredFile(path, 0, snapshot.version()),)

    def table_name(self, opened: Opened) -> Column:
        """Return the name of the table's folder, and the version that was read, as Delta writes them."""
        (table,) = opened.files
        return F.lit(f"{folder_name(table.path)}@v{table.written}")

    def _read(self, delivered: Delivered, paths: list[str]) -> DataFrame:
        (table,) = delivered.files
        return delivered.spark.read.format("delta").option("versionAsOf", table.written).load(table.path)


def folder_name(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def newest_snapshot(spark: SparkSession, location: str, roots: Roots) -> tuple[str, DeltaTable, Any]:
    """Return the table at a location, with its path and its newest snapshot. Raise Refusal."""
    path = checked_location(location, roots)
    folder, _, name = path.rstrip("/").rpartition("/")
    try:
        table = DeltaTable(spark, folder, name)
        snapshot = table.snapshot(is_own=False)
        wrong = _fault(spark, snapshot) if snapshot.version() >= 0 else ""
    except JAVA_ERRORS as error:
        raise _unreadable(location, f"cannot be read: {thrown_by(error)[-1].message[:500]}") from error
    except ContradictedChecksum as error:
        raise _unreadable(location, str(error)) from error
    if wrong:
        raise _unreadable(location, wrong)
    if snapshot.version() < 0:
        raise Refusal(
            "MISSING_TABLE",
            f"there is no Delta table at {location}",
            file=location,
            hint="Correct the source's location: it is the folder that has the table's _delta_log.",
        )
    return path, table, snapshot


def _fault(spark: SparkSession, snapshot: Any) -> str:
    """Return what is wrong with a snapshot; empty if nothing is.

    A writer that removes a file without naming its deletion vector leaves the file in the table: its rows come twice.
    Paths are only compared if a file has a deletion vector, because two entries of one path without one are the same
    file. Files are always listed, so that a path that is no address is found before a load begins.
    """
    if snapshot.schema().isEmpty():
        return "has no columns"
    files = DataFrame(snapshot.allFiles().toDF(), spark)
    if files.where("deletionVector IS NOT NULL").isEmpty():
        return ""
    repeated = files.groupBy("path").count().where("count > 1").select("path").limit(1).collect()
    return f"has the file {repeated[0][0]} twice, with other deleted rows each time" if repeated else ""


def _unreadable(location: str, wrong: str) -> Refusal:
    return Refusal(
        "UNREADABLE_TABLE",
        f"the log of the Delta table {location} {wrong}",
        file=location,
        hint="Read it by another program, or restore its _delta_log.",
    )
