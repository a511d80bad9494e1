"""Current datasets and tables.

The tables of a state file are derived from its datasets. The tables of a warehouse are observed; applied state adds
the columns' identity and the logic that filled them. Both have the same form, so one planner serves both.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from architecture.domain.data_contracts import with_contract_in_force
from architecture.domain.states.flat_states import FOREIGN_KEY, flat
from architecture.domain.states.state_files import ArchitectureState
from architecture.domain.steps.features import closing_features, features_of
from architecture.domain.tables import ColumnSpec, ObservedTable, TableSpec, current_table, tables_of
from metadata.domain import naming
from metadata.domain.load_policy import with_rules_of
from metadata.domain.state import ATTRIBUTE, BUSINESS_KEY, TECHNICAL, ColumnState, DatasetState
from metadata.domain.types import parse, stored_type

_DATA_ROLES = (BUSINESS_KEY, ATTRIBUTE, FOREIGN_KEY)


@dataclass(frozen=True)
class Table:
    """Table or view with its columns. Inactive columns are retired: they exist, but are no longer filled.

    ``features`` are the enabled features of an observed table (``architecture.domain.steps.features``), ``closing``
    those that some open readers do not support, ``partition_by`` the partition columns of a raw table.
    """

    schema: str
    name: str
    columns: tuple[ColumnState, ...]
    view: bool = False
    features: tuple[str, ...] = field(default=(), compare=False)
    closing: tuple[str, ...] = field(default=(), compare=False)
    partition_by: tuple[str, ...] = field(default=(), compare=False)

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"


@dataclass(frozen=True)
class Placed:
    """Dataset (flat) with its tables. ``missing`` lists the sides (base, history) that were applied but not observed.

    ``followed`` is the last logic of a history that is retained but no longer loaded; None if it is unknown.
    """

    state: DatasetState
    base: Table | None
    history: Table | None
    missing: tuple[str, ...] = ()
    followed: DatasetState | None = None

    @property
    def keeps_history(self) -> bool:
        """Return True if loads write the history; a history that is only retained does not count."""
        return self.history is not None and self.state.historize and self.state.materialization == "table"


@dataclass(frozen=True)
class CurrentState:
    """State from which a report starts. ``observed`` is True for a warehouse, False for a state file."""

    datasets: tuple[Placed, ...] = ()
    observed: bool = False

    @classmethod
    def of_state(cls, state: ArchitectureState) -> "CurrentState":
        """Return the current state in a state file."""
        return cls(tuple(described(dataset) for dataset in state.datasets))

    @classmethod
    def of_warehouse(
        cls,
        applied: Iterable[DatasetState],
        observed: Mapping[str, ObservedTable],
        desired: Iterable[DatasetState],
        followed: Mapping[str, DatasetState] | None = None,
    ) -> "CurrentState":
        """Return the state of a warehouse: ``observed`` tables by stable key, ``applied`` states of its datasets.

        A table without an applied dataset is identified by ``desired``, which also supplies its logic, because no
        applied logic is stored. The same holds for a dropped dataset whose history was retained. Other tables are
        left out, and dropped tables count as absent. ``followed`` is the last logic of the retained histories, by
        their keys. Rules that an older release did not record are those of ``desired``.
        """
        desired = tuple(desired)
        observed = {key: table for key, table in observed.items() if not table.dropped}
        wanted = {dataset.key: flat(dataset) for dataset in desired}
        applied = [with_rules_of(dataset, wanted.get(dataset.key)) for dataset in applied]
        known = {dataset.key: (with_contract_in_force(flat(dataset)), True) for dataset in applied}
        for dataset in desired:
            history = dataset.history_key in observed and dataset.materialization == "table"
            if dataset.key not in known and (history or dataset.key in observed):
                retained = dataset.key not in observed or dataset.history_key in (followed or ())
                state = replace(flat(dataset), historize=dataset.historize and not retained, contract=None)
                known[dataset.key] = (state, False)
        placed = [
            _observed_dataset(state, is_applied, observed, wanted.get(key))
            for key, (state, is_applied) in known.items()
        ]
        if followed:
            placed = [_with_followed(dataset, followed, wanted.get(dataset.state.key)) for dataset in placed]
        return cls(tuple(sorted(placed, key=lambda dataset: dataset.state.key)), observed=True)

    def place(self, dataset: DatasetState) -> Placed:
        """Return a desired dataset with its tables, in the form of the current ones (file or warehouse)."""
        return in_warehouse(flat(dataset)) if self.observed else described(dataset)


def described(dataset: DatasetState) -> Placed:
    """Return a dataset of a state file with its tables, which have the dataset's columns."""
    dataset = flat(dataset)
    view = dataset.materialization == "view"
    base = Table(dataset.schema, dataset.name, dataset.columns, view)
    if view or not dataset.historize:
        return Placed(dataset, base, None)
    return Placed(dataset, base, Table(dataset.schema, naming.history_name(dataset.name), dataset.columns))


