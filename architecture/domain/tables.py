"""Physical tables of datasets.

Tables and columns are identified by stable keys; a table's key is also the name of its folder in the warehouse. The
stable key of a technical column is derived from the table's key and the column's purpose, so a rename of the table
does not change it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any
from uuid import UUID, uuid5

from metadata.domain import naming, stable_keys
from metadata.domain.history.history_columns import (
    SEGMENT,
    event_log_columns,
    layout_of,
    time_type,
    version_columns,
)
from metadata.domain.history.history_policy import (
    APPEND,
    HistoryPolicy,
)
from metadata.domain.sources import raw_keeping
from metadata.domain.state import BUSINESS_KEY, DatasetState
from metadata.domain.types import parse, stored_type

OPEN, CLOSED, DELETED = "open", "closed", "deleted"


@dataclass(frozen=True)
class ColumnSpec:
    """Column of a physical table. ``type`` is a metadata type (``decimal(10,2)``), not a Spark type.

    ``purpose`` is one of entity_key, history_key, business_key, attribute, foreign_key, row_hash, run_id,
    loaded_at; in raw tables also source_file, source_row and load_day, in histories and event logs the purposes in
    ``metadata.domain.history.history_columns``.

    ``hash_of`` are the parts of a hashed key: (name of a part in the hash, stable key of the column with its
    value). A foreign key is NULL if one of them is.
    """

    key: str
    name: str
    type: str
    purpose: str
    nullable: bool = True
    hash_of: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """Desired table. ``kind`` is raw, rawcore, model, history or event_log.

    ``owner`` is set for a history and its event log: the key of the base dataset.
    """

    key: str
    schema: str
    name: str
    kind: str
    columns: tuple[ColumnSpec, ...]
    partition_by: tuple[str, ...] = ()
    owner: str = ""

    @property
    def dataset_key(self) -> str:
        return self.owner or self.key

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    def column(self, purpose: str) -> ColumnSpec:
        """Return the column with this purpose. Raise LookupError if the table has none."""
        for column in self.columns:
            if column.purpose == purpose:
                return column
        raise LookupError(f"{self.qualified_name} has no {purpose} column")

    def of_purpose(self, *purposes: str) -> tuple[ColumnSpec, ...]:
        return tuple(column for column in self.columns if column.purpose in purposes)

    def of_any_but(self, purpose: str) -> tuple[ColumnSpec, ...]:
        return tuple(column for column in self.columns if column.purpose != purpose)


@dataclass(frozen=True)
class ObservedColumn:
    name: str
    type: str
    nullable: bool = True
    key: str | None = None


@dataclass(frozen=True)
class ObservedTable:
    """Table as recorded in its Delta log; ``version`` is the newest version of the log.

    A ``dropped`` table is no longer in the catalog, but its files remain. It counts as absent until it is published
    again or replaced.
    """

    key: str
    qualified_name: str
    columns: tuple[ObservedColumn, ...]
    version: int
    partition_by: tuple[str, ...] = ()
    properties: dict[str, Any] = field(default_factory=dict)
    dropped: bool = False

    @cached_property
    def as_stored(self) -> tuple[ObservedColumn, ...]:
        """Return the columns as steps compare them: names, keys and stored types."""
        return tuple(ObservedColumn(column.name, stored(column.type), key=column.key) for column in self.columns)


@lru_cache(maxsize=4096)
def stored(type_: str) -> str:
    """Return a type as the warehouse stores it."""
    return str(stored_type(parse(type_)))


def kept_histories(strangers: Mapping[str, ObservedTable]) -> frozenset[str]:
    """Return the keys of histories and event logs without a base table. ``strangers`` are tables without a dataset."""
    names = {key: table.qualified_name.lower() for key, table in strangers.items()}
    bases = {name for name in names.values() if naming.base_name(name) == name}
    return frozenset(key for key, name in names.items() if naming.base_name(name) not in bases)


def technical_key(table_key: str, purpose: str) -> str:
    """Return the stable key of a technical column; it is the same in every installation."""
    return str(uuid5(UUID(table_key), purpose))


def _technical(table_key: str, purpose: str, name: str, type_: str, *, nullable: bool = True) -> ColumnSpec:
    return ColumnSpec(technical_key(table_key, purpose), name, type_, purpose, nullable)


def _entity_key(table_key: str, dataset: DatasetState) -> ColumnSpec:
    own = _technical(table_key, "entity_key", f"{dataset.name}_key", "string")
    return replace(own, hash_of=tuple((column.key, column.key) for column in dataset.business_key))


def _history_key(table_key: str, name: str) -> ColumnSpec:
    parts = (technical_key(table_key, purpose) for purpose in ("entity_key", "started_at"))
    own = _technical(table_key, "history_key", name, "string")
    return replace(own, hash_of=tuple((part, part) for part in parts))


def _load_columns(table_key: str) -> tuple[ColumnSpec, ...]:
    return (
        _technical(table_key, "run_id", "load_run_id", "string"),
        _technical(table_key, "loaded_at", "loaded_at", "timestamp"),
    )


def raw_table(dataset: DatasetState) -> TableSpec:
    """Return the raw table: columns as delivered, plus the load run and the provenance of each row."""
    key = dataset.key
    delivered = tuple(
        ColumnSpec(column.key, column.name, column.type, "attribute") for column in dataset.active_columns
    )
    source_file, source_row = naming.PROVENANCE_COLUMNS
    provenance = (
        _technical(key, "source_file", source_file, "string"),
        _technical(key, "source_row", source_row, "bigint"),
    )
    day = _technical(key, "load_day", naming.LOAD_DAY, "date")
    columns = (*delivered, *_load_columns(key), *provenance, day)
    by_day = raw_keeping.mode_of(dataset.load_policy) == raw_keeping.BY_DAY
    return TableSpec(key, dataset.schema, dataset.name, "raw", columns, partition_by=(day.name,) if by_day else ())


def _data_columns(dataset: DatasetState) -> tuple[ColumnSpec, ...]:
    described = tuple(
        ColumnSpec(column.key, column.name, column.type, purpose, True)
        for purpose, columns in (("business_key", dataset.business_key), ("attribute", dataset.attributes))
        for column in columns
    )
    foreign_keys = tuple(
        ColumnSpec(
            reference.key,
            reference.column_name,
            "string",
            "foreign_key",
            hash_of=tuple((parent, child) for child, parent in reference.pairs),
        )
        for reference in dataset.references
    )
    return described + foreign_keys


def rawcore_table(dataset: DatasetState) -> TableSpec:
    """Return the rawcore table: current rows, one per business key; or the rows of every run, with input append."""
    key = dataset.key
    has_key = bool(dataset.business_key) or HistoryPolicy.from_dict(dataset.history_policy).input != APPEND
    return TableSpec(
        key,
        dataset.schema,
        dataset.name,
        "rawcore",
        (
            *((_entity_key(key, dataset),) if has_key else ()),
            *_data_columns(dataset),
            _technical(key, "row_hash", "row_hash", "string"),
            *_load_columns(key),
        ),
    )


def model_table(dataset: DatasetState) -> TableSpec:
    """Return the table of a model without a history: the columns of its SELECT and no others."""
    columns = tuple(
        ColumnSpec(column.key, column.name, column.type, "business_key" if column.role == BUSINESS_KEY else "attribute")
        for column in dataset.active_columns
    )
    return TableSpec(dataset.key, dataset.schema, dataset.name, "model", columns)


def current_table(dataset: DatasetState) -> TableSpec:
    """Return the table with the current rows of a dataset, which has its name."""
    if dataset.layer == "raw":
        return raw_table(dataset)
    return model_table(dataset) if dataset.select and not dataset.historize else rawcore_table(dataset)


def history_table(dataset: DatasetState) -> TableSpec:
    """Return the history table of ``dataset``: versions of its rows. It is derived and has no metadata of its own."""
    if dataset.history_key is None:
        raise ValueError(f"{dataset.qualified_name} has no history dataset")
    key, policy = dataset.history_key, HistoryPolicy.from_dict(dataset.history_policy)
    own = version_columns(policy, version_time_type(dataset, policy))
    return TableSpec(
        key,
        dataset.schema,
        naming.history_name(dataset.name),
        "history",
        (
            _history_key(key, layout_of(policy).history_key.format(table=dataset.name)),
            _entity_key(key, dataset),
            *_data_columns(dataset),
            _technical(key, "row_hash", "row_hash", "string"),
            *(_technical(key, purpose, name, type_) for purpose, name, type_ in own),
        ),
        partition_by=(SEGMENT,),
        owner=dataset.key,
    )


def version_time_type(dataset: DatasetState, policy: HistoryPolicy) -> str:
    return time_type(policy, {column.name: column.type for column in dataset.columns})


def event_log_table(dataset: DatasetState) -> TableSpec | None:
    """Return the event log of a dataset whose rows have a time of their own; None for others.

    Neither versions nor current rows record an event that changed nothing, or the delete of an unknown key. Both
    affect rows that arrive late (rule 11). The log is the same with and without a history.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if not policy.keeps_events(historize=dataset.historize):
        return None
    key = event_log_key(dataset)
    dated = version_time_type(dataset, policy)
    described = tuple(column for column in _data_columns(dataset) if column.purpose != "foreign_key")
    return TableSpec(
        key,
        dataset.schema,
        naming.event_log_name(dataset.name),
        "event_log",
        (
            _entity_key(key, dataset),
            *described,
            *(_technical(key, purpose, name, type_) for purpose, name, type_ in event_log_columns(dated)),
            *_load_columns(key),
        ),
        owner=dataset.key,
    )


def event_log_key(dataset: DatasetState) -> str:
    """Return the stable key of a dataset's event log; it is the same in every installation."""
    history_key = dataset.history_key or str(stable_keys.history_dataset_key(UUID(dataset.key)))
    return technical_key(history_key, "event_log")


def tables_of(dataset: DatasetState) -> tuple[TableSpec, ...]:
    """Return the physical tables of one dataset, in the order of creation."""
    if not dataset.active or dataset.materialization != "table":
        return ()
    current = current_table(dataset)
    if current.kind in ("raw", "model"):
        return (current,)
    event_log = event_log_table(dataset)
    history = [history_table(dataset)] if dataset.historize else []
    return (current, *history, *([event_log] if event_log else []))
