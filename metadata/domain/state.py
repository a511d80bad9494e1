"""Frozen descriptions of target datasets: what is compared, planned and executed.

A state carries everything that changes what runs, and nothing about people or times.
"""

from dataclasses import dataclass, field

BUSINESS_KEY = "business_key"
ATTRIBUTE = "attribute"
TECHNICAL = "technical"


@dataclass(frozen=True)
class ColumnState:
    """A column as metadata describes it. ``inputs`` are stable keys of upstream columns."""

    key: str
    name: str
    type: str
    nullable: bool = True
    role: str = ATTRIBUTE
    former_names: tuple[str, ...] = ()
    active: bool = True
    expression: str | None = None
    inputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReferenceState:
    """A foreign key: ``column_name`` of this dataset holds the entity key of ``parent``.

    ``pairs`` are (child column key, parent business-key column key).
    """

    key: str
    column_name: str
    parent: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class DatasetState:
    """A target dataset as metadata describes it. ``inputs`` are stable keys, source or target.

    ``load_policy`` is what a state file says of how the dataset is loaded; metadata says it by the inputs' own.
    """

    key: str
    schema: str
    layer: str
    name: str
    columns: tuple[ColumnState, ...]
    former_names: tuple[str, ...] = ()
    active: bool = True
    materialization: str = "table"
    historize: bool = False
    history_key: str | None = None
    filter: str | None = None
    inputs: tuple[str, ...] = ()
    history_policy: dict = field(default_factory=dict)
    references: tuple[ReferenceState, ...] = ()
    hash_version: int = 1
    load_policy: dict | str | None = None

    @property
    def qualified_name(self) -> str:
        return f"{self.schema}.{self.name}"

    @property
    def active_columns(self) -> tuple[ColumnState, ...]:
        return tuple(column for column in self.columns if column.active)

    @property
    def business_key(self) -> tuple[ColumnState, ...]:
        return tuple(column for column in self.active_columns if column.role == BUSINESS_KEY)

    @property
    def attributes(self) -> tuple[ColumnState, ...]:
        return tuple(column for column in self.active_columns if column.role == ATTRIBUTE)
