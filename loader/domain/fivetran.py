"""Rules of the Fivetran destination: types, system columns, and differences between a sent table and its contract.

Names of types are those of the protocol. The protocol's messages do not occur here (``loader.fivetran``).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from loader.contract.refusals import Refusal
from loader.domain.historization.history import parse_instant
from metadata.domain import types as data_types
from metadata.domain.types import DataType

START, END, ACTIVE, SYNCED = "_fivetran_start", "_fivetran_end", "_fivetran_active", "_fivetran_synced"
# Columns that only tables in history mode have.
HISTORY_COLUMNS = {START: "UTC_DATETIME", END: "UTC_DATETIME", ACTIVE: "BOOLEAN"}
# The history's own column SYNCED has the time of the load, so the time of the sync is in a column of another name.
CONTRACT_NAMES = {SYNCED: "fivetran_synced"}
_SENT_NAMES = {kept: sent for sent, kept in CONTRACT_NAMES.items()}
# Precision and scale of a decimal that is sent without them.
DEFAULT_DECIMAL = (38, 10)

# Types by name in the protocol, and the name that is reported if none was sent for a column.
TYPES = {
    "BOOLEAN": data_types.BOOLEAN,
    "SHORT": data_types.INTEGER,
    "INT": data_types.INTEGER,
    "LONG": data_types.BIGINT,
    "DECIMAL": data_types.DECIMAL,
    "FLOAT": data_types.FLOAT,
    "DOUBLE": data_types.FLOAT,
    "NAIVE_TIME": data_types.TIME,
    "NAIVE_DATE": data_types.DATE,
    "NAIVE_DATETIME": data_types.TIMESTAMP,
    "UTC_DATETIME": data_types.TIMESTAMP,
    "BINARY": data_types.BINARY,
    "XML": data_types.STRING,
    "STRING": data_types.STRING,
    "JSON": data_types.JSON,
}
REPORTED = {
    data_types.BOOLEAN: "BOOLEAN",
    data_types.INTEGER: "INT",
    data_types.BIGINT: "LONG",
    data_types.DECIMAL: "DECIMAL",
    data_types.FLOAT: "DOUBLE",
    data_types.TIME: "NAIVE_TIME",
    data_types.DATE: "NAIVE_DATE",
    data_types.TIMESTAMP: "UTC_DATETIME",
    data_types.BINARY: "BINARY",
    data_types.UUID: "STRING",
    data_types.STRING: "STRING",
    data_types.JSON: "JSON",
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True)
class Column:
    """Column as it is sent or reported; ``precision`` and ``scale`` are those of a decimal."""

    name: str
    type: str
    primary_key: bool = False
    precision: int | None = None
    scale: int | None = None

    @property
    def data_type(self) -> DataType:
        """Return the type in the warehouse. Raise Refusal TYPE_NOT_SUPPORTED."""
        name = TYPES.get(self.type)
        if name is None:
            raise Refusal(
                "TYPE_NOT_SUPPORTED",
                f"column {self.name} has the type {self.type}",
                column=self.name,
                hint=f"Types are {', '.join(TYPES)}.",
            )
        if name != data_types.DECIMAL:
            return DataType(name)
        precision, scale = DEFAULT_DECIMAL if self.precision is None else (self.precision, self.scale or 0)
        return DataType(name, precision=precision, scale=scale)


def reported_column(name: str, type_: DataType, *, sent_as: str = "", primary_key: bool = False) -> Column:
    """Return a column of a contract as it is reported, with the type that was sent if the contract still has it."""
    is_unchanged = TYPES.get(sent_as) == type_.name
    reported = sent_as if is_unchanged else REPORTED[type_.name]
    return Column(sent_name(name), reported, primary_key, type_.precision, type_.scale)


@dataclass(frozen=True)
class Table:
    """Table as it is sent."""

    schema: str
    name: str
    columns: tuple[Column, ...]

    def __post_init__(self) -> None:
        check_name(self.schema)
        check_name(self.name)

    @property
    def in_history_mode(self) -> bool:
        return any(column.name == START for column in self.columns)

    @property
    def described(self) -> dict[str, Column]:
        """Return the columns of the contract by their names there; those of history mode are the history's own."""
        return {contract_name(c.name): c for c in self.columns if c.name not in HISTORY_COLUMNS}

    def in_mode(self, *, history: bool, without: str = "") -> "Table":
        """Return the table in history mode or not, without a column if it is given."""
        kept = (column for column in self.columns if column.name not in (without, *HISTORY_COLUMNS))
        times = [Column(name, type_, primary_key=name == START) for name, type_ in HISTORY_COLUMNS.items()]
        return replace(self, columns=(*kept, *(times if history else ())))

    @property
    def key(self) -> tuple[str, ...]:
        """Return the primary key. Raise Refusal NO_PRIMARY_KEY."""
        key = tuple(name for name, column in self.described.items() if column.primary_key)
        if not key:
            raise Refusal(
                "NO_PRIMARY_KEY",
                f"{self.schema}.{self.name} has no primary key",
                hint="Fivetran sends _fivetran_id as the key of tables without one.",
            )
        return key


