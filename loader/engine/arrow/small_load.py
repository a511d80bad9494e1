"""Load of one small dataset in one task: a delivery and the stored rows in, Parquet files and counts out.

The result equals that of ``loader.engine`` for a delivery dated by the load. It is computed without Spark jobs, since
each costs seconds, regardless of the number of rows. The driver commits the files that the task wrote.

The task handles plain cases only. Anything else (a value that does not fit, a repeated key, a quote out of place, an
unknown column, another encoding) raises ``NotPlain``. The general load then reads the delivery, and it alone raises
refusals, so that none is worded twice.

These modules run on executors: they import pyarrow, the standard library and rules without dependencies of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from typing import Any

import pyarrow as pa

from loader.domain.sources.provenance import SOURCE_FILE, SOURCE_ROW
from loader.engine.arrow.deliveries import Delivery, NotPlain, read_delivery
from loader.engine.arrow.parquet_files import StoredFile, Table, read_rows, write_rows
from loader.engine.arrow.versions import (
    History,
    Part,
    Rows,
    Stamp,
    compare,
    history_files,
    keys_by_value,
    live_rows,
    stage_rows,
)


@dataclass(frozen=True)
class SmallLoad:
    """Raw load and the rawcore load that reads it.

    ``raw_columns`` are (raw column, delivered column), ``stage_columns`` (rawcore column, delivered column).
    ``raw_stamps`` and ``rawcore_stamps`` are the columns of run id and load time, ``raw_provenance`` those of a row's
    file and number, ``raw_day`` that of the load's day; hashes are (column, parts).
    ``history`` is None for a dataset without one; then its rawcore table is compared. ``open_files`` contain the rows
    to compare with, ``ended_files`` the last versions of deleted keys. ``closes_absent``: a stored key that is not
    delivered is deleted.
    """

    delivery: Delivery
    stamp: Stamp
    raw: Table
    raw_columns: tuple[tuple[str, str], ...]
    raw_stamps: tuple[str, str]
    raw_provenance: tuple[str, str]
    raw_day: str
    rawcore: Table
    rawcore_stamps: tuple[str, str]
    stage_columns: tuple[tuple[str, str], ...]
    entity_key: tuple[str, tuple[Part, ...]]
    row_hash: tuple[str, tuple[Part, ...]]
    foreign_keys: tuple[tuple[str, tuple[Part, ...]], ...] = ()
    history: History | None = None
    open_files: tuple[StoredFile, ...] = ()
    ended_files: tuple[StoredFile, ...] = ()
    closes_absent: bool = True
    limit: int = 50_000


def load_small(load: SmallLoad) -> dict[str, Any]:
    """Return the files written and the counts, or ``{"not_plain": reason}``; the reason contains no value.

    ``raw``, ``history`` and ``rawcore`` are the ``add`` actions of a Delta log, as JSON. ``replaces`` is True if they
    replace the open files. ``counts`` has rows, new, reappeared, changed, deleted, unchanged, stored.
    """
    try:
        return _load(load)
    except NotPlain as reason:
        return {"not_plain": str(reason)}
    except (OSError, pa.ArrowInvalid) as error:  # the reason is logged, and messages may contain values
        return {"not_plain": type(error).__name__}


def _load(load: SmallLoad) -> dict[str, Any]:
    delivered = read_delivery(load.delivery, load.limit)
    types = {column.name: column.type for column in load.delivery.columns}
    stage = stage_rows(delivered, load.stage_columns, load.entity_key, load.row_hash, load.foreign_keys, types)
    table = load.history.table if load.history else load.rawcore
    stored = read_rows(table, load.open_files, load.limit)
    rows = compare(
        stage,
        stored,
        load.entity_key[0],
        load.row_hash[0],
        closes_absent=load.closes_absent,
        key_columns=keys_by_value(load.entity_key[1], load.stage_columns, types),
    )
    load.delivery.check_unchanged()
    result: dict[str, Any] = {"counts": rows.counts | {"reappeared": _reappeared_keys(load, rows)}}
    result["replaces"] = rows.touches
    result["raw"] = _raw_files(load, delivered)
    result["history"] = history_files(load.history, rows, load.stamp) if load.history else []
    names = load.history.stamps if load.history else load.rawcore_stamps
    stored_names = dict(zip(load.rawcore_stamps, names, strict=True))
    result["rawcore"] = write_rows(load.rawcore, live_rows(rows, load.rawcore, load.stamp, stored_names))
    return result


def _raw_files(load: SmallLoad, delivered: pa.Table) -> list[str]:
    columns = (*load.raw_columns, *zip(load.raw_provenance, (SOURCE_FILE, SOURCE_ROW), strict=True))
    values: Mapping[str, pa.Array] = {name: delivered[delivered_name] for name, delivered_name in columns}
    rows = pa.table({**values, **load.stamp.columns(load.raw_stamps, delivered.num_rows)})
    day = load.stamp.at.astimezone(UTC).date()
    if load.raw_day in load.raw.partition_by:
        return write_rows(load.raw, rows, {load.raw_day: day.isoformat()})
    return write_rows(load.raw, rows.append_column(load.raw_day, pa.repeat(pa.scalar(day), rows.num_rows)))


def _reappeared_keys(load: SmallLoad, rows: Rows) -> int:
    """Return the number of new keys with a version before. Only the keys of ended versions are read."""
    if not rows.counts["new"] or not load.ended_files or load.history is None:
        return 0
    name = load.entity_key[0]
    ended = read_rows(load.history.table, load.ended_files, load.limit, columns=(name,))[name].to_pylist()
    return len(set(ended) & set(rows.delivered(rows.new)[name].to_pylist()))
