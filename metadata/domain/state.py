"""Immutable states of target datasets, which are compared, planned and executed.

A state contains everything that affects execution, but no users or times.
"""

from dataclasses import dataclass, field

from metadata.domain.unknown_parents import KEEP

BUSINESS_KEY = "business_key"
ATTRIBUTE = "attribute"
TECHNICAL = "technical"


@dataclass(frozen=True)
class ColumnState:
    """State of a column; ``inputs`` are stable keys of upstream columns."""

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
    """Foreign key: ``column_name`` of this dataset stores the entity key of ``parent``.

    ``pairs`` are (child column key, parent business-key column key). ``unknown_parent`` is the rule for keys that the
    parent does not have (``metadata.domain.unknown_parents``).
    """

    key: str
    column_name: str
    parent: str
    pairs: tuple[tuple[str, str], ...]
    unknown_parent: str = KEEP


@dataclass(frozen=True)
class DatasetState:
    """State of a target dataset; ``inputs`` are stable keys of source or target datasets.

    ``load_policy`` of a raw dataset is its keeping (``metadata.domain.raw_keeping``). State files may have any; in
    metadata, the inputs determine all else about how a dataset is loaded. ``select`` is the SELECT of a model,
    ``increment`` the rows of it that a load computes anew (all if empty).
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
    select: str | None = None
    increment: dict = field(default_factory=dict)

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
