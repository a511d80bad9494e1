"""Comparison of a delivery with the stored rows, and the versions that result from it (rules 1 to 16).

The rules are those of ``loader.engine.historization``; property tests in ``tests/loader/engine/arrow`` compare both
with ``loader.domain.reference``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from loader.domain.historization.compared_texts import BY_VALUE, ComparedText
from loader.domain.historization.hashing import digest
from loader.engine.arrow.parquet_files import NotPlain, Table, write_rows
from metadata.domain.types import parse

NEW, CHANGED, DELETED = "new", "changed", "deleted"
OPEN, CLOSED = "open", "closed"

# Part of a hash: its stable key, and the column with its value.
Part = tuple[str, str]


@dataclass(frozen=True)
class Stamp:
    """Run id, the instant that dates the run's data, and the clock time of its load."""

    run_id: str
    at: datetime
    loaded_at: datetime

    def columns(self, names: Sequence[str], rows: int) -> dict[str, pa.Array]:
        """Return the columns of run id and load time; ``names`` are their names in this order."""
        run_id, loaded_at = names
        return {run_id: _repeat(self.run_id, rows), loaded_at: _repeat(self.loaded_at, rows)}


@dataclass(frozen=True)
class History:
    """History table: columns by purpose, parts of the version key, state labels and open end.

    ``key_ids`` are the stable keys of entity key and start. ``labels`` are those of the states new, changed and
    deleted.
    """

    table: Table
    purposes: Mapping[str, str]
    key_ids: tuple[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    open_until: datetime | None = None

    @property
    def stamps(self) -> tuple[str, str]:
        return self.purposes["run_id"], self.purposes["loaded_at"]


@dataclass(frozen=True)
class Rows:
    """Delivered and stored rows, and the positions of each change in them.

    ``new`` and ``changed`` are positions in ``stage``; ``superseded`` (by ``changed``), ``deleted`` and ``kept`` are
    positions in ``stored``.
    """

    stage: pa.Table
    stored: pa.Table
    new: list[int]
    changed: list[int]
    superseded: list[int]
    deleted: list[int]
    kept: list[int]
    key_columns: tuple[str, ...] = ()

    @property
    def changed_rows(self) -> pa.Table:
        """Return the delivered rows that supersede stored ones; the first text of a key stays."""
        rows, stored = self.delivered(self.changed), self.known(self.superseded)
        for name in self.key_columns:
            rows = rows.set_column(rows.schema.get_field_index(name), name, stored[name])
        return rows

    def delivered(self, places: list[int]) -> pa.Table:
        """Return the delivered rows at these positions."""
        return self.stage.take(pa.array(places, pa.int64()))

    def known(self, places: list[int]) -> pa.Table:
        """Return the stored rows at these positions."""
        return self.stored.take(pa.array(places, pa.int64()))

    @property
    def touches(self) -> bool:
        """Return True if a stored row changes, so that all of them are written again."""
        return bool(self.changed or self.deleted)

    @property
    def counts(self) -> dict[str, int]:
        rows = self.stage.num_rows
        return {
            "rows": rows,
            "new": len(self.new),
            "changed": len(self.changed),
            "deleted": len(self.deleted),
            "unchanged": rows - len(self.new) - len(self.changed),
            "stored": self.stored.num_rows,
        }


def stage_rows(
    delivered: pa.Table,
    columns: Iterable[tuple[str, str]],
    entity_key: tuple[str, tuple[Part, ...]],
    row_hash: tuple[str, tuple[Part, ...]],
    foreign_keys: Iterable[tuple[str, tuple[Part, ...]]],
    types: Mapping[str, str],
) -> pa.Table:
    """Return the delivered rows with the column names of rawcore, with entity key, row hash and foreign keys.

    A foreign key is NULL if one of its parts is NULL. ``types`` are those of delivered columns by name.
    """
    pairs = dict(columns)
    stage = {name: delivered[delivered_name] for name, delivered_name in pairs.items()}
    values = {name: compared_values(array.to_pylist(), types[pairs[name]]) for name, array in stage.items()}
    keys: dict[str, list[Any]]
    keys = {name: hashed(values, parts, delivered.num_rows) for name, parts in (entity_key, row_hash)}
    for name, parts in foreign_keys:
        complete = zip(*(values[column] for _, column in parts), strict=True)
        hashes = hashed(values, parts, delivered.num_rows)
        keys[name] = [None if None in row else key for row, key in zip(complete, hashes, strict=True)]
    return pa.table(stage | {name: pa.array(hashes, pa.string()) for name, hashes in keys.items()})


def keys_by_value(
    parts: Iterable[Part], columns: Iterable[tuple[str, str]], types: Mapping[str, str]
) -> tuple[str, ...]:
    """Return the columns of a key whose values may be written in several ways."""
    delivered = dict(columns)
    return tuple(name for _, name in parts if parse(types[delivered[name]]).name in BY_VALUE)


def compared_values(values: list[Any], type_text: str) -> list[Any]:
    """Return values of a type as they are hashed (encoding v2)."""
    type_name = parse(type_text).name
    if type_name not in BY_VALUE:
        return values
    return [None if value is None else ComparedText.of(value, type_name) for value in values]


def hashed(values: Mapping[str, list[Any]], parts: Sequence[Part], rows: int) -> list[str]:
    """Return the digest of these columns for each row (encoding v2)."""
    ids = [key for key, _ in parts]
    columns = [values[name] for _, name in parts]
    if not columns:
        return [digest(())] * rows
    return [digest(zip(ids, row, strict=True)) for row in zip(*columns, strict=True)]


def compare(
    stage: pa.Table,
    stored: pa.Table,
    key: str,
    row_hash: str,
    *,
    closes_absent: bool,
    key_columns: tuple[str, ...] = (),
) -> Rows:
    """Compare the delivered rows with the stored ones by entity key and row hash.

    ``closes_absent``: a stored key without a delivered row is deleted, else it is kept. ``key_columns`` are those of
    the business key.
    """
    hashes = stored[row_hash].to_pylist()
    places = {entity: place for place, entity in enumerate(stored[key].to_pylist())}
    if len(places) != stored.num_rows:
        raise NotPlain("a key has two open versions")
    entities = stage[key].to_pylist()
    if len(set(entities)) != len(entities):
        raise NotPlain("a key is delivered twice")
    new, changed, superseded, kept = [], [], [], []
    for place, (entity, now) in enumerate(zip(entities, stage[row_hash].to_pylist(), strict=True)):
        stored_place = places.pop(entity, None)
        if stored_place is None:
            new.append(place)
        elif hashes[stored_place] == now:
            kept.append(stored_place)
        else:
            changed.append(place)
            superseded.append(stored_place)
    absent = list(places.values())
    return Rows(
        stage,
        stored,
        new,
        changed,
        superseded,
        deleted=absent if closes_absent else [],
        kept=kept if closes_absent else kept + absent,
        key_columns=key_columns,
    )


def history_files(history: History, rows: Rows, stamp: Stamp) -> list[str]:
    """Write the versions that the run opens and, if it closes any, all stored ones. Return their ``add`` actions."""
    opened = [_opened_versions(history, rows.delivered(rows.new), NEW, stamp)]
    opened.append(_opened_versions(history, rows.changed_rows, CHANGED, stamp))
    if rows.touches:
        opened.append(rows.known(rows.kept))
    files = _write(history, opened, OPEN)
    files += _write(history, [_closed_versions(history, rows.known(rows.superseded), CHANGED, stamp)], CLOSED)
    return files + _write(history, [_closed_versions(history, rows.known(rows.deleted), DELETED, stamp)], DELETED)


def _write(history: History, parts: list[pa.Table], segment: str) -> list[str]:
    rows = pa.concat_tables(parts, promote_options="default")
    return write_rows(history.table, rows, {history.purposes["segment"]: segment})


def _opened_versions(history: History, rows: pa.Table, state: str, stamp: Stamp) -> pa.Table:
    entity_keys = rows[history.purposes["entity_key"]].to_pylist()
    entity_id, start_id = history.key_ids
    values = {
        "started_at": stamp.at,
        "updated_at": stamp.at,
        "ended_at": history.open_until,
        "state": history.labels.get(state, state),
        "active": True,
        "run_id": stamp.run_id,
        "loaded_at": stamp.loaded_at,
    }
    keys = [digest(((entity_id, key), (start_id, stamp.at))) for key in entity_keys]
    return _with(history, rows, values, {history.purposes["history_key"]: pa.array(keys, pa.string())})


def _closed_versions(history: History, rows: pa.Table, state: str, stamp: Stamp) -> pa.Table:
    values = {
        "ended_at": stamp.at,
        "state": history.labels.get(state, state),
        "active": False,
        "closed_by": stamp.run_id,
        "closed_at": stamp.loaded_at,
    }
    return _with(history, rows, values, {})


def _with(history: History, rows: pa.Table, values: Mapping[str, Any], arrays: Mapping[str, pa.Array]) -> pa.Table:
    """Return the rows with these values by column purpose, in columns that the table has."""
    types = {field.name: field for field in history.table.fields}
    columns = dict(zip(rows.column_names, rows.columns, strict=True)) | dict(arrays)
    for purpose, value in values.items():
        name = history.purposes.get(purpose)
        if name in types:
            columns[name] = _repeat(value, rows.num_rows)
    return pa.table(columns)


def _repeat(value: Any, rows: int) -> pa.Array:
    if value is None:
        return pa.nulls(rows)
    type_ = pa.timestamp("us", "UTC") if isinstance(value, datetime) else None
    return pa.repeat(pa.scalar(value, type_), rows)


def live_rows(rows: Rows, rawcore: Table, stamp: Stamp, stored_names: Mapping[str, str]) -> pa.Table:
    """Return the rows to write to rawcore: new rows, or all live rows if a stored row changes.

    ``stored_names`` are names of columns in the stored rows, by their name in rawcore, where these differ.
    """
    delivered = pa.concat_tables([rows.delivered(rows.new), rows.changed_rows])
    stamped = dict(zip(delivered.column_names, delivered.columns, strict=True))
    stamped |= stamp.columns(tuple(stored_names), delivered.num_rows)
    if not rows.touches:
        return pa.table(stamped)
    stored = rows.known(rows.kept)
    names = [field.name for field in rawcore.fields if stored_names.get(field.name, field.name) in stored.column_names]
    unchanged = pa.table({name: stored[stored_names.get(name, name)] for name in names})
    return pa.concat_tables([pa.table(stamped), unchanged], promote_options="default")
