"""Queries on histories: time travel, changes of one run, paging by key."""

import json
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from architecture.domain.tables import OPEN, ColumnSpec, TableSpec
from loader.domain.historization.history import parse_instant
from loader.domain.queries.masking import must_not_choose_by
from loader.domain.queries.query_results import CAME_BACK, DELETED, INSERTED, UPDATED
from loader.domain.queries.row_selection import RowSelection
from loader.domain.refusals import Refusal
from loader.spark.pyspark_types import jvm_of, row_of
from loader.spark.queries.row_selections import select_rows
from loader.spark.tables.table_files import misses_version
from loader.spark.tables.tables import COLUMN, DeltaTable, properties_of
from metadata.domain import types
from metadata.domain.sensitivity import MASK
from metadata.domain.sql import quote_identifier

_NEEDED = ("entity_key", "business_key", "started_at", "ended_at", "state", "segment")
_PHYSICAL = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class Commit:
    """Version of a table and the clock time of its commit."""

    version: int
    at: datetime


def commit_known_at(table: DeltaTable, spec: TableSpec, known_at: str) -> Commit:
    """Return the newest commit at or before ``known_at`` (ISO 8601).

    Raise Refusal ``NOT_KNOWN_YET`` before the first commit, ``BEYOND_RETENTION`` before the oldest readable
    one.
    """
    instant = parse_instant(known_at)
    commit = _nearest_commit(table, instant)
    if commit.at <= instant:
        return commit
    if commit.version > 0:
        raise beyond_retention(spec, known_at)
    first = f"{commit.at:%Y-%m-%d %X} UTC"
    raise Refusal(
        "NOT_KNOWN_YET",
        f"{spec.qualified_name} was not there on {_shown(known_at)}: its first commit is of {first}",
        hint="This is the time of the clock, not the date of a load. Choose a later one, or leave it empty.",
    )


def _nearest_commit(table: DeltaTable, instant: datetime) -> Commit:
    """Return the newest commit at or before ``instant``; if all are later, the oldest that can be read."""
    jvm = jvm_of(table.spark)
    clock = jvm.java.sql.Timestamp(int(instant.timestamp() * 1000))
    last, recreatable, earliest = True, True, True
    history = table.snapshot().deltaLog().history()
    commit = history.getActiveCommitAtTime(clock, _scala_none(table), last, recreatable, earliest)
    return Commit(commit.version(), datetime.fromtimestamp(commit.timestamp() / 1000, UTC))


def frame_as_known(frame: DataFrame, table: DeltaTable, spec: TableSpec, version: int) -> DataFrame:
    """Return the frame of an earlier table version with the present names of its columns.

    Raise Refusal ``OTHER_LAYOUT`` if a technical column that queries need did not exist then.
    """
    names = present_names(frame, table, spec, version)
    lacking = [column.name for column in spec.of_purpose(*_NEEDED) if column.name not in names]
    if lacking:
        raise Refusal(
            "OTHER_LAYOUT",
            f"{spec.qualified_name} had no column {lacking[0]} then: its history was kept in another layout",
            hint="Choose a later time.",
        )
    return frame.select(
        *(F.col(quote_identifier(name)).alias(alias) for name, alias in zip(frame.columns, names, strict=True))
    )


def column_keys(table: DeltaTable, version: int) -> dict[str, str]:
    """Return the stable keys of a version's columns by their names in that version."""
    log = table.snapshot().deltaLog()
    metadata = log.getSnapshotAt(version, _scala_none(table), _scala_none(table), False).metadata()
    properties = properties_of(metadata.configuration())
    keys = {physical: name.removeprefix(COLUMN) for name, physical in properties.items() if name.startswith(COLUMN)}
    fields = json.loads(metadata.schema().json())["fields"]
    physical = {field["name"]: field["metadata"].get(_PHYSICAL, field["name"]) for field in fields}
    return {name: keys[own] for name, own in physical.items() if own in keys}


def present_names(frame: DataFrame, table: DeltaTable, spec: TableSpec, version: int) -> list[str]:
    """Return the present names of a version's columns, matched by stable key."""
    log = table.snapshot().deltaLog()
    metadata = log.getSnapshotAt(version, _scala_none(table), _scala_none(table), False).metadata()
    then = {
        field["metadata"].get(_PHYSICAL, field["name"]): field["name"]
        for field in json.loads(metadata.schema().json())["fields"]
    }
    pairs = ((column.name, metadata.configuration().get(COLUMN + column.key)) for column in spec.columns)
    names = {then[physical.get()]: name for name, physical in pairs if physical.isDefined() and physical.get() in then}
    return [names.get(name, name) for name in frame.columns]


def _scala_none(table: DeltaTable):
    return getattr(jvm_of(table.spark), "scala.Option").empty()


