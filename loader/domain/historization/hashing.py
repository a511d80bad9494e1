"""Encoding v2 of values, and the column sets that row hashes cover.

The text is collision-free: components ``id~value`` sorted by ``id`` (a stable key, so a rename changes no hash) and
joined by ``|``; backslash, tilde and bar are escaped with a backslash. NULL contributes nothing, so a new column
that is NULL everywhere changes no hash; an empty string contributes. A value's canonical text does not depend on
the width of its type, so a widening changes no hash either; that of a uuid, a time or json not on the way in which it
is written (``compared_texts``), the only difference to v1. A pepper is a component with an empty id, and therefore
always the first.

``loader.spark.expressions`` computes the same with Spark expressions; golden tests check both.
"""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from math import isfinite, isnan
from typing import Any, TypeVar

from loader.domain.historization.compared_texts import BY_VALUE, ComparedText
from metadata.domain import types as data_types

ALGORITHM_VERSION = 2

EXACT_INTEGERS_BELOW = 2**53  # every integral double below this has distinct plain digits
MICROSECONDS_PER_DAY = 86_400_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = date(1970, 1, 1).toordinal()
_ESCAPES = str.maketrans({"\\": "\\\\", "~": "\\~", "|": "\\|"})


def canonical_text(value: object) -> str | None:
    """Return the canonical text of a value, not yet escaped; None for NULL.

    Raise TypeError for an unsupported type and ValueError for a decimal that is not finite.
    """
    match value:
        case None:
            return None
        case ComparedText():
            return value.compared
        case str():
            return value
        case bool():  # before int, since a bool is an int
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return _float_text(value)
        case Decimal():
            return _decimal_text(value)
        case datetime():  # before date, since a datetime is a date
            return str(_microseconds(value))
        case date():
            return str((value.toordinal() - _EPOCH_DAY) * MICROSECONDS_PER_DAY)
        case bytes() | bytearray():
            return value.hex()
    raise TypeError(f"a value of type {type(value).__name__} has no canonical text")


def encode(components: Iterable[tuple[str, object]]) -> str:
    """Return the text that is hashed: one ``id~value`` per component that is not NULL, sorted by id.

    Raise ValueError for a repeated id.
    """
    parts = []
    for identifier, value in in_order(components):
        text = canonical_text(value)
        if text is not None:
            parts.append(f"{escape(identifier)}~{escape(text)}")
    return "|".join(parts)


def digest(components: Iterable[tuple[str, object]], pepper: str = "") -> str:
    """Return the SHA-256 of the encoded components: 64 lower-case hexadecimal digits."""
    encoded = encode([*peppered(pepper), *components])
    return sha256(encoded.encode("utf-8")).hexdigest()


def escape(text: str) -> str:
    """Return ``text`` with the three structural characters (backslash, tilde, bar) escaped."""
    return text.translate(_ESCAPES)


def peppered(pepper: str) -> list[tuple[str, str]]:
    """Return the pepper as a list of one component, empty if there is no pepper."""
    return [("", pepper)] if pepper else []


_Component = TypeVar("_Component", bound=tuple[str, *tuple[Any, ...]])


def in_order(components: Iterable[_Component]) -> list[_Component]:
    """Return ``components`` (tuples beginning with their id) sorted by id. Raise ValueError for a repeated id."""
    ordered = sorted(components, key=lambda component: component[0])
    for first, second in pairwise(ordered):
        if first[0] == second[0]:
            raise ValueError(f"the hash component {first[0]!r} comes twice")
    return ordered


