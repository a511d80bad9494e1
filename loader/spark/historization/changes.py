"""Changes of one run in a history: keys it inserted, updated or deleted, and keys that reappeared."""

from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from architecture.domain.states.tables import TableSpec
from loader.domain.queries.result_rows import CAME_BACK, DELETED, INSERTED, UPDATED
from loader.spark.queries.paging import after_key
from metadata.domain.sql import quote_identifier

_WROTE, _ENDED, _BURIED, _SINCE = "__wrote", "__ended", "__buried", "__since"


def changes(frame: DataFrame, table: TableSpec, arguments: dict[str, Any], limit: int) -> dict[str, Any]:
    """Return the keys that the run ``run_id`` changed, as ``{"columns", "changes", "truncated"}``.

    Changes are in key order. ``op`` selects one kind (I includes reappeared keys), ``after`` the keys that
    follow a given key. Each change has the last version of the key that the run ended (``before``) and the
    last one it wrote (``after``), as text. Versions that were pruned or reverted since are missing.
    ``tombstone`` is the state label of rows that mark a deleted key.
    """
    run = F.lit(str(arguments["run_id"]))
    opened = F.col(_name(table, "run_id")).eqNullSafe(run)
    closed = F.col(_name(table, "closed_by")).eqNullSafe(run)
    live = F.lit(True)
    if arguments.get("tombstone"):
        live = ~F.col(_name(table, "state")).eqNullSafe(F.lit(arguments["tombstone"]))
    touched = frame.where(opened | closed)
    # A version that one run both wrote and ended was not there before it.
    ended = closed & ~opened & live
    keys = [quote_identifier(column.name) for column in table.of_purpose("business_key")]
    per_key = touched.groupBy(*keys, _name(table, "entity_key")).agg(
        F.max(opened & live).alias(_WROTE),
        F.max(ended).alias(_ENDED),
        F.max(opened & ~live).alias(_BURIED),
        F.min(F.when(opened & live, F.col(_name(table, "started_at")))).alias(_SINCE),
    )
    wanted = after_key(per_key.where(_wanted(arguments.get("op") or "")), table, arguments)
    found = wanted.orderBy(*keys).limit(limit + 1).collect()
    chosen, entity = found[:limit], table.column("entity_key").name
    ids = [row[entity] for row in chosen]
    if not ids:
        return {"columns": frame.columns, "changes": [], "truncated": False}
    of_these = F.col(_name(table, "entity_key")).isin(ids)
    flags = ((opened & live).alias(_WROTE), ended.alias(_ENDED))
    text = [F.col(quote_identifier(name)).cast("string").alias(name) for name in frame.columns]
    rows = touched.where(of_these).orderBy(_name(table, "started_at")).select(*text, *flags).collect()
    new = {row[entity]: row[_SINCE] for row in chosen if row[_WROTE] and not row[_ENDED]}
    earlier = _seen_before(frame, table, new, ~opened & live) if new else set()
    by_key: dict[str, list[Row]] = {key: [] for key in ids}
    for row in rows:
        by_key[row[entity]].append(row)
    told = [_change(row, entity, by_key[row[entity]], len(frame.columns), earlier) for row in chosen]
    return {"columns": frame.columns, "changes": told, "truncated": len(found) > limit}


def _name(table: TableSpec, purpose: str) -> str:
    return quote_identifier(table.column(purpose).name)


def _wanted(op: str) -> Column:
    wrote, ended, buried = F.col(_WROTE), F.col(_ENDED), F.col(_BURIED)
    return {
        INSERTED: wrote & ~ended,
        UPDATED: wrote & ended,
        DELETED: ~wrote & (ended | buried),
    }.get(op, wrote | ended | buried)


def _seen_before(frame: DataFrame, table: TableSpec, since: dict[str, Any], by_others: Column) -> set[str]:
    """Return the keys with a version of another run that starts before the first version this run wrote.

    Versions that start later do not count: a key that is updated tomorrow is still new today.
    """
    entity = F.col(_name(table, "entity_key"))
    first = F.min(_name(table, "started_at")).alias("first")
    others = frame.where(by_others & entity.isin(list(since))).groupBy(entity.alias("key")).agg(first)
    return {row["key"] for row in others.collect() if row["first"] < since[row["key"]]}


def _change(row: Row, entity: str, versions: list[Row], width: int, earlier: set[str]) -> dict[str, Any]:
    before = next((one for one in reversed(versions) if one[_ENDED]), None)
    after = next((one for one in reversed(versions) if one[_WROTE]), None)
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
