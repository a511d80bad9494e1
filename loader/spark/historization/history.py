"""Historization of snapshots and deltas: history and rawcore tables of a load, and the policy in commit metadata.

The history is written in the cheapest of three ways:

* *append*, if no stored version changes: new versions are added, nothing is read.
* *rewrite*, for small tables: the files of the open segment are replaced, and closed versions added.
* *mark*, for large tables: changed versions are marked as deleted in their files, and written again
  with the new ones. The comparison has already read them; nothing is read a second time.

Rules: ``loader.domain.historization.history``. Segments: ``docs/understand/design.md``, Warehouse layout.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from architecture.domain.tables import CLOSED, DELETED, OPEN, TableSpec
from loader.domain.historization import history as rules
from loader.domain.historization.hashing import hashed_notes, hashed_set
from loader.domain.historization.history import Choices, eras_note, eras_with, form_note, refuse_other_form
from loader.domain.manifest.loads import RawcoreLoad
from loader.spark.historization.difference import CHANGE, KNOWN_HASH, OLD, UNTOUCHED, UPDATED, Difference
from loader.spark.historization.versions import LIVE, HistoryTable
from loader.spark.tables.commits import commit, open_files
from loader.spark.tables.table_files import PLACE, TableFiles
from loader.spark.tables.tables import DeltaTable, RunCommit
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.types import parse

_ALTERED = (rules.CHANGED, rules.DELETED, rules.REAPPEARED, UPDATED)
_OPENING = (rules.NEW, rules.REAPPEARED, rules.CHANGED)


@dataclass(frozen=True)
class Stamp:
    """Run id and times that a run writes into every row it changes; both times are ISO 8601.

    ``at`` dates the run's data. ``loaded_at`` is the clock time of the dataset's load, determined once so that every
    Spark job of the run writes the same value.
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
            removed = difference.where(*_ALTERED).select(f"{OLD}.{PLACE}")
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
    return history.rows(difference.where(*_OPENING), _opening_values(history, stamp, state, OPEN))


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
    """Return the versions that were open, closed where their key changed or was deleted, else updated or unchanged."""
    closing = _closing_values(history, F.col(CHANGE), stamp)
    closes = F.col(CHANGE).isin(rules.CHANGED, rules.DELETED, rules.REAPPEARED)
    updates = F.col(CHANGE) == UPDATED
    unchanged = (rules.UNCHANGED, UNTOUCHED) if difference.whole else ()
    by_name = {history.spec.column(purpose).name: value for purpose, value in closing.items()}
    row_hash = history.spec.column("row_hash").name
    in_place = {*difference.comparison.untracked, *_foreign_keys(history)} if difference[UPDATED] else set()
    rows = difference.recalled(known, *unchanged, *_ALTERED, given=_computed_hashes(history), needed=sorted(in_place))

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


def segment_counts(history: DeltaTable, table: TableSpec) -> dict[str, int]:
    """Return the number of rows per segment. Only the partition column is read."""
    segment = quote_identifier(table.column("segment").name)
    return {row[0]: row[1] for row in history.frame().groupBy(segment).count().collect()}


# Tables that a rawcore load writes.


@dataclass(frozen=True)
class Target:
    """Rawcore and, if it is historized, its history and event log.

    The leading table is committed first and decides which rows are new.
    """

    session: SparkSession
    warehouse: str
    load: RawcoreLoad
    rawcore: DeltaTable
    history: DeltaTable | None
    event_log: DeltaTable | None

    @classmethod
    def of(cls, session: SparkSession, warehouse: str, load: RawcoreLoad) -> "Target":
        def table(spec) -> DeltaTable | None:
            return DeltaTable(session, warehouse, spec.key) if spec else None

        rawcore = DeltaTable(session, warehouse, load.table.key)
        return cls(session, warehouse, load, rawcore, table(load.history), table(load.event_log))

    @property
    def leading(self) -> DeltaTable:
        return self.history or self.rawcore

    @cached_property
    def versions(self) -> HistoryTable:
        """Return the leading table with its columns by purpose."""
        return HistoryTable(self.session, self.leading, self.load)

    @cached_property
    def signed(self) -> RunCommit | None:
        """Return the newest commit of a run, as of the start of the load."""
        return self.leading.newest_run_commit()

    @cached_property
    def rawcore_files(self) -> TableFiles:
        key = tuple(column.name for column in self.load.table.of_purpose("entity_key"))
        return open_files(self.session, self.rawcore, key)

    def rawcore_rows(self) -> int:
        """Return the number of rawcore rows from file statistics; count them only if these are missing."""
        rows = self.rawcore_files.rows()
        return self.rawcore.rows() if rows is None else rows

    def segments(self) -> dict[str, int]:
        """Return the number of versions, and of open ones.

        They are read from the newest commit's metadata if a run made it, else counted.
        """
        assert self.history is not None
        assert self.load.history is not None
        signed = self.history.newest_run_commit()
        if signed is not None and signed.version == self.history.version() and signed.counts:
            return dict(signed.counts)
        if not self.versions.files.all:
            return {"versions": 0, "open": 0}
        counted = segment_counts(self.history, self.load.history)
        return {"versions": sum(counted.values()), "open": counted.get(OPEN, 0)}

    def open_rows(self) -> DataFrame:
        """Return the open live versions, or the rows of rawcore without a history, as of the start of the load."""
        if self.history is None:
            return self.rawcore_files.frame(self.rawcore_files.all)
        return self.versions.frame(OPEN)

    def current(self) -> DataFrame:
        """Return the rows that rawcore must have: the open live versions, with rawcore's columns."""
        assert self.history is not None
        assert self.load.history is not None
        versions = open_versions(self.history, self.load.history)
        names = []
        for column in self.load.table.columns:
            name = self.load.history.column(column.purpose).name if column.purpose in _RENAMED else column.name
            names.append(f"{quote_identifier(name)} AS {quote_identifier(column.name)}")
        return versions.selectExpr(*names)


