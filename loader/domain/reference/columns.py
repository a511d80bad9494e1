"""The columns of a history table: what it holds, what the source has now, how both change (rules 16, 17).

A table never loses a column. ``types`` is everything it ever held; ``present`` is what the source
has now, and only that is compared and written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from loader.domain.refusals import Refusal
from metadata.domain import types as ours
from metadata.domain.types import DataType

Convert = Callable[[Any], Any]

_INTEGER_DIGITS = {ours.INTEGER: 10, ours.BIGINT: 20}


@dataclass(frozen=True)
class Columns:
    """Every column the table holds with its type, and the names the source has now."""

    types: Mapping[str, DataType] = field(default_factory=dict)
    present: tuple[str, ...] = ()

    def renamed(self, names: Mapping[str, str]) -> "Columns":
        """After a rename (all of it at once, so a swap is possible); rule 17 refuses a taken target."""
        for old, new in names.items():
            if old not in self.types:
                raise Refusal("UNKNOWN_COLUMN", f"there is no column {old!r} to rename to {new!r}", column=old)
            if new in self.types and new not in names and new != old:
                raise Refusal("NAME_TAKEN", f"{old!r} cannot become {new!r}: that column exists", column=old)
        if len(set(names.values())) != len(names):
            raise Refusal("NAME_TAKEN", "two columns cannot be renamed to the same name")
        return Columns(
            {names.get(name, name): type_ for name, type_ in self.types.items()},
            tuple(names.get(name, name) for name in self.present),
        )

    def delivered(self, columns: Mapping[str, DataType]) -> tuple["Columns", dict[str, Convert]]:
        """After a batch said what the source has; and how to convert what is stored where it widened.

        A column that comes back is measured against the type it is stored with, like any other.
        """
        types, conversions = dict(self.types), {}
        for name, wanted in columns.items():
            stored = types.get(name)
            if stored is not None and stored != wanted:
                conversion = widening(stored, wanted)
                if conversion is None:
                    raise Refusal(
                        "NARROWER_COLUMN",
                        f"column {name!r} is {stored} and came as {wanted}, which cannot hold all of it",
                        column=name,
                    )
                conversions[name] = conversion
            types[name] = wanted
        return replace(self, types=types, present=tuple(columns)), conversions


def widening(stored: DataType, wanted: DataType) -> Convert | None:
    """How a stored value becomes one of the wider type; None if that type is not wider."""
    match (stored.name, wanted.name):
        case (one, other) if one == other and one not in (ours.STRING, ours.DECIMAL):
            return _as_it_is
        case (ours.STRING, ours.STRING):
            return _as_it_is if _at_least(wanted.length, stored.length) else None
        case (ours.DECIMAL, ours.DECIMAL):
            return _as_it_is if _room(wanted, stored.precision - stored.scale, stored.scale) else None
        case (ours.INTEGER, ours.BIGINT):
            return _as_it_is
        case (ours.INTEGER, ours.FLOAT):
            return float
        case (ours.INTEGER | ours.BIGINT, ours.DECIMAL):
            return Decimal if _room(wanted, _INTEGER_DIGITS[stored.name], 0) else None
        case (ours.DATE, ours.TIMESTAMP):
            return _midnight
        case (ours.INTEGER | ours.BIGINT | ours.DATE | ours.BOOLEAN, ours.STRING):
            return _as_text if wanted.length is None else None
        case (ours.UUID | ours.JSON, ours.STRING):
            return _as_it_is if wanted.length is None else None
    return None


def _at_least(wanted: int | None, stored: int | None) -> bool:
    return wanted is None or (stored is not None and wanted >= stored)


def _room(wanted: DataType, digits: int, scale: int) -> bool:
    return wanted.scale >= scale and wanted.precision - wanted.scale >= digits


def _as_it_is(value: Any) -> Any:
    return value


def _midnight(value: date) -> datetime:
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)
