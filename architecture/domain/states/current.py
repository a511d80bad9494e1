"""Existing datasets with the tables that hold them, from state files or from a warehouse.

Of two files the tables follow from the datasets. Of a warehouse the structure is what was observed,
and applied state says what the observed columns are and which logic filled them. Planning sees the
same form either way, so that there is one planner.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from architecture.domain.states.flat import FOREIGN_KEY, flat
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.states.tables import ColumnSpec, ObservedTable, TableSpec, tables_of
from metadata.domain import naming
from metadata.domain.state import ATTRIBUTE, BUSINESS_KEY, TECHNICAL, ColumnState, DatasetState
from metadata.domain.types import parse, stored_type

_DESCRIBED = (BUSINESS_KEY, ATTRIBUTE, FOREIGN_KEY)


@dataclass(frozen=True)
class Table:
    """A table, or a view, with its columns; inactive ones are retired: there, but not filled any more."""

    schema: str
    name: str
    columns: tuple[ColumnState, ...]
    view: bool = False

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Placed:
    """A dataset (flat) and its tables. ``missing`` names sides that were applied but are not there.

    ``followed`` is the logic that a history last followed that is only kept; None where nobody knows it.
    """

    state: DatasetState
    base: Table | None
    history: Table | None
    missing: tuple[str, ...] = ()
    followed: DatasetState | None = None

    @property
    def keeps_history(self) -> bool:
        """True if versions are compared and written; a history that is only retained does not count."""
        return self.history is not None and self.state.historize and self.state.materialization == "table"


@dataclass(frozen=True)
class CurrentState:
    """State that a report starts from. ``observed`` tells a warehouse from a file."""

    datasets: tuple[Placed, ...] = ()
    observed: bool = False

    @classmethod
    def of_state(cls, state: ArchitectureState) -> "CurrentState":
        """Return the current state that a state file describes."""
        return cls(tuple(described(dataset) for dataset in state.datasets))

    @classmethod
    def of_warehouse(
        cls,
        applied: Iterable[DatasetState],
        observed: Mapping[str, ObservedTable],
        desired: Iterable[DatasetState],
        followed: Mapping[str, DatasetState] | None = None,
    ) -> "CurrentState":
        """Return what a warehouse holds: ``observed`` tables by stable key, ``applied`` states of its datasets.

        A dataset that was never applied but whose table is there is known by ``desired``: its logic is taken as
        desired, since nobody knows it better. So is one that was dropped; its history was kept, and is not followed.
        Tables of neither are left out, and those that were dropped count as absent. ``followed`` is the logic that
        kept histories last followed, by their keys.
        """
        desired = tuple(desired)
        observed = {key: table for key, table in observed.items() if not table.dropped}
        known = {dataset.key: (flat(dataset), True) for dataset in applied}
        for dataset in desired:
            history = dataset.history_key in observed and dataset.materialization == "table"
            if dataset.key not in known and (history or dataset.key in observed):
                kept = dataset.key not in observed or dataset.history_key in (followed or ())
                known[dataset.key] = (replace(flat(dataset), historize=dataset.historize and not kept), False)
        wanted = {dataset.key: flat(dataset) for dataset in desired}
        placed = [_observed(state, is_applied, observed, wanted.get(key)) for key, (state, is_applied) in known.items()]
        if followed:
            placed = [_with_followed(one, followed, wanted.get(one.state.key)) for one in placed]
        return cls(tuple(sorted(placed, key=lambda one: one.state.key)), observed=True)

    def place(self, dataset: DatasetState) -> Placed:
        """A desired dataset with the tables it asks for, of the same kind as the current ones."""
        return in_warehouse(flat(dataset)) if self.observed else described(dataset)


def described(dataset: DatasetState) -> Placed:
    """A dataset of a state file: its columns are its tables' columns, on both sides."""
    dataset = flat(dataset)
    view = dataset.materialization == "view"
    base = Table(dataset.schema, dataset.name, dataset.columns, view)
    if view or not dataset.historize:
        return Placed(dataset, base, None)
    return Placed(dataset, base, Table(dataset.schema, naming.history_name(dataset.name), dataset.columns))


