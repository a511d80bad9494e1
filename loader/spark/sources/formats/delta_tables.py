"""Delta tables of other writers, read at the version that is the newest when the load begins."""

from pyspark.sql import DataFrame, SparkSession

from loader.domain.refusals import Refusal
from loader.spark.session import first_line
from loader.spark.sources.files import JAVA_ERRORS, DeliveredFile, checked_location
from loader.spark.sources.formats.typed_files import TypedFormat
from loader.spark.sources.opened import Delivered, Opened
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sources.locations import Roots


class DeltaFormat(TypedFormat):
    """Delta. The delivery's one file is the table; the time of its last write is a version."""

    has_files = False

    def __init__(self) -> None:
        super().__init__("delta")

    def files(self, spark: SparkSession, location: str, roots: Roots) -> tuple[DeliveredFile, ...]:
        """Return the table at its newest version. Raise Refusal MISSING_TABLE or UNREADABLE_TABLE."""
        path = checked_location(location, roots)
        folder, _, name = path.rstrip("/").rpartition("/")
        try:
            version = DeltaTable(spark, folder, name).version()
        except JAVA_ERRORS as error:
            raise Refusal(
                "UNREADABLE_TABLE",
                f"the log of the Delta table {location} cannot be read: {first_line(error)}",
                file=location,
                hint="Read it by another program, or restore its _delta_log.",
            ) from error
        if version < 0:
            raise Refusal(
                "MISSING_TABLE",
                f"there is no Delta table at {location}",
                file=location,
                hint="Correct the source's location: it is the folder that has the table's _delta_log.",
            )
        return (DeliveredFile(path, 0, version),)

    def table_name(self, opened: Opened) -> str:
        """Return the name of the table's folder, and the version that was read, as Delta writes them."""
        (table,) = opened.files
        return f"{table.path.rstrip('/').rpartition('/')[2]}@v{table.written}"

    def _read(self, delivered: Delivered, paths: list[str]) -> DataFrame:
        (table,) = delivered.files
        return delivered.spark.read.format("delta").option("versionAsOf", table.written).load(table.path)
