"""Baseline: the least work of a history step, and nothing else. Frozen: never tune it.

It reads the whole new snapshot and the open versions' key and hash, joins them with a full outer join, and
writes the changed rows as Parquet. The open versions equal the previous snapshot, so they are read from it.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.engines.engine import Engine
from bench.history.data import COMPARED, DELIVERED, KEY, ROW_HASH


class Limit(Engine):
    """Engine that writes one folder of changed rows per load; together they form a comparable history."""

    def load(self, *, load: int, at: str, snapshot: str, before: str | None) -> None:
        new = self.spark.read.parquet(snapshot)
        known = self.spark.read.parquet(before or snapshot).select(
            F.col(KEY).alias("known_key"), F.col(ROW_HASH).alias("known_hash")
        )
        if before is None:
            known = known.limit(0)
        change = (
            F.when(F.col("known_key").isNull(), "new")
            .when(F.col(KEY).isNull(), "deleted")
            .when(F.col(ROW_HASH) != F.col("known_hash"), "changed")
        )
        (
            new.join(known, F.col(KEY) == F.col("known_key"), "full_outer")
            .withColumn("change", change)
            .where("change IS NOT NULL")
            .withColumn(KEY, F.coalesce(KEY, "known_key"))
            .withColumn("at", F.lit(at).cast("timestamp"))
            .drop("known_key", "known_hash")
            .write.parquet(str(self.tables / f"load={load}"))
        )

    def history(self) -> DataFrame:
        changes = self.spark.read.parquet(str(self.tables))
        ended = "lead(at) OVER (PARTITION BY entity_key ORDER BY at) AS valid_to"
        versions = changes.selectExpr(KEY, "change", "at AS valid_from", ended, *DELIVERED)
        return versions.where("change <> 'deleted'").select(*COMPARED)
