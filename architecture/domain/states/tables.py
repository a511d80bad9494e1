"""Physical tables: desired ones follow from dataset states, observed ones from the warehouse.

A table is known by its stable key (also its folder in the warehouse), a column by its own.
Technical columns have stable keys too, derived from the table's key and their purpose, so that
they follow a rename of their table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from uuid import UUID, uuid5

from metadata.domain import naming
from metadata.domain.history_columns import SEGMENT, layout_of, memory_columns, time_type, version_columns
from metadata.domain.history_policy import BATCH_FILES, LOAD_TIME, HistoryPolicy
from metadata.domain.state import DatasetState
from metadata.domain.types import parse, stored_type

OPEN, CLOSED, DELETED = "open", "closed", "deleted"


@dataclass(frozen=True)
class ColumnSpec:
    """A column of a physical table. ``type`` is a metadata type (``decimal(10,2)``), not Spark's.

    ``purpose`` says why it is there: entity_key, history_key, business_key, attribute,
    foreign_key, row_hash, run_id, loaded_at; of a history also those of its profile
    (``metadata.domain.history_columns``), of its memory event_at, event_own, event_kind,
    event_columns, sequence.

    ``hash_of`` are the parts of a key that is a hash: (what a part is called in it, stable key of the
    column of this table whose value it is). A foreign key is NULL where one of them is.
    """

    key: str
    name: str
    type: str
    purpose: str
    nullable: bool = True
    hash_of: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class TableSpec:
    """A table that should exist. ``kind`` is raw, rawcore, history or memory.

    ``owner`` is the key of the dataset it follows from, where that is not its own: of a history and
    its memory the base dataset's.
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
        """The one column of that purpose; LookupError if the table has none."""
        for column in self.columns:
            if column.purpose == purpose:
                return column
        raise LookupError(f"{self.qualified_name} has no {purpose} column")

    def of_purpose(self, *purposes: str) -> tuple[ColumnSpec, ...]:
        return tuple(column for column in self.columns if column.purpose in purposes)


@dataclass(frozen=True)
class ObservedColumn:
    name: str
    type: str
    nullable: bool = True
    key: str | None = None


@dataclass(frozen=True)
class ObservedTable:
    """A table as its Delta log has it; ``version`` is the log's newest version.

    ``dropped`` is a table that was taken out of the catalog and whose files are kept: it counts as
    absent, until it is published again or a new table takes its place.
    """

    key: str
    qualified_name: str
    columns: tuple[ObservedColumn, ...]
    version: int
    partition_by: tuple[str, ...] = ()
    properties: dict = field(default_factory=dict)
    dropped: bool = False

    @cached_property
    def as_stored(self) -> tuple[ObservedColumn, ...]:
        """Columns as steps compare them: names, keys, and the warehouse's types."""
        return tuple(ObservedColumn(column.name, stored(column.type), key=column.key) for column in self.columns)


@lru_cache(maxsize=4096)
def stored(type_: str) -> str:
    """A type as the warehouse says it."""
    return str(stored_type(parse(type_)))


def kept_histories(strangers: Mapping[str, ObservedTable]) -> frozenset[str]:
    """Of tables that no dataset accounts for, by key: histories, and memories, that outlived their base table."""
    names = {key: table.qualified_name.lower() for key, table in strangers.items()}
    bases = {name for name in names.values() if naming.base_name(name) == name}
    return frozenset(key for key, name in names.items() if naming.base_name(name) not in bases)


def technical_key(table_key: str, purpose: str) -> str:
    """Stable key of a technical column: the same in every installation."""
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
    """As delivered, plus the run that brought it."""
    delivered = tuple(
        ColumnSpec(column.key, column.name, column.type, "attribute") for column in dataset.active_columns
    )
    return TableSpec(dataset.key, dataset.schema, dataset.name, "raw", delivered + _load_columns(dataset.key))


def _described_columns(dataset: DatasetState) -> tuple[ColumnSpec, ...]:
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
    """Current truth: one row per business key."""
    key = dataset.key
    return TableSpec(
        key,
        dataset.schema,
        dataset.name,
        "rawcore",
        (
            _entity_key(key, dataset),
            *_described_columns(dataset),
            _technical(key, "row_hash", "row_hash", "string"),
            *_load_columns(key),
        ),
    )


def history_table(dataset: DatasetState) -> TableSpec:
    """Versions of the rows of ``dataset``, computed from it; never described on its own."""
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
            *_described_columns(dataset),
            _technical(key, "row_hash", "row_hash", "string"),
            *(_technical(key, purpose, name, type_) for purpose, name, type_ in own),
        ),
        partition_by=(SEGMENT,),
        owner=dataset.key,
    )


def version_time_type(dataset: DatasetState, policy: HistoryPolicy) -> str:
    return time_type(policy, {column.name: column.type for column in dataset.columns})


def memory_table(dataset: DatasetState) -> TableSpec | None:
    """Return the event log of a dataset whose rows carry their own time: delivered events, one by one.

    None for others.

    A version does not tell all that was said of a key: an event that changed nothing, or the delete
    of a key not seen yet, decides what a later late row does (rule 11).
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if dataset.history_key is None or policy.time == LOAD_TIME or policy.input == BATCH_FILES:
        return None
    key = memory_key(dataset.history_key)
    dated = version_time_type(dataset, policy)
    described = tuple(column for column in _described_columns(dataset) if column.purpose != "foreign_key")
    return TableSpec(
        key,
        dataset.schema,
        naming.memory_name(dataset.name),
        "memory",
        (
            _entity_key(key, dataset),
            *described,
            *(_technical(key, purpose, name, type_) for purpose, name, type_ in memory_columns(dated)),
            *_load_columns(key),
        ),
        owner=dataset.key,
    )


def memory_key(history_key: str) -> str:
    """Stable key of the memory beside a history: the same in every installation."""
    return technical_key(history_key, "memory")


def tables_of(dataset: DatasetState) -> tuple[TableSpec, ...]:
    """The physical tables that follow from one dataset, in the order they are created."""
    if not dataset.active or dataset.materialization != "table":
        return ()
    if dataset.layer == "raw":
        return (raw_table(dataset),)
    if dataset.historize:
        memory = memory_table(dataset)
        return (rawcore_table(dataset), history_table(dataset), *([memory] if memory else []))
    return (rawcore_table(dataset),)
