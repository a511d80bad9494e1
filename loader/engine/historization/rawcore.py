"""Writes of rawcore: the current rows, which must match the open versions of the history.

Normally only the difference of the run is written. If an earlier run died after its history commit, rawcore is rebuilt
from the open versions in one overwrite.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain.historization import history as rules
from loader.engine.historization.difference import CHANGE, KNOWN_HASH, OLD, UNTOUCHED, UPDATED, Difference
from loader.engine.historization.targets import Stamp, Target
from loader.engine.tables.commits import commit
from loader.engine.tables.table_files import PLACE
from metadata.domain.sql import quote_identifier


def write_rawcore(target: Target, difference: Difference, stamp: Stamp) -> None:
    """Write the difference to rawcore, in one commit."""
    added = (rules.NEW, rules.REAPPEARED, rules.CHANGED, UPDATED)
    touches = any(difference[change] for change in (rules.CHANGED, rules.DELETED, UPDATED))
    if not touches and not difference.comparison.refreshed:
        _commit(target, difference.in_few_files(_with_stamps(difference.where(*added), target.load.table, stamp)))
    elif difference.whole:
        live = difference.in_few_files(_rows_after(target, difference, stamp))
        _commit(target, live, remove=target.rawcore_files.all)
    else:
        rows = _with_stamps(difference.where(*added), target.load.table, stamp)
        _commit(target, rows, gone=_places(target, difference))


def _places(target: Target, difference: Difference) -> DataFrame:
    """Return the places of changed and deleted rows in rawcore.

    Without a history the comparison read rawcore and has them; otherwise rawcore is joined with their keys.
    """
    altered = difference.where(rules.CHANGED, rules.DELETED, UPDATED)
    if target.history is None:
        return altered.select(f"{OLD}.{PLACE}")
    return _places_of(target, altered)


def _places_of(target: Target, keys: DataFrame) -> DataFrame:
    key = quote_identifier(target.load.table.column("entity_key").name)
    files = target.rawcore_files
    rows = files.frame(files.all, placed=True).select(F.col(key).alias("__stored_key"), PLACE)
    return rows.join(keys.select(key), F.col("__stored_key") == F.col(key), "left_semi").select(PLACE)


def write_live_rows(target: Target, changes: DataFrame) -> None:
    """Write the rows of ``changes`` that are ``__live`` to rawcore, and delete the other keys, in one commit."""
    table = target.load.table
    rows = target.versions.with_derived(changes.where("__live"))
    own = {table.column("run_id").name: "__opened", table.column("loaded_at").name: "__loaded"}
    put = rows.select(*(F.col(quote_identifier(own.get(c.name, c.name))).alias(c.name) for c in table.columns))
    _commit(target, put, gone=_places_of(target, changes) if target.rawcore_files.all else None)


def add_rows(target: Target, rows: DataFrame, stamp: Stamp) -> None:
    """Add hashed rows of stage to rawcore, in one commit."""
    _commit(target, _with_stamps(rows, target.load.table, stamp))


def rebuild(target: Target) -> None:
    """Replace rawcore with the history's open versions."""
    _commit(target, target.current(), remove=target.rawcore_files.all)


def _commit(target: Target, rows: DataFrame, *, remove: list | None = None, gone: DataFrame | None = None) -> None:
    types = {field.name: field.dataType for field in target.rawcore.schema().fields}
    typed = rows.select(*(
        (F.col(quote_identifier(name)) if name in rows.columns else F.lit(None)).cast(type_).alias(name)
        for name, type_ in types.items()
    ))  # fmt: skip
    commit(
        target.rawcore_files,
        target.load.table.key,
        target.load.sequence,
        add=typed,
        remove=remove,
        gone=gone,
        gone_from=target.rawcore_files.all,
    )


def _stamps(table: TableSpec, stamp: Stamp) -> dict[str, Column]:
    return {table.column("run_id").name: F.lit(stamp.run_id), table.column("loaded_at").name: stamp.loaded()}


def _with_stamps(frame: DataFrame, table: TableSpec, stamp: Stamp) -> DataFrame:
    """Return rows of stage with every column of rawcore."""
    return frame.withColumns(_stamps(table, stamp)).select(*(quote_identifier(c.name) for c in table.columns))


def _rows_after(target: Target, difference: Difference, stamp: Stamp) -> DataFrame:
    """Return all rawcore rows after the run: delivered rows, and unchanged ones with their stored values."""
    table, known = target.load.table, target.load.leading
    stamps = _stamps(table, stamp)
    stored = {table.column(purpose).name: known.column(purpose).name for purpose in ("run_id", "loaded_at")}
    is_unchanged = F.col(CHANGE).isin(rules.UNCHANGED, UNTOUCHED)
    row_hash = table.column("row_hash").name

    def value(name: str) -> Column:
        delivered = stamps.get(name, F.col(quote_identifier(name)))
        old = F.col(KNOWN_HASH) if name == row_hash else F.col(f"{OLD}.{quote_identifier(stored.get(name, name))}")
        return F.when(is_unchanged, old).otherwise(delivered)

    live = difference.where(rules.UNCHANGED, UNTOUCHED, UPDATED, rules.NEW, rules.REAPPEARED, rules.CHANGED)
    return live.select(*(value(column.name).alias(column.name) for column in table.columns))
