"""Effects of type changes of columns, in one table for planning, tests and docs.

A change is *equivalent* (nothing to do), *wider in place* (ALTER, no row is read), *wider by rebuild* (every value
survives, but Delta has no ALTER for it), *narrower* (values may not fit, or lose digits) or *incompatible* (values
would change their meaning). If a change is wider, its reverse is not.
"""

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from metadata.domain.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DECIMAL,
    FLOAT,
    INTEGER,
    JSON,
    MAX_PRECISION,
    NAMES,
    STRING,
    TIME,
    TIMESTAMP,
    UUID,
    DataType,
    parse,
)


class TypeChange(StrEnum):
    """Relation of a type to the one it replaces."""

    EQUIVALENT = "equivalent"
    ALTER = "wider, in place"
    REBUILD = "wider, by rebuild"
    NARROWER = "narrower"
    INCOMPATIBLE = "incompatible"

    @property
    def widens(self) -> bool:
        return self in (TypeChange.ALTER, TypeChange.REBUILD)


EQUIVALENT, ALTER, REBUILD = TypeChange.EQUIVALENT, TypeChange.ALTER, TypeChange.REBUILD


NARROWER, INCOMPATIBLE = TypeChange.NARROWER, TypeChange.INCOMPATIBLE


# Digits before the decimal point of the largest value.
_DIGITS = {INTEGER: 10, BIGINT: 20}


# Characters of the longest text of a value.
_TEXT_LENGTH = {INTEGER: 11, BIGINT: 20, FLOAT: 24, BOOLEAN: 5, DATE: 10, TIME: 15, TIMESTAMP: 26, UUID: 36}


@dataclass(frozen=True)
class Rule:
    """Cell of the table: effect of changing ``before`` to ``after``, and its condition.

    ``measure`` is empty if the names of the types decide; ``otherwise`` applies if the condition is not met.
    """

    before: str
    after: str
    change: TypeChange
    measure: str = ""
    otherwise: TypeChange = NARROWER


_ROOM = "with room for {} digits before the point"


_TEXT = "of at least {} characters"


_RULES = (
    Rule(INTEGER, BIGINT, ALTER),
    Rule(INTEGER, FLOAT, ALTER),
    Rule(INTEGER, DECIMAL, ALTER, _ROOM.format(_DIGITS[INTEGER])),
    Rule(BIGINT, DECIMAL, ALTER, _ROOM.format(_DIGITS[BIGINT])),
    Rule(DECIMAL, DECIMAL, ALTER, "with no digit less on either side of the point"),
    Rule(STRING, STRING, ALTER, "that is longer or has no length"),
    Rule(TIME, STRING, ALTER, "without a length, else like its text"),
    Rule(UUID, STRING, ALTER, "without a length, else like its text"),
    Rule(JSON, STRING, ALTER, "without a length"),
    Rule(DATE, TIMESTAMP, REBUILD),
    *(
        Rule(before, STRING, REBUILD, _TEXT.format(_TEXT_LENGTH[before]))
        for before in (INTEGER, BIGINT, FLOAT, BOOLEAN, DATE, TIMESTAMP)
    ),
    Rule(DECIMAL, STRING, REBUILD, "with room for sign, digits and point"),
    # The reverse of these changes is narrower.
    Rule(BIGINT, INTEGER, NARROWER),
    Rule(BIGINT, FLOAT, NARROWER),
    Rule(DECIMAL, FLOAT, NARROWER),
    Rule(DECIMAL, INTEGER, NARROWER),
    Rule(DECIMAL, BIGINT, NARROWER),
    Rule(FLOAT, INTEGER, NARROWER),
    Rule(FLOAT, BIGINT, NARROWER),
    Rule(FLOAT, DECIMAL, NARROWER),
    Rule(TIMESTAMP, DATE, NARROWER),
    *(Rule(STRING, after, NARROWER) for after in (TIME, UUID, JSON)),
)


# Pairs not listed here are incompatible, except a type with itself.
RULES = {(rule.before, rule.after): rule for rule in _RULES}


_INCOMPATIBLE = {(a, b): Rule(a, b, INCOMPATIBLE) for a in NAMES for b in NAMES if (a, b) not in RULES and a != b}


@lru_cache(maxsize=4096)
def classify(before: str, after: str) -> TypeChange:
    """Return the kind of change from type ``before`` to ``after``. Raise TypeProblem for an invalid type."""
    return classify_types(parse(before), parse(after))


def classify_types(before: DataType, after: DataType) -> TypeChange:
    if before == after:
        return EQUIVALENT
    rule = RULES.get((before.name, after.name))
    if rule is None:
        return INCOMPATIBLE
    if not rule.measure:
        return rule.change
    if after.name == DECIMAL:
        return rule.change if _digits(before) <= _digits(after) and _scale(before) <= _scale(after) else rule.otherwise
    return _into_text(before, after, rule)


def _into_text(before: DataType, after: DataType, rule: Rule) -> TypeChange:
    """Return the effect of a change to text, whose length may be limited."""
    if after.length is None:
        return rule.change
    longest = text_length(before)
    if longest is None or longest > after.length:
        return rule.otherwise
    return rule.change if before.name == STRING else REBUILD


def text_length(data_type: DataType) -> int | None:
    """Return the length of the longest text of a value; None if unlimited."""
    if data_type.name == STRING:
        return data_type.length
    if data_type.name == DECIMAL:
        fraction = 1 + data_type.scale if data_type.scale else 0
        return 1 + max(_digits(data_type), 1) + fraction
    return _TEXT_LENGTH.get(data_type.name)


def _digits(data_type: DataType) -> int:
    """Return the number of digits before the decimal point of an exact number's largest value."""
    return data_type.whole_digits if data_type.name == DECIMAL else _DIGITS[data_type.name]


def _scale(data_type: DataType) -> int:
    return data_type.scale or 0


def common_type(stored: str, wanted: str) -> str | None:
    """Return the type that can store all values of both, for tables that never narrow; None if there is none.

    This is the wider type, or for two exact numbers of which neither is wider, a decimal with room for both. Text
    that becomes a number or date is incompatible, although the reverse is wider.
    """
    before, after = parse(stored), parse(wanted)
    if before == after or classify_types(before, after).widens:
        return str(after)
    if classify_types(before, after) is NARROWER and classify_types(after, before).widens:
        return str(before)
    exact = (INTEGER, BIGINT, DECIMAL)
    if before.name in exact and after.name in exact:
        scale = max(_scale(before), _scale(after))
        precision = max(_digits(before), _digits(after)) + scale
        if precision <= MAX_PRECISION:
            return str(DataType(DECIMAL, precision=precision, scale=scale))
    return None