def in_warehouse(dataset: DatasetState) -> Placed:
    """Return a desired dataset (flat) with its tables as they would be created, including technical columns."""
    if dataset.materialization == "view":
        return described(dataset)
    tables = {table.kind: table for table in tables_of(replace(dataset, active=True, hash_version=1))}
    history = tables.pop("history", None)
    return Placed(dataset, _table(dataset, current_table(dataset)), _table(dataset, history) if history else None)


def _table(dataset: DatasetState, spec: TableSpec) -> Table:
    technical = tuple(_technical(column) for column in spec.columns if column.purpose not in _DATA_ROLES)
    partition_by = spec.partition_by if spec.kind == "raw" else ()
    return Table(spec.schema, spec.name, (*dataset.columns, *technical), partition_by=partition_by)


def _technical(column: ColumnSpec) -> ColumnState:
    return ColumnState(column.key, column.name, column.type, column.nullable, TECHNICAL)


def _observed_dataset(
    state: DatasetState, is_applied: bool, observed: Mapping[str, ObservedTable], desired: DatasetState | None
) -> Placed:
    """Return the dataset with its observed tables. A view has no base table, but may have a former table's history."""
    is_view = state.materialization == "view"
    base = observed.get(state.key)
    history_key = state.history_key or (desired.history_key if desired else None)
    history = observed.get(history_key) if history_key else None
    if is_view and history is None:
        return described(state)
    expected = in_warehouse(replace(_with_history(state, desired), materialization="table"))
    assert expected.base is not None  # in_warehouse gives every table one
    history_table = _observed_table(history, expected.history or expected.base, retired=True) if history else None
    if is_view:
        return replace(described(state), history=history_table)
    missing = tuple(
        side
        for side, table, was in (("base", base, state.active), ("history", history, state.active and state.historize))
        if is_applied and was and table is None
    )
    base_table = _observed_table(base, expected.base, retired=False) if base else None
    if base_table:
        state = replace(state, schema=base_table.schema, name=base_table.name)
    return Placed(state, base_table, history_table, missing)


def _with_followed(placed: Placed, followed: Mapping[str, DatasetState], desired: DatasetState | None) -> Placed:
    key = placed.state.history_key or (desired.history_key if desired else None)
    known = followed.get(key or "")
    return replace(placed, followed=known if known is None else with_rules_of(known, desired))


def _with_history(state: DatasetState, desired: DatasetState | None) -> DatasetState:
    """Return the state as historized, if it can have a history: the tables then include a retained history."""
    key = state.history_key or (desired.history_key if desired else None)
    possible = key is not None and state.layer != "raw"
    return replace(state, history_key=key, historize=True) if possible else replace(state, historize=False)


def _observed_table(table: ObservedTable, expected: Table, *, retired: bool) -> Table:
    """Return the observed table with the applied attributes of its columns, matched by stable key, then by name.

    Columns without a match are retired in a history (``retired``), and unexpected in a base table.
    """
    schema, _, name = table.qualified_name.partition(".")
    by_key = {column.key: column for column in expected.columns}
    matched = {column.key for column in table.columns if column.key in by_key}
    by_name = {column.name.lower(): column for column in expected.columns if column.key not in matched}
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
    features, closing = features_of(table.properties), closing_features(table.properties)
    return Table(schema, name, tuple(columns), features=features, closing=closing, partition_by=table.partition_by)


@lru_cache(maxsize=4096)
def _type_of(known: str, observed: str) -> str:
    """Return the known type if it is stored as the observed one: uuid and json are observed as string."""
    parsed = parse(observed)
    return known if stored_type(parse(known)) == stored_type(parsed) else str(parsed)
