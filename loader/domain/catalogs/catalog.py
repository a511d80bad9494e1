"""Catalog of published names: Delta tables with their addresses, and views with their queries.

Pure: it works on dataset states. ``statements`` renders a catalog for another engine.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from architecture.domain.history_operations import operations_view
from architecture.domain.history_views import history_views
from architecture.domain.tables import ColumnSpec, TableSpec, current_table, history_table
from architecture.domain.views import query_of_view
from elevata.core.errors import MetadataError
from loader.domain.catalogs.table_names import query_of
from metadata.domain.history.history_policy import AS_OF, HistoryPolicy
from metadata.domain.naming import PERIODS, history_name, view_name
from metadata.domain.state import BUSINESS_KEY, DatasetState

TABLE, VIEW = "table", "view"

_VIEW_NAME = re.compile(r"CREATE OR REPLACE VIEW `(\w+)`\.`(\w+)`")


@dataclass(frozen=True)
class Entry:
    """Published name.

    ``table`` describes its columns, or those of the history for a view over a history. ``dataset`` is the stable key of
    the dataset whose permissions apply. ``reads`` are the names of the tables that a view's ``query`` reads.
    ``portable`` is the query without partition columns.
    """

    name: str
    kind: str
    dataset: str
    table: TableSpec
    location: str | None = None
    query: str | None = None
    reads: tuple[str, ...] = ()
    portable: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"name": self.name, "kind": self.kind, "location": self.location, "query": self.query}

    @property
    def parts(self) -> tuple[str, str]:
        """Return schema and name."""
        schema, _, name = self.name.partition(".")
        return schema, name


def catalog_of(
    states: Iterable[DatasetState],
    *,
    warehouse: str,
    missing: Collection[str] = frozenset(),
    names: Collection[str] | None = None,
) -> tuple[Entry, ...]:
    """Return every published name, tables first, each kind sorted by name.

    ``states`` are the applied datasets; ``missing`` are stable keys of tables that do not exist. A view that reads a
    missing table is left out. ``names``, in lower case, restrict it to the datasets with these names and to those that
    their views read; other datasets cost nothing.
    """
    by_key = {state.key: state for state in states}
    named = by_key.values() if names is None else _of_names(by_key.values(), names)
    tables, views = _entries(named, by_key, warehouse, missing)
    existing = {entry.name for entry in tables}
    read = {name.lower() for entry in views for name in entry.reads} - {name.lower() for name in existing}
    if names is not None and read:
        known = {state.key for state in named}
        beneath = [state for state in _of_names(by_key.values(), read) if state.key not in known]
        tables += _entries(beneath, by_key, warehouse, missing)[0]
        existing = {entry.name for entry in tables}
    readable = [entry for entry in views if existing.issuperset(entry.reads)]
    return (*sorted(tables, key=_by_name), *sorted(readable, key=_by_name))


def names_of_dataset(state: DatasetState) -> list[str]:
    """Return the names that a dataset has in a catalog if its tables exist: its own, its history's, and views over it.

    This is far cheaper than its entries.
    """
    names = [state.name]
    if state.history_key is not None and state.historize:
        names.append(history_name(state.name))
        if state.history_policy and state.active:
            views = HistoryPolicy.from_dict(state.history_policy).views
            names += [view_name(state.name, PERIODS if view == AS_OF else view) for view in views]
    return [f"{state.schema}.{name}" for name in names]


def _of_names(states: Iterable[DatasetState], names: Collection[str]) -> list[DatasetState]:
    wanted = frozenset(names)
    return [state for state in states if not wanted.isdisjoint(map(str.lower, names_of_dataset(state)))]


def _entries(
    states: Iterable[DatasetState], by_key: Mapping[str, DatasetState], warehouse: str, missing: Collection[str]
) -> tuple[list[Entry], list[Entry]]:
    """Return the tables and views of these datasets, also views that read missing tables."""
    tables: list[Entry] = []
    views: list[Entry] = []
    for state in states:
        if state.materialization == "view" and (view := _view(state, by_key)) is not None:
            views.append(view)
        if state.materialization != "table":
            continue
        for table in _tables(state):
            if table.key not in missing:
                location = f"{warehouse.rstrip('/')}/{table.key}"
                tables.append(Entry(table.qualified_name, TABLE, state.key, table, location=location))
        views += _history_views(state, by_key)
    return tables, views


def _by_name(entry: Entry) -> str:
    return entry.name


def _tables(state: DatasetState) -> list[TableSpec]:
    """Return the published tables of a dataset. Event logs are not published."""
    history = [history_table(state)] if state.historize and state.history_key is not None else []
    return [current_table(state), *history]


def _history_views(state: DatasetState, by_key: Mapping[str, DatasetState]) -> list[Entry]:
    if not state.active or state.history_key is None or not state.historize:
        return []
    history, entries = history_table(state), []
    for statement, portable in zip(history_views(state), history_views(state, by_partition=False), strict=True):
        match, query = _VIEW_NAME.match(statement), query_of(statement)
        if match is not None and query:
            name, reads = f"{match[1]}.{match[2]}", (history.qualified_name,)
            entries.append(Entry(name, VIEW, state.key, history, None, query, reads, query_of(portable)))
    operations = operations_view(state, by_key)
    if operations is not None:
        name, view_query = operations
        beneath = tuple(table.qualified_name for table in view_query.tables)
        entries.append(Entry(name, VIEW, state.key, history, None, view_query.sql, beneath))
    return entries


def _view(state: DatasetState, by_key: Mapping[str, DatasetState]) -> Entry | None:
    """Return the entry of a described view; None for a retired one, or if its query cannot be built."""
    if not state.active:
        return None
    try:
        view_query = query_of_view(state, by_key)
    except MetadataError:
        return None
    query, reads = view_query.sql, tuple(table.qualified_name for table in view_query.tables)
    if not reads:
        return None
    return Entry(state.qualified_name, VIEW, state.key, view_table(state), query=query, reads=reads)


def view_table(state: DatasetState) -> TableSpec:
    """Return the columns of a described view."""
    columns = tuple(
        ColumnSpec(column.key, column.name, column.type, BUSINESS_KEY if column.role == BUSINESS_KEY else "attribute")
        for column in state.active_columns
    )
    return TableSpec(state.key, state.schema, state.name, VIEW, columns)
