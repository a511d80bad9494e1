"""What differs between stage and what is known: one full outer join by entity key and row hash.

Two sizes of answer, for two ways of writing (``loader.spark.history``):

* *whole*, for small tables: every row with its change and the known row beside it. What is written
  then follows from this frame alone: no table is read a second time.
* *changes only*, for large ones: just the rows that differ.

The rows are checkpointed, not cached: a cached frame that reads a table is computed anew when that
table is written, and after the history commit nothing would differ any more.
"""

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain import history as rules
from metadata.domain.sql import quote_identifier

CHANGE = "__change"
OLD = "__old"

# Up to here a table's open rows are written anew instead of merged: one write is then cheaper than
# MERGE's two scans and its deletion vectors (docs/loading.md, What a load costs).
REWRITE_UP_TO_ROWS = 200_000


@dataclass
class Difference:
    """Counts per change, and the rows, held until ``release``.

    ``frame`` has stage's columns (NULL but for the entity key where the key is gone), ``__change``
    (new, changed, deleted, and unchanged if ``whole``) and, if ``whole``, the known row as the
    struct ``__old``.
    """

    frame: DataFrame
    whole: bool
    counts: dict[str, int]

    def __getitem__(self, change: str) -> int:
        return self.counts.get(change, 0)

    @property
    def opens(self) -> int:
        return self[rules.NEW] + self[rules.CHANGED]

    @property
    def closes(self) -> int:
        return self[rules.CHANGED] + self[rules.DELETED]

    def in_few_files(self, rows: DataFrame) -> DataFrame:
        """The rows to be written, in one file if the whole difference is small."""
        return rows.coalesce(1) if sum(self.counts.values()) <= REWRITE_UP_TO_ROWS else rows

    def where(self, *changes: str) -> DataFrame:
        return self.frame.where(F.col(CHANGE).isin(*changes))

    def release(self) -> None:
        self.frame._jdf.queryExecution().logical().rdd().unpersist(False)


def compare(stage: DataFrame, known: DataFrame, table: TableSpec, *, whole: bool) -> Difference:
    """Compare stage with the known rows of ``table`` (all its columns if ``whole``)."""
    key = quote_identifier(table.column("entity_key").name)
    row_hash = quote_identifier(table.column("row_hash").name)
    kept = [F.col(key).alias("__key"), F.col(row_hash).alias("__hash")]
    if whole:
        kept.append(F.struct(*(F.col(quote_identifier(name)) for name in known.columns)).alias(OLD))
    joined = stage.alias("s").join(known.select(*kept), F.col(f"s.{key}") == F.col("__key"), "full_outer")
    stage_columns = [
        F.coalesce(F.col(f"s.{key}"), F.col("__key")).alias(name)
        if quote_identifier(name) == key
        else F.col(f"s.{quote_identifier(name)}")
        for name in stage.columns
    ]
    rows = joined.select(*stage_columns, _change(key, row_hash).alias(CHANGE), *([F.col(OLD)] if whole else []))
    if not whole:
        rows = rows.where(F.col(CHANGE) != rules.UNCHANGED)
    rows = rows.localCheckpoint(eager=True, storageLevel=StorageLevel.MEMORY_AND_DISK)
    counts = {row[CHANGE]: row["count"] for row in rows.groupBy(CHANGE).count().collect()}
    return Difference(rows, whole, counts)


def _change(key: str, row_hash: str) -> Column:
    return (
        F.when(F.col("__key").isNull(), rules.NEW)
        .when(F.col(f"s.{key}").isNull(), rules.DELETED)
        .when(F.col(f"s.{row_hash}") != F.col("__hash"), rules.CHANGED)
        .otherwise(rules.UNCHANGED)
    )
