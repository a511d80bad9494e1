"""Rawcore on Delta: current truth follows the history's open versions.

The usual way writes from the run's difference. Where an earlier run's history is not in rawcore
yet (a crash between the two commits), rawcore is rebuilt from the open versions in one overwrite.
"""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain import history as rules
from loader.spark.difference import CHANGE, OLD, Difference
from loader.spark.history import Stamp, open_versions
from loader.spark.session import transaction
from loader.spark.tables import DeltaTable
from metadata.domain.sql import quote_identifier


def follow(
    session: SparkSession, rawcore: DeltaTable, table: TableSpec, difference: Difference, stamp: Stamp, sequence: int
) -> None:
    """Bring rawcore from the known rows to the delivered ones, in one commit."""
    with transaction(session, table.key, sequence):
        if not difference.closes:
            added = _stamped(difference.where(rules.NEW), table, stamp)
            difference.in_few_files(added).write.format("delta").mode("append").save(rawcore.location)
        elif difference.whole:
            live = difference.in_few_files(_live(difference, table, stamp))
            live.write.format("delta").mode("overwrite").save(rawcore.location)
        else:
            _merge(session, rawcore, table, difference, stamp)


def rebuild(
    session: SparkSession,
    rawcore: DeltaTable,
    table: TableSpec,
    history: DeltaTable,
    history_table: TableSpec,
    sequence: int,
) -> None:
    """Overwrite rawcore with the open versions: what it must hold after any run."""
    names = [quote_identifier(column.name) for column in table.columns]
    with transaction(session, table.key, sequence):
        current = open_versions(history, history_table).select(*names)
        current.write.format("delta").mode("overwrite").save(rawcore.location)


def _stamps(table: TableSpec, stamp: Stamp) -> dict[str, Column]:
    return {table.column("run_id").name: F.lit(stamp.run_id), table.column("loaded_at").name: stamp.loaded()}


def _stamped(frame: DataFrame, table: TableSpec, stamp: Stamp) -> DataFrame:
    """Stage's rows with every column of rawcore."""
    return frame.withColumns(_stamps(table, stamp)).select(*(quote_identifier(c.name) for c in table.columns))


def _live(difference: Difference, table: TableSpec, stamp: Stamp) -> DataFrame:
    """Every row that is there after the run: delivered ones, and unchanged ones as they were known."""
    stamps = _stamps(table, stamp)

    def value(name: str) -> Column:
        delivered = stamps.get(name, F.col(quote_identifier(name)))
        return F.when(F.col(CHANGE) == rules.UNCHANGED, F.col(f"{OLD}.{quote_identifier(name)}")).otherwise(delivered)

    live = difference.where(rules.UNCHANGED, rules.NEW, rules.CHANGED)
    return live.select(*(value(column.name).alias(column.name) for column in table.columns))


def _merge(session: SparkSession, rawcore: DeltaTable, table: TableSpec, difference: Difference, stamp: Stamp) -> None:
    from delta.tables import DeltaTable as Delta

    key = quote_identifier(table.column("entity_key").name)
    changes = difference.frame.withColumns(_stamps(table, stamp))
    values = {f"r.{quote_identifier(c.name)}": F.col(f"s.{quote_identifier(c.name)}") for c in table.columns}
    (
        Delta.forPath(session, rawcore.location)
        .alias("r")
        .merge(changes.alias("s"), f"r.{key} = s.{key}")
        .whenMatchedDelete(condition=f"s.{CHANGE} = '{rules.DELETED}'")
        .whenMatchedUpdate(set=values)
        .whenNotMatchedInsert(condition=f"s.{CHANGE} <> '{rules.DELETED}'", values=values)
        .execute()
    )
