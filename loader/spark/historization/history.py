"""Historization of snapshots and deltas dated by the load: one difference becomes one atomic commit.

The cheapest of three ways is used:

* *append*, if no stored version changes: new versions are added, nothing is read.
* *rewrite*, for small tables: the open segment's files are replaced, and closed versions added.
* *mark*, for large tables: changed versions are marked as deleted in their files, and written again
  with the new ones. The comparison has already read them; nothing is read a second time.

Rules: ``loader.domain.historization.history``. Segments: ``docs/understand/design.md``, Warehouse layout.
"""

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.states.tables import CLOSED, DELETED, OPEN, TableSpec
from loader.domain.historization import history as rules
from loader.spark.historization.difference import CHANGE, KNOWN_HASH, OLD, UNTOUCHED, UPDATED, Difference
from loader.spark.historization.versions import LIVE, HistoryTable
from loader.spark.tables.commits import PLACE, commit
from loader.spark.tables.tables import DeltaTable
from metadata.domain.sql import quote_identifier

_ALTERED = (rules.CHANGED, rules.DELETED, rules.REAPPEARED, UPDATED)
_OPENING = (rules.NEW, rules.REAPPEARED, rules.CHANGED)


@dataclass(frozen=True)
class Stamp:
    """Run id and times that a run writes into every row it changes; both times are ISO 8601.

    ``at`` dates the run's data; ``loaded_at`` is the clock time of the dataset's load, fixed once so that
    every Spark job of the run writes the same value.
    """

    run_id: str
    at: str
    loaded_at: str

    def timestamp(self) -> Column:
        return F.lit(self.at).cast("timestamp")

    def loaded(self) -> Column:
        return F.lit(self.loaded_at).cast("timestamp")


def open_versions(history: DeltaTable, table: TableSpec) -> DataFrame:
    """Return the open live versions; the partitions of other versions are not read."""
    return history.frame().where(F.col(quote_identifier(table.column("segment").name)) == OPEN)


def reappeared(difference: Difference, history: HistoryTable) -> int:
    """Return the number of new keys that had been deleted before; only the segment of ended keys is read."""
    if not difference[rules.NEW] or history.tombstones or not history.files_of(DELETED):
        return 0
    key = history.name("entity_key")
    gone = history.frame(DELETED).select(F.col(key).alias("__gone"))
    new = difference.where(rules.NEW).select(key)
    return new.join(gone, F.col(key) == F.col("__gone"), "left_semi").count()


def write_history(history: HistoryTable, difference: Difference, stamp: Stamp, sequence: int) -> None:
    """Close and open versions in one commit that carries the table's transaction id and number."""
    rows = _opened(history, difference, stamp)
    segments = (OPEN, DELETED) if history.tombstones else (OPEN,)
    files, replaced, gone = history.files_of(*segments), None, None
    if difference.touches:
        known = history.files.frame(files, placed=not difference.whole)
        rows = rows.unionByName(_known_versions(history, difference, known, stamp))
        if history.tombstones and difference[rules.DELETED]:
            rows = rows.unionByName(_tombstones(history, difference, known, stamp))
        if difference.whole:
            replaced = files
        else:
            gone = difference.where(*_ALTERED).select(f"{OLD}.{PLACE}")
    commit(
        history.files,
        history.spec.key,
        sequence,
        add=difference.in_few_files(rows),
        remove=replaced,
        gone=gone,
        gone_from=files,
    )


def _opened(history: HistoryTable, difference: Difference, stamp: Stamp) -> DataFrame:
    """Return the versions this run opens, with every column of the history table."""
    is_change = F.col(CHANGE) == rules.CHANGED
    state = F.lit(LIVE) if history.tombstones else F.when(is_change, rules.CHANGED).otherwise(rules.NEW)
    return history.rows(difference.where(*_OPENING), _opening_values(history, stamp, state, OPEN))


