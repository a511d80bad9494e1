"""History batches that are computed from versions (``loader.contract.manifest.loads.ComputedRows``)."""

from dataclasses import replace

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN
from loader.contract.manifest.loads import ComputedRows
from loader.domain.reference.batch_files import ACTIVE, DELETE, END, FILES, UPSERT
from loader.engine.expressions import all_of
from loader.engine.historization.history_batches.history_files import as_rows, as_text
from loader.engine.historization.targets import Target
from loader.engine.historization.versions import HistoryTable
from loader.engine.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier
from metadata.domain.types import BINARY, parse


def frames_of(target: Target, rows: ComputedRows) -> dict[str, DataFrame]:
    """Return the batch as frames of text, by kind of file; kinds without rows have a frame without columns."""
    versions = _versions(target, rows)
    frames = dict.fromkeys(FILES, as_rows(target.session, []))
    if not versions.files.all:
        return frames
    current = (_last_ended(versions) if rows.ended else versions.frame(OPEN)).where(_selected(rows))
    started = F.col(versions.name("started_at"))
    at = F.greatest(F.lit(rows.at).cast("timestamp"), started).cast("string")
    keys = [column.name for column in target.versions.business_key]
    time = target.versions.policy.time
    if rows.deletes:
        frames[DELETE] = current.select(*_values(current, versions, rows, keys), at.alias(END))
    names = [*keys, *_attributes(target, rows)]
    if rows.every:
        every, active = versions.frame(), F.col(versions.name("active"))
        end = F.when(~active, F.col(versions.name("ended_at"))).cast("string")
        times = (started.cast("string").alias(time), end.alias(END), active.cast("string").alias(ACTIVE))
        frames[UPSERT] = every.select(*_values(every, versions, rows, names), *times)
    elif not rows.deletes:
        frames[UPSERT] = current.select(*_values(current, versions, rows, names), at.alias(time))
    return frames


def _versions(target: Target, rows: ComputedRows) -> HistoryTable:
    """Return the history whose versions are taken."""
    if rows.history is None:
        return target.versions
    table = DeltaTable(target.session, target.warehouse, rows.history.key)
    return HistoryTable(target.session, table, replace(target.load, history=rows.history), target.former_keys)


def _attributes(target: Target, rows: ComputedRows) -> list[str]:
    """Return the data columns of the batch; versions that are written again keep the values of retired columns."""
    versions = target.versions
    names = [column.name for column in versions.spec.of_purpose("attribute") if column.name in versions.types]
    if rows.history is not None:
        return [name for name in names if name in rows.copies or name in rows.values]
    described = {column.name for column in versions.spec.columns}
    return names + [name for name in versions.physical if rows.every and name not in described]


def _last_ended(versions: HistoryTable) -> DataFrame:
    """Return the last version of each key that has no open version."""
    newest = Window.partitionBy(versions.name("entity_key")).orderBy(F.desc(versions.name("started_at")))
    last = versions.frame().withColumn("__place", F.row_number().over(newest)).where("__place = 1")
    return last.where(~F.col(versions.name("active"))).drop("__place")


def _selected(rows: ComputedRows) -> Column:
    conditions = [F.col(quote_identifier(name)) < F.lit(time).cast("timestamp") for name, time in rows.before.items()]
    conditions += [F.col(quote_identifier(name)).cast("string") == text for name, text in rows.equal.items()]
    if rows.having:
        conditions.append(F.col(quote_identifier(rows.having)).isNotNull())
    return all_of(conditions)


def _values(frame: DataFrame, versions: HistoryTable, rows: ComputedRows, names: list[str]) -> list[Column]:
    """Return the batch's columns as text, of the columns that ``frame`` has for them."""
    described = {column.name: parse(column.type).name for column in versions.spec.columns}
    columns = []
    for name in names:
        taken = rows.copies.get(name, name)
        if name in rows.values:
            column = F.lit(rows.values[name]).cast("string")
        else:
            type_ = frame.schema[taken].dataType
            column = as_text(F.col(quote_identifier(taken)), type_, described.get(taken) == BINARY)
        columns.append(column.alias(name))
    return columns
