"""Immutable states of target datasets, which are compared, planned and executed.

A state contains everything that affects execution, but no users or times.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from metadata.domain.exposures import is_web_address
from metadata.domain.quality.unknown_parents import KEEP

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
    parent does not have (``metadata.domain.quality.unknown_parents``).
    """

    key: str
    column_name: str
    parent: str
    pairs: tuple[tuple[str, str], ...]
    unknown_parent: str = KEEP


@dataclass(frozen=True)
class CheckState:
    """Quality check of a contract, with normal arguments (``metadata.domain.quality.check_kinds``)."""

    key: str
    name: str
    kind: str
    severity: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PromisedColumn:
    """Column that a contract promises; ``is_key``: it is part of the business key."""

    name: str
    type: str
    nullable: bool = True
    is_key: bool = False


@dataclass(frozen=True)
class ContractState:
    """Contract of a dataset.

    A desired contract has its ``checks`` only: the rest follows from the dataset. An applied one also has its
    ``version``, and the name and columns of the ``dataset`` that it promises.
    """

    checks: tuple[CheckState, ...] = ()
    version: str = ""
    dataset: str = ""
    columns: tuple[PromisedColumn, ...] = ()


@dataclass(frozen=True)
class ExposureState:
    """Consumer of a dataset, such as a dashboard."""

    name: str
    kind: str
    owner: str
    link: str

    @property
    def is_web(self) -> bool:
        return is_web_address(self.link)


@dataclass(frozen=True)
class DatasetState:
    """State of a target dataset; ``inputs`` are stable keys of source or target datasets.

    ``load_policy`` has further rules that decide rows (``metadata.domain.load_policy``); state files may have any.
    ``rules_recorded`` is False for a stored state of a release that recorded none of them but ``keep``. ``select`` is
    the SELECT of a model, ``increment`` the rows of it that a load computes anew (all if empty). ``exposures`` are the
    dataset's consumers.
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
    history_policy: dict[str, Any] | str = field(default_factory=dict)
    references: tuple[ReferenceState, ...] = ()
    hash_version: int = 1
    load_policy: Mapping[str, Any] | str | None = None
    select: str | None = None
    increment: dict[str, Any] = field(default_factory=dict)
    contract: ContractState | None = None
    exposures: tuple[ExposureState, ...] = ()
    rules_recorded: bool = True

    @property
    def history_choices(self) -> dict[str, Any]:
        """Return the history policy as an object. Raise ValueError for another policy, which state files may have."""
        if isinstance(self.history_policy, str):
            raise ValueError(f"{self.qualified_name}: the history policy is a text")
        return dict(self.history_policy)

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
