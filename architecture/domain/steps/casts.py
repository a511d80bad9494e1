"""SQL that casts a column to another type, and that finds the values which do not survive.

A value survives if it comes out as the same value: a number that keeps all its digits, a text that
is as long as allowed, a moment that loses no time of day. Of a type that is stored as text it must have
the form that loads ask for, without the blanks that they take away. NULL always survives.
"""

from metadata.domain.sql import quote_text
from metadata.domain.text_formats import JSON_ARRAY, JSON_OBJECT, PATTERNS, STRICT_JSON
from metadata.domain.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DECIMAL,
    FLOAT,
    INTEGER,
    JSON,
    STRING,
    TIMESTAMP,
    DataType,
    parse,
    spark_type,
    stored_type,
)

_EXACT = (INTEGER, BIGINT, DECIMAL)
_NUMBERS = (*_EXACT, FLOAT)
# Between these Spark casts directly; everything else goes by way of text, which rarely is the other type's.
_DIRECT = {
    *((a, b) for a in _NUMBERS for b in _NUMBERS),
    *((a, STRING) for a in (*_NUMBERS, BOOLEAN, DATE, TIMESTAMP, BINARY, STRING)),
    *((STRING, b) for b in (*_NUMBERS, BOOLEAN, DATE, TIMESTAMP, BINARY)),
    (DATE, TIMESTAMP),
    (TIMESTAMP, DATE),
    (BOOLEAN, BOOLEAN),
    (DATE, DATE),
    (TIMESTAMP, TIMESTAMP),
    (BINARY, BINARY),
}
_MOST_DIGITS = 38


def cast_to(value: str, from_type: str, to_type: str) -> str:
    """SQL for ``value`` as the other type; NULL where that is not possible. A text keeps its whole length."""
    before, after = stored_type(parse(from_type)), stored_type(parse(to_type))
    target = "STRING" if after.name == STRING else spark_type(after)
    if (before.name, after.name) not in _DIRECT:
        value = f"CAST({equal_as_text(value, before)} AS STRING)"
    elif after.name == STRING:
        value = equal_as_text(value, before)
    return f"try_cast({value} AS {target})"


def equal_as_text(value: str, before: DataType) -> str:
    """SQL for ``value`` such that equal values have one text: -0.0 equals 0.0, and what was no change stays none."""
    return f"IF({value} = 0, 0.0D, {value})" if before.name == FLOAT else value


def does_not_survive(value: str, from_type: str, to_type: str) -> str:
    """SQL that is true of a value that the other type cannot hold, and false of every other one."""
    before, after = stored_type(parse(from_type)), stored_type(parse(to_type))
    cast = cast_to(value, from_type, to_type)
    broken = [f"{cast} IS NULL", *_lost(value, cast, before, after), *_misshapen(cast, parse(to_type).name)]
    return f"({value} IS NOT NULL AND coalesce({' OR '.join(broken)}, true))"


def _misshapen(text: str, type_name: str) -> list[str]:
    """Return conditions under which a text does not fit a type that is stored as text."""
    if type_name in PATTERNS:
        return [f"NOT {text} RLIKE {quote_text(PATTERNS[type_name])}"]
    if type_name != JSON:
        return []
    array, object_ = (f"concat({quote_text(a)}, {text}, {quote_text(b)})" for a, b in (JSON_ARRAY, JSON_OBJECT))
    options = ", ".join(quote_text(one) for option in STRICT_JSON.items() for one in option)
    in_array = f"size(from_json({array}, 'array<string>', map({options})))"
    return [f"NOT ({in_array} = 1 AND size(json_object_keys({object_})) = 1)"]


def _lost(value: str, cast: str, before: DataType, after: DataType) -> list[str]:
    """Return further conditions under which the cast value is not the same."""
    if after.name == STRING:
        lost = [f"char_length({cast}) > {after.length}"] if after.length is not None else []
        return [*lost, f"NOT is_valid_utf8({cast})"] if before.name == BINARY else lost
    if before.name == STRING:
        return _misread(value, cast, after)
    if (before.name, after.name) in _DIRECT and before.name != after.name or before.name == DECIMAL:
        back = spark_type(before)
        return [f"try_cast({cast} AS {back}) IS NULL", f"try_cast({cast} AS {back}) <> {value}"]
    return []


def _misread(value: str, cast: str, after: DataType) -> list[str]:
    """Texts that Spark reads as something else: more digits than the type has, a time of day in a date.

    A time of day alone would become a moment of the day on which it is read.
    """
    if after.name == DECIMAL:
        whole = f"DECIMAL({_MOST_DIGITS},{_MOST_DIGITS - (after.precision - after.scale)})"
        return [f"try_cast({value} AS {whole}) IS NULL", f"try_cast({value} AS {whole}) <> {cast}"]
    if after.name == DATE:
        return [f"coalesce(try_cast({value} AS TIMESTAMP) <> {cast}, false)"]
    if after.name == TIMESTAMP:
        return [f"NOT {value} RLIKE '^ *[+-]?[0-9]{{4}}'"]
    return []
