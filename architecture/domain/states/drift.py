"""Drift: where what is observed is not what was applied.

Per dataset: *in sync*, *drifted* with the differences, or *unknown*: never applied, or not looked at.
What history holds beyond its dataset is no drift: it keeps retired columns and wider types.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from architecture.domain.states.current import Table, in_warehouse
from architecture.domain.states.flat import flat
from architecture.domain.states.tables import ObservedTable, kept_histories
from architecture.domain.type_changes import classify_types
from metadata.domain import naming
from metadata.domain.state import DatasetState
from metadata.domain.types import parse, stored_type

IN_SYNC, DRIFTED, UNKNOWN = "in_sync", "drifted", "unknown"


@dataclass(frozen=True)
class Difference:
    """``what`` is table_missing, table_name, column_missing, column_name, column_type or column_unexpected.

    ``applied`` and ``observed`` are names or types, empty where there is none.
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
        said = {"column": self.column, "applied": self.applied, "observed": self.observed}
        return {"table": self.table, "what": self.what} | {name: value for name, value in said.items() if value}


@dataclass(frozen=True)
class DatasetDrift:
    """One dataset's drift; ``reason`` says why it is unknown, or in sync although it is of no dataset."""

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
    """The drift of every applied dataset, and of every observed table that nobody applied, by name.

    ``observed`` by stable key; None where the warehouse was not looked at.
    """
    found, accounted = [], set()
    if observed is not None:
        observed = {key: table for key, table in observed.items() if not table.dropped}
    for dataset in map(flat, applied):
        accounted |= {dataset.key, dataset.history_key}
        if observed is None:
            found.append(_unknown(dataset.key, dataset.qualified_name, "the warehouse was not looked at yet"))
        else:
            differences = tuple(_differences(dataset, observed))
            status = DRIFTED if differences else IN_SYNC
            found.append(DatasetDrift(dataset.key, dataset.qualified_name, status, differences))
    found += _strangers({key: table for key, table in (observed or {}).items() if key not in accounted})
    return tuple(sorted(found, key=lambda one: (one.dataset, one.key)))


def _strangers(tables: Mapping[str, ObservedTable]) -> Iterable[DatasetDrift]:
    """Tables that no applied dataset accounts for. A history that was kept when its dataset went is as it should be."""
    kept = kept_histories(tables)
    for key, table in tables.items():
        name = table.qualified_name
        if name.endswith(naming.MEMORY_SUFFIX):
            continue
        if key in kept:
            yield DatasetDrift(key, name, IN_SYNC, reason="kept: its dataset is gone, and every version stays")
        else:
            yield _unknown(key, name, "nothing was applied here; adopt it as the baseline")


def _unknown(key: str, name: str, reason: str) -> DatasetDrift:
    return DatasetDrift(key, name, UNKNOWN, reason=reason)


def _differences(dataset: DatasetState, observed: Mapping[str, ObservedTable]) -> Iterable[Difference]:
    if dataset.materialization == "view" or not dataset.active:
        return
    expected = in_warehouse(dataset)
    yield from _of_table(expected.base, observed.get(dataset.key), history=False)
    if expected.history is not None:
        yield from _of_table(expected.history, observed.get(dataset.history_key or ""), history=True)


def _of_table(expected: Table, table: ObservedTable | None, *, history: bool) -> Iterable[Difference]:
    name = expected.qualified_name
    if table is None:
        yield Difference(name, "table_missing", applied=name)
        return
    if table.qualified_name != name:
        yield Difference(name, "table_name", applied=name, observed=table.qualified_name)
    by_key = {column.key: column for column in table.columns if column.key}
    by_name = {column.name.lower(): column for column in table.columns}
    seen = set()
    for column in expected.columns:
        held = by_key.get(column.key) or by_name.get(column.name.lower())
        if held is None:
            if column.active:
                yield Difference(name, "column_missing", column.name, applied=column.type)
            continue
        seen.add(held.name)
        if column.active and held.name != column.name:
            yield Difference(name, "column_name", column.name, column.name, held.name)
        if column.active and _differs(column.type, held.type, history=history):
            yield Difference(name, "column_type", column.name, column.type, held.type)
    if not history:
        for column in table.columns:
            if column.name not in seen:
                yield Difference(name, "column_unexpected", column.name, observed=column.type)


def _differs(applied: str, observed: str, *, history: bool) -> bool:
    described, held = parse(applied), stored_type(parse(observed))
    return stored_type(described) != held and not (history and classify_types(described, held).widens)