# Purposes whose columns may have other names in the history than in rawcore.
_RENAMED = ("run_id", "loaded_at")


# Rawcore: the current rows, which must match the open versions of the history. Normally only the difference of the run
# is written. If an earlier run died after its history commit, rawcore is rebuilt from the open versions in one
# overwrite.


def follow(target: Target, difference: Difference, stamp: Stamp) -> None:
    """Write the difference to rawcore, in one commit."""
    added = (rules.NEW, rules.REAPPEARED, rules.CHANGED, UPDATED)
    if not any(difference[change] for change in (rules.CHANGED, rules.DELETED, UPDATED)):
        _commit(target, difference.in_few_files(_with_stamps(difference.where(*added), target.load.table, stamp)))
    elif difference.whole:
        live = difference.in_few_files(_rows_after(target, difference, stamp))
        _commit(target, live, remove=target.rawcore_files.all)
    else:
        rows = _with_stamps(difference.where(*added), target.load.table, stamp)
        _commit(target, rows, gone=_places(target, difference))


def _places(target: Target, difference: Difference) -> DataFrame:
    """Return the places of changed and removed rows, from the comparison if it read rawcore."""
    altered = difference.where(rules.CHANGED, rules.DELETED, UPDATED)
    if target.history is None:
        return altered.select(f"{OLD}.{PLACE}")
    return _places_of(target, altered)


def _places_of(target: Target, keys: DataFrame) -> DataFrame:
    key = quote_identifier(target.load.table.column("entity_key").name)
    files = target.rawcore_files
    rows = files.frame(files.all, placed=True).select(F.col(key).alias("__held"), PLACE)
    return rows.join(keys.select(key), F.col("__held") == F.col(key), "left_semi").select(PLACE)


def follow_live(target: Target, changes: DataFrame) -> None:
    """Write the ``__live`` rows of ``changes`` to rawcore and remove the other keys, in one commit."""
    table = target.load.table
    rows = changes.where("__live")
    for name, value in target.versions.derived(rows).items():
        rows = rows.withColumn(name, value)
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


# History policy in the commit metadata of a history: written by each load and read by the next.


def column_keys(load: RawcoreLoad) -> dict[str, str]:
    """Return the stable keys of a dataset's columns by name."""
    return {column.name: column.key or column.name for column in load.table.columns}


def columns_hashed(load: RawcoreLoad) -> str:
    """Return the columns that row hashes of this load cover, as recorded in commit metadata."""
    types = {column.name: parse(column.type).name for column in load.leading.columns}
    return hashed_set((part.key, types[part.column]) for part in load.row_hash)


def kept_hashes(load: RawcoreLoad, signed: RunCommit | None) -> dict[str, str]:
    """Return the notes on hashed columns for a history whose older versions keep their row hashes."""
    return hashed_notes(signed.notes if signed else None, columns_hashed(load))


def refuse_policy_changed(load: RawcoreLoad, signed: RunCommit | None) -> None:
    """Raise Refusal if the stored versions or events do not have the form of the present history policy."""
    if signed is None or (load.history is None and load.event_log is None):
        return
    refuse_other_form(
        name=load.name,
        policy=HistoryPolicy.from_dict(load.policy),
        keys=column_keys(load),
        noted=signed.notes,
        versions=signed.counts.get("versions"),
        historized=load.history is not None,
    )


def policy_notes(load: RawcoreLoad, signed: RunCommit | None) -> dict[str, str]:
    """Return the notes that record the history policy of versions dated by the load."""
    if load.history is None:
        return {}
    policy, keys = HistoryPolicy.from_dict(load.policy), column_keys(load)
    attributes = [(keys[column.name], column.name) for column in load.table.of_purpose("attribute")]
    noted = signed.notes if signed else {}
    return form_note(policy, keys) | eras_note(eras_with(noted, load.sequence, Choices.of(policy, attributes)))
