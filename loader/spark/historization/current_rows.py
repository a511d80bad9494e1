"""History batches that are computed from open versions (``loader.domain.manifest.loads.CurrentRows``)."""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN
from loader.domain.manifest.loads import CurrentRows
from loader.domain.reference.batch_files import DELETE, END, FILES, UPSERT
from loader.spark.expressions import all_of
from loader.spark.historization.file_batches import as_rows
from loader.spark.historization.history import Target
from loader.spark.historization.history_files import as_text
from metadata.domain.sql import quote_identifier
from metadata.domain.types import BINARY, parse


def frames_of(target: Target, rows: CurrentRows) -> dict[str, DataFrame]:
    """Return the batch as frames of text, by kind of file; kinds without rows have a frame without columns."""
    versions = target.versions
    none = as_rows(target.session, [])
    if not versions.files.all:
        return dict.fromkeys(FILES, none)
    frame = (_last_ended(target) if rows.ended else versions.frame(OPEN)).where(_selected(rows))
    start = F.greatest(F.lit(rows.at).cast("timestamp"), F.col(versions.name("started_at"))).cast("string")
    keys = [column.name for column in versions.business_key]
    if rows.deletes:
        chosen = frame.select(*(_text(frame, target, name).alias(name) for name in keys), start.alias(END))
        return dict.fromkeys(FILES, none) | {DELETE: chosen}
    names = [column.name for column in versions.spec.of_purpose("attribute") if column.name in versions.types]
    values = (_value(frame, target, rows, name).alias(name) for name in names)
    time = start.alias(versions.policy.time)
    chosen = frame.select(*(_text(frame, target, name).alias(name) for name in keys), *values, time)
    return dict.fromkeys(FILES, none) | {UPSERT: chosen}


def _last_ended(target: Target) -> DataFrame:
    """Return the last version of each key that has no open version."""
    versions = target.versions
    newest = Window.partitionBy(versions.name("entity_key")).orderBy(F.desc(versions.name("started_at")))
    last = versions.frame().withColumn("__place", F.row_number().over(newest)).where("__place = 1")
    return last.where(~F.col(versions.name("active"))).drop("__place")


def _selected(rows: CurrentRows) -> Column:
    conditions = [F.col(quote_identifier(name)) < F.lit(time).cast("timestamp") for name, time in rows.before.items()]
    conditions += [F.col(quote_identifier(name)).cast("string") == text for name, text in rows.equal.items()]
    if rows.having:
        conditions.append(F.col(quote_identifier(rows.having)).isNotNull())
    return all_of(conditions)


def _value(frame: DataFrame, target: Target, rows: CurrentRows, name: str) -> Column:
    if name in rows.values:
        return F.lit(rows.values[name]).cast("string")
    return _text(frame, target, rows.copies.get(name, name))


def _text(frame: DataFrame, target: Target, name: str) -> Column:
    described = {column.name: parse(column.type).name for column in target.versions.spec.columns}
    return as_text(F.col(quote_identifier(name)), frame.schema[name].dataType, described.get(name) == BINARY)