def _float_text(value: float) -> str:
    """Return plain digits if they are exact, else Java's ``%a``. All NaNs are equal, and -0.0 is 0."""
    if isnan(value):
        return "NaN"
    if not isfinite(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value.is_integer() and abs(value) < EXACT_INTEGERS_BELOW:
        return str(int(value))
    mantissa, exponent = value.hex().split("p")
    whole, fraction = mantissa.split(".")
    return f"{whole}.{fraction.rstrip('0') or '0'}p{int(exponent)}"


def _decimal_text(value: Decimal) -> str:
    """Return plain digits without exponent and trailing zeros. Not ``normalize()``: it rounds to the context."""
    if not value.is_finite():
        raise ValueError(f"the decimal {value} has no canonical text")
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _microseconds(value: datetime) -> int:
    """Return the microseconds since 1970 in UTC; a datetime without a zone is UTC."""
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(microseconds=1)


# Column sets that row hashes cover, recorded in a history's commit metadata for later loads and checks. A *set* lists
# columns by stable key, each with the family of its type: within a family, equal values have equal hashes. Where
# loads compare by hash, all open versions have hashes over one set, the recorded one (rule 16). Otherwise (rows with
# a time of their own, batch files) an open version keeps its hash, so former sets are recorded, too. A former set is
# written as its difference from the current one: ``-a:number +b:string``.


HASHED, HASHED_BEFORE = "hashed", "hashed_before"

# Families of types: equal values of one family have equal hashes, so a widening within a family changes no hash. In
# sets that v1 recorded, uuid, json and time are strings.
_FAMILY = {
    data_types.INTEGER: "number",
    data_types.BIGINT: "number",
    data_types.DECIMAL: "number",
    data_types.FLOAT: "number",
    data_types.DATE: "instant",
    data_types.TIMESTAMP: "instant",
}

Set = frozenset[str]


def family(type_name: str) -> str:
    """Return the family of a type; equal values of one family have equal hashes."""
    return _FAMILY.get(type_name, type_name)


def hashed_set(columns: Iterable[tuple[str, str]]) -> str:
    """Return the set of these columns (stable key, name of the type) as text for commit metadata."""
    return " ".join(sorted(f"{key}:{family(type_name)}" for key, type_name in columns))


def hashed_notes(noted: Mapping[str, str] | None, now: str) -> dict[str, str]:
    """Return the notes of a run that writes hashes over the set ``now``, while older versions keep theirs.

    ``noted`` are the notes of the newest run, None before the first one. If they record no set, none is recorded,
    because the sets of older hashes are unknown.
    """
    if noted is None:
        return {HASHED: now}
    if HASHED not in noted:
        return {}
    current = frozenset(now.split())
    before = [column_set for column_set in _sets(noted) if column_set != current]
    notes = {HASHED: now}
    if before:
        notes[HASHED_BEFORE] = ";".join(_difference(current, columns) for columns in dict.fromkeys(before))
    return notes


def hashed_over(noted: Mapping[str, str], families: Mapping[str, str]) -> list[tuple[str, ...]] | None:
    """Return the stable keys that an open version's hash may cover, a tuple for each recorded set; None if unknown.

    ``families`` are those of the table's columns, by stable key: a hash over a column that was removed, or whose
    family changed, cannot be computed from the table any more.
    """
    if HASHED not in noted:
        return None
    column_sets = []
    for column_set in _sets(noted):
        parts = [part.rpartition(":") for part in sorted(column_set)]
        if not all(_is_computable(kind, families.get(key)) for key, _, kind in parts):
            return None
        column_sets.append(tuple(key for key, _, _ in parts))
    return column_sets


def _is_computable(recorded: str, now: str | None) -> bool:
    """Return True if a hash over a value of the recorded family can be computed from a column of the family ``now``."""
    return recorded == now or (recorded == data_types.STRING and now in BY_VALUE)


def only_compared_otherwise(noted: Mapping[str, str], now: str) -> bool:
    """Return True if the recorded set has the columns of the set ``now``, some of them hashed as text by v1."""
    recorded = dict(_parts(frozenset(noted.get(HASHED, "").split())))
    current = dict(_parts(frozenset(now.split())))
    return recorded != current and recorded.keys() == current.keys() and all(
        _is_computable(recorded[key], kind) for key, kind in current.items()
    )


def _parts(column_set: Set) -> list[tuple[str, str]]:
    return [(key, kind) for key, _, kind in (part.rpartition(":") for part in sorted(column_set))]


def _sets(noted: Mapping[str, str]) -> list[Set]:
    """Return the recorded sets, the current one first."""
    current = frozenset(noted[HASHED].split())
    before = noted.get(HASHED_BEFORE)
    return [current, *([] if before is None else (_changed_set(current, text) for text in before.split(";")))]


def _difference(current: Set, other: Set) -> str:
    return " ".join(
        [*(f"-{part}" for part in sorted(current - other)), *(f"+{part}" for part in sorted(other - current))]
    )


def _changed_set(current: Set, text: str) -> Set:
    signs = [(part[0], part[1:]) for part in text.split()]
    removed, added = ({part for sign, part in signs if sign == wanted} for wanted in "-+")
    return (current - removed) | added