@contextmanager
def within_retention(spec: TableSpec, known_at: str) -> Iterator[None]:
    """Convert Delta's errors about missing files of a version into a Refusal."""
    try:
        yield
    except Exception as failure:
        if misses_version(failure):
            raise beyond_retention(spec, known_at) from None
        raise


def beyond_retention(spec: TableSpec, known_at: str) -> Refusal:
    return not_kept(f"what {spec.qualified_name} held on {_shown(known_at)}")


def not_kept(what: str) -> Refusal:
    """Return the refusal to read an earlier version whose log or files were removed."""
    return Refusal(
        "BEYOND_RETENTION",
        f"{what} is no longer kept",
        hint="Choose a later time. How long old versions are kept is the table's delta.deletedFileRetentionDuration "
        "and delta.logRetentionDuration; raising them helps from now on.",
    )


def _shown(instant: str) -> str:
    return f"{parse_instant(instant):%Y-%m-%d %X} UTC"


# Rows of a time.


def valid_at(frame: DataFrame, table: TableSpec, arguments: dict) -> DataFrame:
    """Return the rows whose interval ``[started_at, ended_at)`` contains the instant; open ones have no end."""
    at = _instant(arguments["at"], table.column("started_at"))
    started, ended, segment, state = (
        F.col(_name(table, purpose)) for purpose in ("started_at", "ended_at", "segment", "state")
    )
    not_ended = ended.isNull() | (segment == OPEN) | (ended > at)
    if arguments.get("inclusive_ends"):
        not_ended = not_ended | (ended == at)
    valid = frame.where((started <= at) & not_ended)
    if arguments.get("tombstone"):
        valid = valid.where(~state.eqNullSafe(arguments["tombstone"]))
    return after_key(valid, table, arguments).orderBy(*business_key(table))


def _instant(at: object, column: ColumnSpec) -> Column:
    """Return the requested instant in the type of the version start: a timestamp, its day, or a number."""
    dated_by = types.parse(column.type).name
    try:
        if dated_by in (types.INTEGER, types.BIGINT):
            return F.lit(int(str(at))).cast("bigint")
        instant = parse_instant(str(at))
    except ValueError:
        what = "a number" if dated_by in (types.INTEGER, types.BIGINT) else "a time like 2026-11-21T08:15:00Z"
        raise Refusal("BAD_INSTANT", f"versions are dated by {column.type} here, and {at!r} is not {what}") from None
    return F.lit(instant.isoformat()).cast("timestamp").cast("date" if dated_by == types.DATE else "timestamp")


def business_key(table: TableSpec) -> list[str]:
    """Return the columns of the business key, quoted."""
    return [quote_identifier(column.name) for column in table.of_purpose("business_key")]


# Paging by business key.


def after_key(frame: DataFrame, table: TableSpec, arguments: dict[str, Any]) -> DataFrame:
    """Return the rows whose business key follows ``after``; all rows without ``after``.

    The values of ``after`` are text, as in answers. Raise Refusal BAD_KEY if a column cannot hold its value.
    """
    after = arguments.get("after")
    if not after:
        return frame
    columns = [column.name for column in table.of_purpose("business_key")]
    values = [F.lit(str(after[name])).try_cast(frame.schema[name].dataType) for name in columns]
    # The optimizer evaluates these constants, so no data is read.
    checks = row_of(frame.sparkSession.range(1).select(*(value.isNotNull() for value in values)).first())
    for name, fits in zip(columns, checks or (), strict=True):
        if not fits:
            kind = frame.schema[name].dataType.simpleString()
            raise Refusal("BAD_KEY", f"{after[name]!r} is no value of {name}, which is {kind}", column=name)
    beyond, same = F.lit(False), F.lit(True)
    for name, value in zip(columns, values, strict=True):
        own = F.col(quote_identifier(name))
        beyond = beyond | (same & (own > value))
        same = same & (own == value)
    return frame.where(beyond)


# Changes of one run in a history: keys that it inserted, updated or deleted, and keys that reappeared.


_WROTE, _ENDED, _TOMBSTONED, _SINCE = "__wrote", "__ended", "__buried", "__since"
# Values of the sort column in the last version that the run wrote, and in the last one that it ended.
_NEW, _OLD = "__new", "__old"


