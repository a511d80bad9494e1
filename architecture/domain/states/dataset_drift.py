"""Drift of each dataset: *in sync*, *drifted* with the differences, or *unknown* (never applied, or never observed).

Retired columns and wider types of a history are no drift.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from architecture.domain.states.current_state import Table, in_warehouse
from architecture.domain.states.flat_states import flat
from architecture.domain.tables import ObservedTable, kept_histories
from architecture.domain.type_changes import classify_types
from metadata.domain import naming
from metadata.domain.state import DatasetState
from metadata.domain.types import parse, stored_type

IN_SYNC, DRIFTED, UNKNOWN = "in_sync", "drifted", "unknown"


@dataclass(frozen=True)
class Difference:
    """Difference between an applied and an observed table.

    ``what`` is table_missing, table_name, column_missing, column_name, column_type or column_unexpected. ``applied``
    and ``observed`` are names or types, empty if there is none.
    """

    table: str
    what: str
    column: str = ""
    applied: str = ""
    observed: str = ""

    def describe(self) -> str:
        subject = f"{self.table}.{self.column}" if self.column else self.table
        return f"{subject}: {self.what.replace('_', ' ')}, {self.applied or 'nothing'} → {self.observed or 'nothing'}"

    def as_json(self) -> dict[str, Any]:
        values = {"column": self.column, "applied": self.applied, "observed": self.observed}
        return {"table": self.table, "what": self.what} | {name: value for name, value in values.items() if value}


@dataclass(frozen=True)
class DatasetDrift:
    """Drift of one dataset. ``reason`` explains an unknown status, or a table in sync that belongs to no dataset."""

    key: str
    dataset: str
    status: str
    differences: tuple[Difference, ...] = ()
    reason: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "dataset": self.dataset,
            "status": self.status,
            "differences": [difference.as_json() for difference in self.differences],
        } | ({"reason": self.reason} if self.reason else {})


def drift(applied: Iterable[DatasetState], observed: Mapping[str, ObservedTable] | None) -> tuple[DatasetDrift, ...]:
    """Return the drift of all applied datasets and of all observed tables without one, ordered by name.

    ``observed`` are the tables by stable key; None if the warehouse was never observed.
    """
    drifts, applied_keys = [], set()
    if observed is not None:
        observed = {key: table for key, table in observed.items() if not table.dropped}
    for dataset in map(flat, applied):
        applied_keys |= {dataset.key, dataset.history_key}
        if observed is None:
            drifts.append(_unknown(dataset.key, dataset.qualified_name, "the warehouse was not scanned yet"))
        else:
            differences = tuple(_differences(dataset, observed))
            status = DRIFTED if differences else IN_SYNC
            drifts.append(DatasetDrift(dataset.key, dataset.qualified_name, status, differences))
    drifts += _unowned_tables({key: table for key, table in (observed or {}).items() if key not in applied_keys})
    return tuple(sorted(drifts, key=lambda drift: (drift.dataset, drift.key)))


def _unowned_tables(tables: Mapping[str, ObservedTable]) -> Iterable[DatasetDrift]:
    """Yield the drift of tables without an applied dataset. A retained history of a removed dataset is in sync."""
    retained = kept_histories(tables)
    for key, table in tables.items():
        name = table.qualified_name
        if name.endswith(naming.EVENT_LOG_SUFFIX):
            continue
        if key in retained:
            yield DatasetDrift(key, name, IN_SYNC, reason="kept: its dataset is gone, and every version stays")
        else:
            yield _unknown(key, name, "nothing was applied here; adopt it as the baseline")


def _unknown(key: str, name: str, reason: str) -> DatasetDrift:
    return DatasetDrift(key, name, UNKNOWN, reason=reason)


def _differences(dataset: DatasetState, observed: Mapping[str, ObservedTable]) -> Iterable[Difference]:
    if dataset.materialization == "view" or not dataset.active:
        return
    expected = in_warehouse(dataset)
    assert expected.base is not None
    yield from _table_differences(expected.base, observed.get(dataset.key), history=False)
    if expected.history is not None:
        yield from _table_differences(expected.history, observed.get(dataset.history_key or ""), history=True)


def _table_differences(expected: Table, table: ObservedTable | None, *, history: bool) -> Iterable[Difference]:
    name = expected.qualified_name
    if table is None:
        yield Difference(name, "table_missing", applied=name)
        return
    if table.qualified_name != name:
        yield Difference(name, "table_name", applied=name, observed=table.qualified_name)
    by_key = {column.key: column for column in table.columns if column.key}
    by_name = {column.name.lower(): column for column in table.columns}
    matched = set()
    for column in expected.columns:
        actual = by_key.get(column.key) or by_name.get(column.name.lower())
        if actual is None:
            if column.active:
                yield Difference(name, "column_missing", column.name, applied=column.type)
            continue
        matched.add(actual.name)
        if column.active and actual.name != column.name:
            yield Difference(name, "column_name", column.name, column.name, actual.name)
        if column.active and _differs(column.type, actual.type, history=history):
            yield Difference(name, "column_type", column.name, column.type, actual.type)
    if not history:
        for other in table.columns:
            if other.name not in matched:
                yield Difference(name, "column_unexpected", other.name, observed=other.type)


def _differs(applied: str, observed: str, *, history: bool) -> bool:
    expected, actual = parse(applied), stored_type(parse(observed))
    return stored_type(expected) != actual and not (history and classify_types(expected, actual).widens)
