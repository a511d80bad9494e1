"""Writes of the history of snapshots and deltas, in the cheapest of three ways.

* *append*: no stored version changes; new versions are added.
* *rewrite*, for small tables: the files of the open segment are replaced, and closed versions are added.
* *mark*, for large tables: changed versions get deletion vectors, and are written again together with the new ones.

None of them reads the history again after the comparison.

Rules: ``loader.domain.historization.history``. Segments: ``docs/understand/design.md``, Warehouse layout.
"""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, DELETED, OPEN
from loader.domain.historization import history as rules
from loader.engine.historization.difference import (
    ALTERED,
    CHANGE,
    KNOWN_HASH,
    OLD,
    OPENING,
    UNTOUCHED,
    UPDATED,
    Difference,
)
from loader.engine.historization.targets import Stamp
from loader.engine.historization.versions import LIVE, HistoryTable
from loader.engine.tables.commits import commit
from loader.engine.tables.table_files import PLACE
from metadata.domain.sql import quote_identifier


def count_reappeared(difference: Difference, history: HistoryTable) -> int:
    """Return the number of new keys that had been deleted before, from the segment of deleted keys."""
    if not difference[rules.NEW] or history.tombstones or not history.files_of(DELETED):
        return 0
    key = history.name("entity_key")
    deleted = history.frame(DELETED).select(F.col(key).alias("__gone"))
    new = difference.where(rules.NEW).select(key)
    return new.join(deleted, F.col(key) == F.col("__gone"), "left_semi").count()


def write_history(history: HistoryTable, difference: Difference, stamp: Stamp, sequence: int) -> None:
    """Close and open versions in one commit with the table's application id and version (``txnAppId``)."""
    rows = _opened_versions(history, difference, stamp)
    segments = (OPEN, DELETED) if history.tombstones else (OPEN,)
    files, replaced, removed = history.files_of(*segments), None, None
    if difference.touches:
        known = history.files.frame(files, placed=not difference.whole)
        rows = rows.unionByName(_formerly_open_versions(history, difference, known, stamp))
        if history.tombstones and difference[rules.DELETED]:
            rows = rows.unionByName(_tombstones(history, difference, known, stamp))
        if difference.whole:
            replaced = files
        else:
            removed = difference.where(*ALTERED).select(f"{OLD}.{PLACE}")
    commit(
        history.files,
        history.spec.key,
        sequence,
        add=difference.in_few_files(rows),
        remove=replaced,
        gone=removed,
        gone_from=files,
    )


def _opened_versions(history: HistoryTable, difference: Difference, stamp: Stamp) -> DataFrame:
    """Return the versions that this run opens, with every column of the history table."""
    is_change = F.col(CHANGE) == rules.CHANGED
    state = F.lit(LIVE) if history.tombstones else F.when(is_change, rules.CHANGED).otherwise(rules.NEW)
    return history.rows(difference.where(*OPENING), _opening_values(history, stamp, state, OPEN))


def _tombstones(history: HistoryTable, difference: Difference, known: DataFrame, stamp: Stamp) -> DataFrame:
    """Return the tombstones of deleted keys (rule 15), with their last values, from this run on."""
    deleted = difference.recalled(known, rules.DELETED, given=_computed_hashes(history)).select(f"{OLD}.*")
    return history.rows(deleted, _opening_values(history, stamp, F.lit(rules.DELETED), DELETED))


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


def _formerly_open_versions(history: HistoryTable, difference: Difference, known: DataFrame, stamp: Stamp) -> DataFrame:
    """Return the previously open versions as this run leaves them.

    They are closed if their row changed or was deleted (a tombstone: if its key reappeared), updated in place if only
    untracked columns or foreign keys differ, otherwise unchanged.
    """
    closing = _closing_values(history, F.col(CHANGE), stamp)
    closes = F.col(CHANGE).isin(rules.CHANGED, rules.DELETED, rules.REAPPEARED)
    updates = F.col(CHANGE) == UPDATED
    unchanged = (rules.UNCHANGED, UNTOUCHED) if difference.whole else ()
    by_name = {history.spec.column(purpose).name: value for purpose, value in closing.items()}
    row_hash = history.spec.column("row_hash").name
    in_place = {*difference.comparison.untracked, *_foreign_keys(history)} if difference[UPDATED] else set()
    rows = difference.recalled(known, *unchanged, *ALTERED, given=_computed_hashes(history), needed=sorted(in_place))

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


def _computed_hashes(history: HistoryTable) -> dict[str, Callable[[str], Column]]:
    """Return functions that compute the three hashes of a version, so that these large columns need not be read."""
    entity_key, started_at = history.spec.column("entity_key").name, history.spec.column("started_at").name

    def history_key(struct: str) -> Column:
        started = F.col(f"{struct}.{quote_identifier(started_at)}")
        return history.history_key(F.col(quote_identifier(entity_key)), started)

    return {
        entity_key: lambda _: F.col(quote_identifier(entity_key)),
        history.spec.column("row_hash").name: lambda _: F.col(KNOWN_HASH),
        history.spec.column("history_key").name: history_key,
    }


def _foreign_keys(history: HistoryTable) -> tuple[str, ...]:
    return tuple(key.column for key in history.load.foreign_keys)