def changes(
    frame: DataFrame, table: TableSpec, arguments: dict[str, Any], limit: int, masked: Collection[str] = ()
) -> dict[str, Any]:
    """Return the keys that the run ``run_id`` changed, as ``{"columns", "changes", "truncated"}``.

    Changes are in key order. ``op`` selects one kind, ``after`` the keys that follow a given key; a selection
    (``loader.domain.queries.row_selection``) those with a matching version that the run wrote or ended, in its order.
    Each change has the last version of the key that the run ended (``before``) and the last one it wrote (``after``),
    as text. Versions that were pruned or reverted since are missing.
    ``tombstone`` is the state label of rows that mark a deleted key.
    """
    run_versions, selection = _RunVersions.of(frame, table, arguments), RowSelection.from_arguments(arguments)
    keys = [quote_identifier(column.name) for column in table.of_purpose("business_key")]
    ordered = run_versions.keys(masked).orderBy(*_order(selection), *keys).offset(selection.offset)
    changed_keys = ordered.limit(limit + 1).collect()
    chosen, entity = changed_keys[:limit], table.column("entity_key").name
    ids = [row[entity] for row in chosen]
    if not ids:
        return {"columns": frame.columns, "changes": [], "truncated": False}
    of_these = F.col(_name(table, "entity_key")).isin(ids)
    flags = (run_versions.wrote.alias(_WROTE), run_versions.ended.alias(_ENDED))
    rows = (
        run_versions.versions.where(of_these)
        .orderBy(_name(table, "started_at"))
        .select(*_texts(frame), *flags)
        .collect()
    )
    new = {row[entity]: row[_SINCE] for row in chosen if row[_WROTE] and not row[_ENDED]}
    earlier = _existed_before(frame, table, new, run_versions.by_others) if new else set()
    by_key: dict[str, list[Row]] = {key: [] for key in ids}
    for row in rows:
        by_key[row[entity]].append(row)
    entries = [_change(row, entity, by_key[row[entity]], len(frame.columns), earlier) for row in chosen]
    return {"columns": frame.columns, "changes": entries, "truncated": len(changed_keys) > limit}


def changed_rows(
    frame: DataFrame, table: TableSpec, arguments: dict[str, Any], masked: Collection[str] = ()
) -> DataFrame:
    """Return the same changes as a row of texts each, in the same order, without a limit: nothing is collected.

    The columns are those of ``flat_rows``; values of masked columns are masks.
    """
    run_versions, selection = _RunVersions.of(frame, table, arguments), RowSelection.from_arguments(arguments)
    entity, start = _name(table, "entity_key"), F.col(_name(table, "started_at"))
    version = F.struct(*_texts(frame, masked))
    changed = run_versions.keys(
        masked,
        F.max_by(version, F.when(run_versions.ended, start)).alias("__before"),
        F.max_by(version, F.when(run_versions.wrote, start)).alias("__after"),
        F.count(F.lit(1)).cast("string").alias("__versions"),
    )
    first = F.min(start).alias("__first")
    others = frame.where(run_versions.by_others).groupBy(F.col(entity).alias("__other")).agg(first)
    changed = changed.join(others, F.col(entity) == F.col("__other"), "left")
    op = (
        F.when(~F.col(_WROTE), DELETED)
        .when(F.col(_ENDED), UPDATED)
        .when(F.col("__first") < F.col(_SINCE), CAME_BACK)
        .otherwise(INSERTED)
    )
    sides = [
        F.col(f"__{side}").getField(name).alias(f"{side}.{name}")
        for side in ("before", "after")
        for name in frame.columns
    ]
    keys = [quote_identifier(column.name) for column in table.of_purpose("business_key")]
    ordered = changed.orderBy(*_order(selection), *keys).offset(selection.offset)
    return ordered.select(
        op.alias("op"), F.col(entity).alias("entity_key"), F.col("__versions").alias("versions"), *sides
    )


def _texts(frame: DataFrame, masked: Collection[str] = ()) -> list[Column]:
    return [
        (F.lit(MASK) if name in masked else F.col(quote_identifier(name)).cast("string")).alias(name)
        for name in frame.columns
    ]