def contract_name(name: str) -> str:
    """Return the name that a sent column has in the contract."""
    return CONTRACT_NAMES.get(name, name)


def sent_name(name: str) -> str:
    """Return the name that Fivetran has for a column of a contract."""
    return _SENT_NAMES.get(name, name)


def check_name(name: str) -> None:
    """Raise Refusal BAD_NAME for a name of a schema or table that cannot be part of a location."""
    if not _NAME.fullmatch(name) or len(name) > 200:
        raise Refusal("BAD_NAME", f"{name[:100]!r} is no name of letters, digits and _", hint="Rename it in Fivetran.")


@dataclass(frozen=True)
class KnownColumn:
    """Column of a contract. ``sent_as`` is the type that was sent for it."""

    type: DataType
    sent_as: str = ""
    is_key: bool = False
    active: bool = True


@dataclass(frozen=True)
class Changes:
    """Changes that make a contract like a sent table, by names in the contract."""

    add: Mapping[str, Column] = field(default_factory=dict)
    retype: Mapping[str, Column] = field(default_factory=dict)
    bring_back: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.add or self.retype or self.bring_back or self.retire)


def changes_of(known: Mapping[str, KnownColumn], table: Table, *, drops: bool) -> Changes:
    """Return the changes of a contract. Columns that are not sent are retired only with ``drops``.

    Names are compared without case. Raise Refusal PRIMARY_KEY_CHANGED.
    """
    sent = {name.lower(): (name, column) for name, column in table.described.items()}
    kept = {name.lower(): (name, column) for name, column in known.items()}
    old_key = {name for name, (_, column) in kept.items() if column.is_key and column.active}
    new_key = {name.lower() for name in table.key}
    if old_key and old_key != new_key:
        raise Refusal(
            "PRIMARY_KEY_CHANGED",
            f"the primary key of {table.schema}.{table.name} is {', '.join(sorted(old_key))}, "
            f"not {', '.join(sorted(new_key))}",
            hint="A history cannot change its key. Drop the table in Fivetran and sync it again under another name.",
        )
    both = {kept[name][0]: (kept[name][1], sent[name][1]) for name in sent if name in kept}
    return Changes(
        add={name: column for key, (name, column) in sent.items() if key not in kept},
        retype={name: new for name, (old, new) in both.items() if _differs(old, new)},
        bring_back=tuple(name for name, (old, _) in both.items() if not old.active),
        retire=tuple(name for key, (name, old) in kept.items() if drops and old.active and key not in sent),
    )


def _differs(old: KnownColumn, new: Column) -> bool:
    if new.type == "DECIMAL" and new.precision is None and old.type.name == data_types.DECIMAL:
        return False
    return old.type != new.data_type or old.sent_as != new.type


def parsed_time(text: str) -> datetime:
    """Return the time of an operation, in UTC and cut to microseconds. Raise Refusal BAD_TIME."""
    try:
        return parse_instant(text.strip())
    except ValueError:
        raise Refusal("BAD_TIME", f"{text[:50]!r} is no time like 2007-12-03T10:15:30.123Z") from None
