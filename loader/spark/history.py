"""Historization on Delta: one difference in, one atomic commit out.

Three ways to the same table, chosen by what is cheapest:

* *append*, where nothing closes: new versions are added, nothing is read.
* *rewrite*, for small tables: the open segment is replaced as a whole and closed versions are
  added, in one overwrite whose predicate is the segment. One write, no second scan.
* *merge*, for large ones: only the versions that close are touched.

Rules: ``loader.domain.history``. Segments: ``docs/design.md``, Warehouse layout.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import TimestampType

from architecture.domain.tables import CLOSED, DELETED, OPEN, TableSpec
from loader.domain import history as rules
from loader.spark.difference import CHANGE, OLD, Difference
from loader.spark.hashing import digest
from loader.spark.session import transaction
from loader.spark.tables import DeltaTable
from metadata.domain.sql import quote_identifier

_MERGE_KEY = "__merge_key"
_CONSTRAINT_CHECK = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"


@dataclass(frozen=True)
class Stamp:
    """What this run writes into every row it touches; both times are ISO 8601.

    ``at`` dates the run's data, ``loaded_at`` is the clock when the dataset was loaded: fixed once,
    so that every job of the run writes the same.
    """

    run_id: str
    at: str
    loaded_at: str

    def timestamp(self) -> Column:
        return F.lit(self.at).cast("timestamp")

    def loaded(self) -> Column:
        return F.lit(self.loaded_at).cast("timestamp")


def open_versions(history: DeltaTable, table: TableSpec) -> DataFrame:
    """The open versions; closed ones lie in other partitions and are not read."""
    return history.frame().where(F.col(quote_identifier(table.column("segment").name)) == OPEN)


def reappeared(difference: Difference, history: DeltaTable, table: TableSpec) -> int:
    """How many of the new keys were there before and had gone: only keys that ended are read."""
    if not difference[rules.NEW]:
        return 0
    key = table.column("entity_key").name
    gone = history.frame().where(F.col(quote_identifier(table.column("segment").name)) == DELETED)
    new = difference.where(rules.NEW).select(quote_identifier(key))
    return new.join(gone.select(quote_identifier(key)), key, "left_semi").count()


def write_history(
    session: SparkSession, history: DeltaTable, table: TableSpec, difference: Difference, stamp: Stamp, sequence: int
) -> None:
    """Close and open versions in one commit that carries the table's transaction id and number."""
    opened = _opened_versions(difference, table, stamp)
    with transaction(session, table.key, sequence):
        if not difference.closes:
            difference.in_few_files(opened).write.format("delta").mode("append").save(history.location)
        elif difference.whole:
            versions = _known_versions(difference, table, stamp).unionByName(opened)
            _rewrite(session, history, table, difference.in_few_files(versions))
        else:
            _merge(session, history, table, difference, opened, stamp)


def _opened_versions(difference: Difference, table: TableSpec, stamp: Stamp) -> DataFrame:
    """The versions this run opens, with every column of the history table."""
    entity_key, started_at = table.column("entity_key"), table.column("started_at")
    frame = difference.where(rules.NEW, rules.CHANGED)
    at = stamp.timestamp()
    values = {
        "history_key": digest(
            [
                (entity_key.key, F.col(quote_identifier(entity_key.name)), frame.schema[entity_key.name].dataType),
                (started_at.key, at, TimestampType()),
            ]
        ),
        "started_at": at,
        "ended_at": F.lit(None).cast("timestamp"),
        "state": F.col(CHANGE),
        "run_id": F.lit(stamp.run_id),
        "loaded_at": stamp.loaded(),
        "closed_by": F.lit(None).cast("string"),
        "segment": F.lit(OPEN),
    }
    return frame.select(*(values.get(c.purpose, F.col(quote_identifier(c.name))).alias(c.name) for c in table.columns))


def _closing_values(change: Column, stamp: Stamp) -> dict[str, Column]:
    """What closing writes into a version, by the purpose of the column."""
    return {
        "ended_at": stamp.timestamp(),
        "state": change,
        "closed_by": F.lit(stamp.run_id),
        "segment": F.when(change == rules.DELETED, DELETED).otherwise(CLOSED),
    }


def _known_versions(difference: Difference, table: TableSpec, stamp: Stamp) -> DataFrame:
    """The versions that were open: closed where their key changed or went, else as they are."""
    closing = _closing_values(F.col(CHANGE), stamp)
    known = difference.where(rules.UNCHANGED, rules.CHANGED, rules.DELETED)

    def value(column) -> Column:
        old = F.col(f"{OLD}.{quote_identifier(column.name)}")
        if column.purpose not in closing:
            return old
        return F.when(F.col(CHANGE) == rules.UNCHANGED, old).otherwise(closing[column.purpose])

    return known.select(*(value(column).alias(column.name) for column in table.columns))


def _rewrite(session: SparkSession, history: DeltaTable, table: TableSpec, versions: DataFrame) -> None:
    """Replace the open segment and add to the others, in one commit.

    Delta's check that every row matches the predicate is off: the rows that do not are the
    versions this run closes, and they are meant to be added.
    """
    session.conf.set(_CONSTRAINT_CHECK, "false")
    try:
        (
            versions.write.format("delta")
            .mode("overwrite")
            .option("replaceWhere", f"{quote_identifier(table.column('segment').name)} = '{OPEN}'")
            .save(history.location)
        )
    finally:
        session.conf.unset(_CONSTRAINT_CHECK)


def _merge(
    session: SparkSession,
    history: DeltaTable,
    table: TableSpec,
    difference: Difference,
    opened: DataFrame,
    stamp: Stamp,
) -> None:
    from delta.tables import DeltaTable as Delta

    key = quote_identifier(table.column("entity_key").name)
    segment = quote_identifier(table.column("segment").name)
    closing = difference.where(rules.CHANGED, rules.DELETED).select(F.col(key).alias(_MERGE_KEY), F.col(CHANGE))
    source = opened.withColumn(_MERGE_KEY, F.lit(None).cast("string")).unionByName(closing, allowMissingColumns=True)
    updates = _closing_values(F.col(f"s.{CHANGE}"), stamp)
    (
        Delta.forPath(session, history.location)
        .alias("h")
        .merge(source.alias("s"), f"h.{key} = s.{_MERGE_KEY} AND h.{segment} = '{OPEN}'")
        .whenMatchedUpdate(
            set={f"h.{quote_identifier(table.column(purpose).name)}": value for purpose, value in updates.items()}
        )
        .whenNotMatchedInsert(
            condition=f"s.{_MERGE_KEY} IS NULL",
            values={f"h.{quote_identifier(c.name)}": F.col(f"s.{quote_identifier(c.name)}") for c in table.columns},
        )
        .execute()
    )


def segment_counts(history: DeltaTable, table: TableSpec) -> dict[str, int]:
    """Rows per segment; no column but the partition's is read."""
    segment = quote_identifier(table.column("segment").name)
    return {row[0]: row[1] for row in history.frame().groupBy(segment).count().collect()}
