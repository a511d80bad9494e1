"""koheesio 0.11.1: its SCD2 Delta writer, used as documented.

The table is created first (the writer requires one). The key is the merge key, the row hash the tracked
column, the load's time the effective time. The writer left-joins the snapshot, so it never detects deleted
keys and does not close them.
"""

from pyspark.sql import functions as F

from bench.engines.engine import Engine
from bench.history.data import KEY, ROW_HASH

TABLE = "bench_history"
VERSION = "named_struct('effective_time', t, 'end_time', t, 'is_current', true) AS _scd2"


class Koheesio(Engine):
    """Engine whose table has a lasting catalog name; the folder behind the name is restored."""

    interval = ("_scd2.effective_time", "_scd2.end_time")
    shortcoming = "does not close deleted keys"

    def prepare(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        if before is None:
            empty = self.spark.read.parquet(snapshot).limit(0)
            location = str(self.tables / "history")
            with_version = empty.withColumn("t", F.lit(at).cast("timestamp")).selectExpr(*empty.columns, VERSION)
            with_version.write.format("delta").save(location)
            self.spark.sql(f"CREATE TABLE IF NOT EXISTS {TABLE} USING delta LOCATION '{location}'")

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        from koheesio.spark.delta import DeltaTableStep
        from koheesio.spark.writers.delta.scd import SCD2DeltaTableWriter

        SCD2DeltaTableWriter(
            table=DeltaTableStep(table=TABLE),
            merge_key=KEY,
            scd2_columns=[ROW_HASH],
            scd2_timestamp_col=F.lit(at).cast("timestamp"),
            df=self.spark.read.parquet(snapshot),
        ).execute()
