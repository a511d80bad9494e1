"""What a worker asks of the runner: requests as frozen dataclasses, JSON on the pipe.

A manifest holds everything the runner needs to know; it looks nothing up. Tables, columns and
datasets are the domains' own dataclasses, so both sides speak of the same things.
"""

from dataclasses import asdict, dataclass, field, fields, is_dataclass
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from architecture.domain.operations import Operation
from architecture.domain.tables import TableSpec

PROTOCOL = 1


@dataclass(frozen=True)
class DeliveredColumn:
    """A column the source promises. ``key`` is the source column's stable key."""

    key: str
    name: str
    type: str
    nullable: bool = True
    business_key: bool = False


@dataclass(frozen=True)
class SourceSpec:
    """Where a delivery is and what it must look like. ``options`` are described in ``loader.spark.sources``."""

    name: str
    location: str
    format: str
    columns: tuple[DeliveredColumn, ...]
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class RawLoad:
    """Bring one delivery into its raw table, whole or not at all.

    ``columns`` says which raw column each delivered one becomes: (raw column name, delivered name).
    """

    dataset: str
    name: str
    table: TableSpec
    source: SourceSpec
    columns: tuple[tuple[str, str], ...]
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class HashComponent:
    """One part of a hash: the stable key it goes under and the column whose value it is."""

    key: str
    column: str


@dataclass(frozen=True)
class ForeignKey:
    """``column`` holds the hash of ``components``; NULL where any of them is NULL."""

    column: str
    components: tuple[HashComponent, ...]


@dataclass(frozen=True)
class StageColumn:
    """A column of the stage view: ``expression`` is Spark SQL over the input, cast to ``type``."""

    name: str
    type: str
    expression: str


@dataclass(frozen=True)
class StageInput:
    """One input of a stage view: a raw table and what is taken from it.

    ``options`` are the source's reading options, for how text becomes values (``timezone``).
    """

    table: TableSpec
    columns: tuple[StageColumn, ...]
    filter: str | None = None
    options: dict = field(default_factory=dict)


@dataclass(frozen=True)
class RawcoreLoad:
    """Compare what stage holds with history's open versions once; feed history, then rawcore.

    ``history`` is None where the dataset is not historized. ``sequence`` is ``txnVersion``;
    ``newest_applied_at`` is what the control database knows of the newest applied run (ISO 8601).
    ``delivery_checked`` says that the one input's delivery was already checked for everything
    stage would check: the same types, and one row for each of the same keys.
    """

    dataset: str
    name: str
    table: TableSpec
    history: TableSpec | None
    inputs: tuple[StageInput, ...]
    entity_key: tuple[HashComponent, ...]
    row_hash: tuple[HashComponent, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    policy: dict = field(default_factory=dict)
    sequence: int = 0
    newest_applied_at: str | None = None
    delivery_checked: bool = False
    depends_on: tuple[str, ...] = ()

    @property
    def leading(self) -> TableSpec:
        """The table that is committed first and decides what is new."""
        return self.history or self.table


@dataclass(frozen=True)
class LoadManifest:
    """One attempt of one load run."""

    run_id: str
    load_timestamp: str
    attempt: int
    raw: tuple[RawLoad, ...]
    rawcore: tuple[RawcoreLoad, ...]
    allow_empty: bool = False
    already_done: tuple[str, ...] = ()


@dataclass(frozen=True)
class ObserveManifest:
    """Which tables to look at; tables that do not exist are left out of the answer."""

    tables: tuple[str, ...]


@dataclass(frozen=True)
class ExecuteManifest:
    """Operations to execute, in order; each is proved by observing the table afterwards."""

    execution: str
    operations: tuple[Operation, ...]


@dataclass(frozen=True)
class ReadManifest:
    """A read: see ``loader.spark.reads`` for the kinds and their arguments."""

    kind: str
    table: TableSpec | None = None
    source: SourceSpec | None = None
    arguments: dict = field(default_factory=dict)
    timeout_seconds: float = 60.0


def to_json(value: Any) -> Any:
    """A manifest as plain JSON values. Types JSON does not know are a programming error."""
    return asdict(value) if is_dataclass(value) else value


def from_json(kind: type, described: Any) -> Any:
    """The dataclass ``kind`` from its JSON; an unknown field raises TypeError."""
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}
    unknown = set(described) - known
    if unknown:
        raise TypeError(f"{kind.__name__} has no field {sorted(unknown)[0]}")
    return kind(**{name: _value(hints[name], value) for name, value in described.items()})


def _value(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return _value(next(arg for arg in get_args(hint) if arg is not type(None)), value)
    if origin is tuple:
        args = get_args(hint)
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_value(args[0], item) for item in value)
        return tuple(_value(arg, item) for arg, item in zip(args, value, strict=True))
    if is_dataclass(hint):
        return from_json(hint, value)
    return value