def _tombstones(history: HistoryTable, difference: Difference, known: DataFrame, stamp: Stamp) -> DataFrame:
    """Return the tombstones of deleted keys (rule 15): their last values, deleted from this run on."""
    gone = difference.recalled(known, rules.DELETED, given=_given(history)).select(f"{OLD}.*")
    return history.rows(gone, _opening_values(history, stamp, F.lit(rules.DELETED), DELETED))


def _opening_values(history: HistoryTable, stamp: Stamp, state: Column, segment: str) -> dict[str, Column]:
    at = stamp.timestamp()
    return {
        "history_key": history.history_key(F.col(history.name("entity_key")), at),
        "started_at": at,
        "updated_at": at,
        "ended_at": history.open_until,
        "state": history.label(state),
        "active": F.lit(segment == OPEN),
        "run_id": F.lit(stamp.run_id),
        "loaded_at": stamp.loaded(),
        "closed_by": F.lit(None),
        "closed_at": F.lit(None),
        "segment": F.lit(segment),
    }


def _closing_values(history: HistoryTable, change: Column, stamp: Stamp) -> dict[str, Column]:
    """Return the values that closing writes into a version, by column purpose."""
    tombstones = history.tombstones
    state = F.when(change == rules.REAPPEARED, rules.DELETED).otherwise(LIVE if tombstones else change)
    ends_key = (change == rules.DELETED) & F.lit(not tombstones)
    values = {
        "ended_at": stamp.timestamp(),
        "state": history.label(state),
        "active": F.lit(False),
        "closed_by": F.lit(stamp.run_id),
        "closed_at": stamp.loaded(),
        "segment": F.when(ends_key, DELETED).otherwise(CLOSED),
    }
    present = {column.purpose for column in history.spec.columns}
    return {purpose: value for purpose, value in values.items() if purpose in present}


def _known_versions(history: HistoryTable, difference: Difference, known: DataFrame, stamp: Stamp) -> DataFrame:
    """Return the versions that were open: closed if their key changed or was deleted, updated, or unchanged."""
    closing = _closing_values(history, F.col(CHANGE), stamp)
    closes = F.col(CHANGE).isin(rules.CHANGED, rules.DELETED, rules.REAPPEARED)
    updates = F.col(CHANGE) == UPDATED
    kept = (rules.UNCHANGED, UNTOUCHED) if difference.whole else ()
    by_name = {history.spec.column(purpose).name: value for purpose, value in closing.items()}
    row_hash = history.spec.column("row_hash").name
    in_place = {*difference.comparison.untracked, *_foreign_keys(history)} if difference[UPDATED] else set()
    rows = difference.recalled(known, *kept, *_ALTERED, given=_given(history), needed=sorted(in_place))

    def value(name: str) -> Column:
        old = F.col(f"{OLD}.{quote_identifier(name)}")
        if name in by_name:
            return F.when(closes, by_name[name]).otherwise(old)
        if name == row_hash:
            return F.when(closes, old).otherwise(F.col(KNOWN_HASH))
        if name in in_place:
            return F.when(updates, F.col(quote_identifier(name))).otherwise(old)
        return old

    return rows.select(*(value(name).alias(name) for name in history.physical))


def _given(history: HistoryTable) -> dict[str, Callable[[str], Column]]:
    """Return functions that compute a version's three hashes, so that these large columns need not be read."""
    entity_key, started_at = history.spec.column("entity_key").name, history.spec.column("started_at").name

    def history_key(held: str) -> Column:
        started = F.col(f"{held}.{quote_identifier(started_at)}")
        return history.history_key(F.col(quote_identifier(entity_key)), started)

    return {
        entity_key: lambda _: F.col(quote_identifier(entity_key)),
        history.spec.column("row_hash").name: lambda _: F.col(KNOWN_HASH),
        history.spec.column("history_key").name: history_key,
    }


def _foreign_keys(history: HistoryTable) -> tuple[str, ...]:
    return tuple(key.column for key in history.load.foreign_keys)


def segment_counts(history: DeltaTable, table: TableSpec) -> dict[str, int]:
    """Return the number of rows per segment; only the partition column is read."""
    segment = quote_identifier(table.column("segment").name)
    return {row[0]: row[1] for row in history.frame().groupBy(segment).count().collect()}
