"""Columns of a history table: those it holds, those the source has now, and how both change (rules 16, 17).

A table never loses a column. ``types`` is everything it ever held; ``present`` is what the source
has now, and only that is compared and written.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from math import isinf
from typing import Any

from architecture.domain.type_changes import TypeChange, classify_types
from loader.domain.runs.refusals import Refusal
from metadata.domain import types as ours
from metadata.domain.naming import free_name
from metadata.domain.types import DataType

Convert = Callable[[Any], Any]

RETIRED = "__retired_"
_EXACT = Context(prec=1000)


@dataclass(frozen=True)
class Columns:
    """Every column the table holds with its type, and the names the source has now."""

    types: Mapping[str, DataType] = field(default_factory=dict)
    present: tuple[str, ...] = ()

    def moves(self, names: Mapping[str, str], kept: Collection[str] = ()) -> dict[str, str]:
        """Return the effect of a rename on names, all of it at once, so that a swap is possible.

        A column that the source no longer has gives its name up and moves to a reserved one; any other
        existing target is refused (rule 17). ``kept`` are names that rows carry although the source's
        columns do not name them: keys, and the time.
        """
        moves = dict(names)
        if len(set(names.values())) != len(names):
            raise Refusal("NAME_TAKEN", "two columns cannot be renamed to the same name")
        for old, new in names.items():
            if old not in self.types:
                raise Refusal("UNKNOWN_COLUMN", f"there is no column {old!r} to rename to {new!r}", column=old)
            if new not in self.types or new in names or new == old:
                continue
            if new in self.present or new in kept:
                raise Refusal("NAME_TAKEN", f"{old!r} cannot become {new!r}: that column exists", column=old)
            moves[new] = free_name(RETIRED + new, [*self.types, *moves.values()])
        return moves

    def renamed(self, moves: Mapping[str, str]) -> "Columns":
        """Return the columns after ``moves``."""
        return Columns(
            {moves.get(name, name): type_ for name, type_ in self.types.items()},
            tuple(moves.get(name, name) for name in self.present),
        )

    def delivered(self, columns: Mapping[str, DataType]) -> tuple["Columns", dict[str, Convert]]:
        """Return the columns after a batch named the source's, and the conversions of stored values that widened.

        A column that comes back is compared with the type it is stored with, like any other. Raise Refusal
        NARROWER_COLUMN.
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
    """Return the conversion of a stored value to a wider type; None if that type is not wider.

    ``architecture.domain.type_changes`` defines which types are wider; as text a value reads as it does on Spark.
    """
    change = classify_types(stored, wanted)
    if not (change is TypeChange.EQUIVALENT or change.widens):
        return None
    if wanted.name == ours.DECIMAL:
        return lambda value: Decimal(value).quantize(Decimal(1).scaleb(-wanted.scale), context=_EXACT)
    if wanted.name == stored.name:
        return _as_it_is
    match wanted.name:
        case ours.FLOAT:
            return float
        case ours.TIMESTAMP:
            return _midnight
        case ours.STRING:
            return _as_text
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _midnight(value: date) -> datetime:
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _as_text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case float():
            return _float_text(value)
        case Decimal():
            return format(value, "f")
        case datetime():
            text = value.astimezone(UTC).replace(tzinfo=None).isoformat(" ")
            return text.rstrip("0") if value.microsecond else text
        case date():
            return value.isoformat()
    return str(value)


def _float_text(value: float) -> str:
    """Return a double as the JVM writes it: plain from a thousandth up to ten million, else with an exponent.

    Equal values have one text: -0.0 equals 0.0, and a widening must open no version (rule 17).
    """
    if value != value or isinf(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    minus = "-" if value < 0 else ""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(Decimal(repr(abs(value))), "f")
        return minus + (plain if "." in plain else f"{plain}.0")
    first, *others = map(str, digits)
    assert isinstance(exponent, int)
    return f"{minus}{first}.{''.join(others) or '0'}E{exponent + len(others)}"
