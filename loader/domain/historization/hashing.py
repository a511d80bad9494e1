"""Encoding v2 of values for row hashes.

The text is collision-free: components ``id~value`` sorted by ``id`` (a stable key, so a rename changes no hash) and
joined by ``|``; backslash, tilde and bar are escaped with a backslash. NULL contributes nothing, so a new column
that is NULL everywhere changes no hash; an empty string contributes. A value's canonical text does not depend on
the width of its type, so a widening changes no hash either; that of a uuid, a time or json not on the way in which it
is written (``compared_texts``), the only difference to v1. A pepper is a component with an empty id, and therefore
always the first.

``loader.engine.hashing`` computes the same with Spark expressions; golden tests check both.
"""

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from itertools import pairwise
from math import isfinite, isnan
from typing import Any, TypeVar

from loader.domain.historization.compared_texts import ComparedText

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