@dataclass(frozen=True)
class _RunVersions:
    """Versions that a run wrote or ended, and conditions on the versions of the table."""

    frame: DataFrame
    table: TableSpec
    arguments: dict[str, Any]
    opened: Column
    closed: Column
    live: Column

    @classmethod
    def of(cls, frame: DataFrame, table: TableSpec, arguments: dict[str, Any]) -> "_RunVersions":
        run = F.lit(str(arguments["run_id"]))
        live = F.lit(True)
        if arguments.get("tombstone"):
            live = ~F.col(_name(table, "state")).eqNullSafe(F.lit(arguments["tombstone"]))
        opened = F.col(_name(table, "run_id")).eqNullSafe(run)
        return cls(frame, table, arguments, opened, F.col(_name(table, "closed_by")).eqNullSafe(run), live)

    @property
    def versions(self) -> DataFrame:
        return self.frame.where(self.opened | self.closed)

    @property
    def wrote(self) -> Column:
        return self.opened & self.live

    @property
    def ended(self) -> Column:
        # A version that the run both wrote and ended did not exist before the run.
        return self.closed & ~self.opened & self.live

    @property
    def by_others(self) -> Column:
        return ~self.opened & self.live

    def keys(self, masked: Collection[str], *more: Column) -> DataFrame:
        """Return a row for each changed key that is asked for, with ``more`` aggregates of its versions."""
        table, arguments = self.table, self.arguments
        keys = [quote_identifier(column.name) for column in table.of_purpose("business_key")]
        selection = RowSelection.from_arguments(arguments)
        sort = F.col(quote_identifier(selection.sort)) if selection.sort else F.lit(None)
        start = F.col(_name(table, "started_at"))
        per_key = (
            _with_matching(self.versions, table, selection, masked)
            .groupBy(*keys, _name(table, "entity_key"))
            .agg(
                F.max(self.wrote).alias(_WROTE),
                F.max(self.ended).alias(_ENDED),
                F.max(self.opened & ~self.live).alias(_TOMBSTONED),
                F.min(F.when(self.wrote, start)).alias(_SINCE),
                F.max_by(sort, F.when(self.wrote, start)).alias(_NEW),
                F.max_by(sort, F.when(self.ended, start)).alias(_OLD),
                *more,
            )
        )
        op = arguments.get("op") or ""
        matching = after_key(per_key.where(_op_condition(op)), table, arguments)
        if op in (INSERTED, CAME_BACK):
            matching = _of_returns(matching, self.frame.where(self.by_others), table, came_back=op == CAME_BACK)
        return matching


def _with_matching(
    versions: DataFrame, table: TableSpec, selection: RowSelection, masked: Collection[str]
) -> DataFrame:
    """Return the versions of the keys of which a version matches the selection."""
    selection.check(versions.columns)
    must_not_choose_by(selection.columns, masked)
    if not (selection.find or selection.column):
        return versions
    entity = _name(table, "entity_key")
    chosen = replace(selection, sort="", offset=0)
    matching = select_rows(versions, table, chosen, masked, only_values=True).select(entity)
    return versions.join(matching.distinct(), table.column("entity_key").name, "left_semi")


def _order(selection: RowSelection) -> list[Column]:
    if not selection.sort:
        return []
    value = F.when(F.col(_WROTE), F.col(_NEW)).otherwise(F.col(_OLD))
    return [value.desc_nulls_last() if selection.descending else value.asc_nulls_last()]


def _name(table: TableSpec, purpose: str) -> str:
    return quote_identifier(table.column(purpose).name)


def _op_condition(op: str) -> Column:
    wrote, ended, tombstoned = F.col(_WROTE), F.col(_ENDED), F.col(_TOMBSTONED)
    return {
        INSERTED: wrote & ~ended,
        CAME_BACK: wrote & ~ended,
        UPDATED: wrote & ended,
        DELETED: ~wrote & (ended | tombstoned),
    }.get(op, wrote | ended | tombstoned)


def _of_returns(inserted: DataFrame, others: DataFrame, table: TableSpec, *, came_back: bool) -> DataFrame:
    """Return the inserted keys that came back, or those that did not, by the versions of other runs."""
    entity, started_at = _name(table, "entity_key"), _name(table, "started_at")
    earlier = others.select(F.col(entity).alias("__other"), F.col(started_at).alias("__start"))
    is_earlier = (F.col(entity) == F.col("__other")) & (F.col("__start") < F.col(_SINCE))
    return inserted.join(earlier, is_earlier, "left_semi" if came_back else "left_anti")


def _existed_before(frame: DataFrame, table: TableSpec, since: dict[str, Any], by_others: Column) -> set[str]:
    """Return the keys with a version of another run that starts before the first version of this run.

    Later versions do not count, so a key stays new when a later run updates it.
    """
    entity = F.col(_name(table, "entity_key"))
    first = F.min(_name(table, "started_at")).alias("first")
    others = frame.where(by_others & entity.isin(list(since))).groupBy(entity.alias("key")).agg(first)
    return {row["key"] for row in others.collect() if row["first"] < since[row["key"]]}


def _change(row: Row, entity: str, versions: list[Row], width: int, earlier: set[str]) -> dict[str, Any]:
    before = next((version for version in reversed(versions) if version[_ENDED]), None)
    after = next((version for version in reversed(versions) if version[_WROTE]), None)
    return {
        "op": _op(row, row[entity] in earlier),
        "key": row[entity],
        "before": list(before)[:width] if before is not None else None,
        "after": list(after)[:width] if after is not None else None,
        "versions": len(versions),
    }


def _op(row: Row, seen_before: bool) -> str:
    if not row[_WROTE]:
        return DELETED
    if row[_ENDED]:
        return UPDATED
    return CAME_BACK if seen_before else INSERTED
