"""Changes of one run in a history: keys that it inserted, updated or deleted, and keys that reappeared."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from architecture.domain.tables import TableSpec
from loader.domain.queries.masking import must_not_choose_by
from loader.domain.queries.row_selection import RowSelection
from loader.domain.queries.run_changes import CAME_BACK, DELETED, INSERTED, UPDATED
from loader.engine.queries.row_selections import after_key, quoted_column, select_rows
from metadata.domain.sensitivity import MASK
from metadata.domain.sql import quote_identifier

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
    of_these = F.col(quoted_column(table, "entity_key")).isin(ids)
    flags = (run_versions.wrote.alias(_WROTE), run_versions.ended.alias(_ENDED))
    rows = (
        run_versions.versions.where(of_these)
        .orderBy(quoted_column(table, "started_at"))
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
    entity, start = quoted_column(table, "entity_key"), F.col(quoted_column(table, "started_at"))
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
            live = ~F.col(quoted_column(table, "state")).eqNullSafe(F.lit(arguments["tombstone"]))
        opened = F.col(quoted_column(table, "run_id")).eqNullSafe(run)
        return cls(frame, table, arguments, opened, F.col(quoted_column(table, "closed_by")).eqNullSafe(run), live)

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
        start = F.col(quoted_column(table, "started_at"))
        per_key = (
            _with_matching(self.versions, table, selection, masked)
            .groupBy(*keys, quoted_column(table, "entity_key"))
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
    entity = quoted_column(table, "entity_key")
    chosen = replace(selection, sort="", offset=0)
    matching = select_rows(versions, table, chosen, masked, only_values=True).select(entity)
    return versions.join(matching.distinct(), table.column("entity_key").name, "left_semi")


def _order(selection: RowSelection) -> list[Column]:
    if not selection.sort:
        return []
    value = F.when(F.col(_WROTE), F.col(_NEW)).otherwise(F.col(_OLD))
    return [value.desc_nulls_last() if selection.descending else value.asc_nulls_last()]


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
    entity, started_at = quoted_column(table, "entity_key"), quoted_column(table, "started_at")
    earlier = others.select(F.col(entity).alias("__other"), F.col(started_at).alias("__start"))
    is_earlier = (F.col(entity) == F.col("__other")) & (F.col("__start") < F.col(_SINCE))
    return inserted.join(earlier, is_earlier, "left_semi" if came_back else "left_anti")


def _existed_before(frame: DataFrame, table: TableSpec, since: dict[str, Any], by_others: Column) -> set[str]:
    """Return the keys with a version of another run that starts before the first version of this run.

    Later versions do not count, so a key stays new when a later run updates it.
    """
    entity = F.col(quoted_column(table, "entity_key"))
    first = F.min(quoted_column(table, "started_at")).alias("first")
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