def in_warehouse(dataset: DatasetState) -> Placed:
    """A desired dataset (flat) with its tables as they are made: with every technical column."""
    if dataset.materialization == "view":
        return described(dataset)
    tables = {table.kind: table for table in tables_of(replace(dataset, active=True, hash_version=1))}
    history = tables.pop("history", None)
    base = tables.get("raw") or tables["rawcore"]
    return Placed(dataset, _table(dataset, base), _table(dataset, history) if history else None)


def _table(dataset: DatasetState, spec: TableSpec) -> Table:
    technical = tuple(_technical(column) for column in spec.columns if column.purpose not in _DESCRIBED)
    return Table(spec.schema, spec.name, (*dataset.columns, *technical))


def _technical(column: ColumnSpec) -> ColumnState:
    return ColumnState(column.key, column.name, column.type, column.nullable, TECHNICAL)


# --- observed --------------------------------------------------------------------------------


def _observed(
    state: DatasetState, is_applied: bool, observed: Mapping[str, ObservedTable], desired: DatasetState | None
) -> Placed:
    """``state`` as the tables show it. A view has no table, but it may have the history of a table that it was."""
    is_view = state.materialization == "view"
    base = observed.get(state.key)
    history_key = state.history_key or (desired.history_key if desired else None)
    history = observed.get(history_key) if history_key else None
    if is_view and history is None:
        return described(state)
    expected = in_warehouse(replace(_with_history_key(state, desired), materialization="table"))
    own = expected.history or expected.base
    found_history = _seen(history, own, retired=True) if history else None
    if is_view:
        return replace(described(state), history=found_history)
    missing = tuple(
        side
        for side, table, was in (("base", base, state.active), ("history", history, state.active and state.historize))
        if is_applied and was and table is None
    )
    found_base = _seen(base, expected.base, retired=False) if base else None
    if found_base:
        state = replace(state, schema=found_base.schema, name=found_base.name)
    return Placed(state, found_base, found_history, missing)


def _with_followed(placed: Placed, followed: Mapping[str, DatasetState], desired: DatasetState | None) -> Placed:
    key = placed.state.history_key or (desired.history_key if desired else None)
    return replace(placed, followed=followed.get(key or ""))


def _with_history_key(state: DatasetState, desired: DatasetState | None) -> DatasetState:
    """Technical columns of a history that is only kept are known by the history's key."""
    key = state.history_key or (desired.history_key if desired else None)
    can = key is not None and state.layer != "raw"
    return replace(state, history_key=key, historize=True) if can else replace(state, historize=False)


def _seen(table: ObservedTable, expected: Table, *, retired: bool) -> Table:
    """The observed columns with what is known of them, by stable key and then by name.

    Of those that nobody knows, a history's are retired ones, and a base table's are too many.
    """
    schema, _, name = table.qualified_name.partition(".")
    by_key = {column.key: column for column in expected.columns}
    named = {column.key for column in table.columns if column.key in by_key}
    by_name = {column.name.lower(): column for column in expected.columns if column.key not in named}
    columns = []
    for column in table.columns:
        known = by_key.get(column.key or "")
        if known is None and not (retired and column.key):
            known = by_name.get(column.name.lower())
        if known is None:
            key = column.key or f"name:{column.name}"
            columns.append(ColumnState(key, column.name, column.type, role=TECHNICAL, active=not retired))
        else:
            columns.append(replace(known, name=column.name, type=_type_of(known.type, column.type)))
    return Table(schema, name, tuple(columns))


@lru_cache(maxsize=4096)
def _type_of(known: str, observed: str) -> str:
    """The type as described where it is stored as observed: uuid and json come back as string."""
    found = parse(observed)
    return known if stored_type(parse(known)) == stored_type(found) else str(found)
