"""Values of Debezium's events as text, by their encodings (``loader.domain.sources.debezium``).

A value that cannot be read becomes NULL, and its text goes to the refusal.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from loader.domain.sources import debezium as rules
from loader.domain.sources.debezium import LARGER_UNITS, NUMBERS, Encoding, doubtful_ranges, encodings, implied_encoding
from loader.domain.sources.kafka import TopicOptions
from loader.domain.sources.placeholders import Placeholder
from loader.engine.expressions import any_of
from loader.engine.sources.formats.json_lines import object_schema, unique_ignoring_case
from metadata.domain import types as data_types
from metadata.domain.sources.clusters import MESSAGE_COLUMNS
from metadata.domain.sources.option_kinds import MICROSECONDS, MILLISECONDS, NANOSECONDS

MOMENT_FORMAT = "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"
_WHOLE = r"^-?[0-9]{1,19}$"
# Microseconds of the years 1 to 9999.
_FIRST, _LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
_DAY = 86_400_000_000  # microseconds
_WIDEST = "decimal(38,0)"
_WRAPPERS = ("$oid", "$numberLong", "$numberInt", "$numberDecimal", "$numberDouble")


@dataclass(frozen=True)
class ReadValue:
    """Value of a column as text, and what it is in messages if it cannot be read; None if each one can be."""

    text: Column
    note: Column | None = None


@dataclass(frozen=True)
class Shapes:
    """Schemas of the rows in the messages: the encodings of their columns by the schema's digest.

    The rows have the digest of their own schema in ``shape``; NULL without one.
    """

    known: Mapping[str, Mapping[str, Encoding]]

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Shapes":
        """Return the shapes of the fields of rows, each as JSON text."""
        return cls({hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(): _columns(text) for text in texts})

    def encodings_of(self, name: str) -> dict[Encoding, list[str]]:
        """Return the encodings that a column has by the schemas, each with the digests of these."""
        by_encoding: dict[Encoding, list[str]] = {}
        for digest, columns in self.known.items():
            encoding = columns.get(name)
            if encoding is not None and encoding.has_meaning:
                by_encoding.setdefault(encoding, []).append(digest)
        return by_encoding

    def type_of(self, name: str) -> str:
        """Return the type for a column outside the contract; that of text if no schema tells it."""
        by_encoding = self.encodings_of(name)
        known = rules.type_of(by_encoding) if sum(map(len, by_encoding.values())) == len(self.known) else None
        return str(known or data_types.STRING)

    def read(self, name: str, value: Column, type_text: str, options: TopicOptions, is_quoted: Column) -> ReadValue:
        """Return a column's values; ``is_quoted`` is the condition that JSON has a value as text.

        The expressions have ``value`` many times, so it is a column of the frame.
        """
        type_name, units = data_types.parse(type_text).name, options.units
        binary = options.binary_values or ""
        implied = implied_encoding(type_name, units.unit_of(name), name in units.of_columns, binary)
        by_encoding = self.encodings_of(name)
        if not any(part.is_changed or not part.takes(type_name) for part in (implied, *by_encoding)):
            return ReadValue(value)
        text, note = _decoded(value, implied, type_name, is_quoted), _note(value, implied)
        for encoding, digests in by_encoding.items():
            is_of = F.coalesce(F.col("shape").isin(*digests), F.lit(False))
            text = F.when(is_of, _decoded(value, encoding, type_name, is_quoted)).otherwise(text)
            note = F.when(is_of, F.lit(encoding.shown)).otherwise(note)
        return ReadValue(text, note)


def _columns(fields: str) -> dict[str, Encoding]:
    try:
        return encodings(json.loads(fields))
    except ValueError:  # no fields of a schema
        return {}


def _note(value: Column, encoding: Encoding) -> Column:
    """Return the meanings that a number can have without a schema."""
    if encoding.kind != rules.MOMENT:
        return F.lit("hex or base64" if encoding.kind == rules.PLAIN else encoding.shown)
    units = (encoding.unit, *LARGER_UNITS[encoding.unit])
    readings = [F.concat(F.coalesce(_moment(value, unit), F.lit("no time")), F.lit(f" in {unit}")) for unit in units]
    return F.concat_ws(", ", *readings)


def _decoded(value: Column, encoding: Encoding, type_name: str, is_quoted: Column) -> Column:
    """Return a value as text; NULL if it cannot be read."""
    if not encoding.takes(type_name):
        return F.lit(None).cast("string")
    if encoding.kind in (rules.DAYS, rules.MOMENT, rules.CLOCK):
        return value if type_name in NUMBERS else _number_or_text(value, _time(value, encoding))
    match encoding.kind:
        case rules.ISO:
            return F.regexp_replace(value, "Z$", "")
        case rules.BYTES:
            return F.hex(_bytes(value)) if type_name == data_types.BINARY else value
        case rules.PLAIN if not encoding.is_declared:
            return F.when(~(value.rlike("^[0-9a-fA-F]+$") & (F.char_length(value) % 4 == 0)), value)
        case rules.BITS:
            return _bits(value, encoding.size, type_name)
        case rules.DECIMAL:
            return F.when(is_quoted, _scaled(value, F.lit(encoding.size))).otherwise(value)
        case rules.SCALED_DECIMAL:
            parts = F.from_json(value, "scale INT, value STRING")
            return F.when(F.startswith(value, F.lit("{")), _scaled(parts["value"], parts["scale"])).otherwise(value)
        case rules.ARRAY if encoding.item is not None:
            return _array(value, encoding.item)
    return value


def _time(value: Column, encoding: Encoding) -> Column:
    match encoding.kind:
        case rules.DAYS:
            return _date(value)
        case rules.CLOCK:
            return _clock(value, encoding.unit)
    return _sure_moment(value, encoding)


def _number_or_text(value: Column, text: Column) -> Column:
    """Return ``text`` for a number, and a text as it is."""
    return F.when(value.rlike(_WHOLE), text).otherwise(value)


def _date(value: Column) -> Column:
    day = F.date_from_unix_date(value.try_cast("int"))
    return F.when(F.year(day).between(1, 9999), day.cast("string"))


def _microseconds(value: Column, unit: str) -> Column:
    number = value.try_cast("bigint")
    return {
        MILLISECONDS: F.try_multiply(number, F.lit(1_000)),
        MICROSECONDS: number,
        NANOSECONDS: F.when(number % 1_000 == 0, (number.cast("decimal(20,0)") / 1_000).cast("bigint")),
    }[unit]


def _moment(value: Column, unit: str) -> Column:
    microseconds = _microseconds(value, unit)
    is_known = microseconds.between(_FIRST, _LAST)
    return F.when(is_known, F.date_format(F.timestamp_micros(F.when(is_known, microseconds)), MOMENT_FORMAT))


def _sure_moment(value: Column, encoding: Encoding) -> Column:
    """Return a moment, NULL if its unit is not declared and a larger one is more plausible."""
    moment, number = _moment(value, encoding.unit), value.try_cast("bigint")
    if encoding.is_declared:
        return moment
    ranges = doubtful_ranges(encoding.unit)
    doubtful = any_of(number.between(low, high) | number.between(-high, -low) for low, high in ranges)
    return F.when(~doubtful, moment)


def _clock(value: Column, unit: str) -> Column:
    """Return a time of day, without decimals if it has none."""
    microseconds = _microseconds(value, unit)
    moment = F.timestamp_micros(F.when(microseconds.between(0, _DAY - 1), microseconds))
    whole = F.date_format(moment, "HH:mm:ss")
    return F.when(microseconds % 1_000_000 == 0, whole).otherwise(F.date_format(moment, "HH:mm:ss.SSSSSS"))


def _bytes(value: Column) -> Column:
    return F.try_to_binary(value, F.lit("base64"))


def _let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return ``body`` of a value that is computed once."""
    return F.get(F.transform(F.array(value), body), F.lit(0))


def _digits(content: Column) -> Column:
    """Return the bytes as an array of numbers from 0 to 255; NULL without bytes."""
    places = F.sequence(F.lit(1), F.octet_length(content))
    numbers = F.transform(places, lambda place: F.conv(F.hex(F.substring(content, place, F.lit(1))), 16, 10))
    return F.when(F.octet_length(content) > 0, numbers)


def _bits(value: Column, size: int, type_name: str) -> Column:
    """Return bits, which come lowest byte first: as hex, as a number, or as 0 and 1."""
    if type_name == data_types.BINARY:
        return F.hex(_bytes(value))

    def text(content: Column) -> Column:
        pairs = F.transform(F.reverse(_digits(content)), lambda number: F.lpad(F.conv(number, 10, 16), 2, "0"))
        highest_first = F.when(F.octet_length(content).between(1, 8), F.concat_ws("", pairs))
        if type_name in NUMBERS:
            return F.conv(highest_first, 16, 10)
        return F.lpad(F.conv(highest_first, 16, 2), size, "0")

    return _let(_bytes(value), text)


def _scaled(encoded: Column, scale: Column) -> Column:
    """Return the decimal whose digits are bytes, highest first, in base64; NULL beyond 38 digits."""
    return _let(_let(_let(_bytes(encoded), _digits), _whole), lambda number: _pointed(number, scale))


def _whole(digits: Column) -> Column:
    """Return the number of bytes in two's complement."""
    sign = F.when(F.get(digits, F.lit(0)).cast("int") >= 128, F.lit(-1)).otherwise(F.lit(0)).cast(_WIDEST)
    base = F.lit(256).cast(_WIDEST)
    return F.aggregate(
        digits,
        sign,
        lambda number, digit: F.try_add(F.try_multiply(number, base), digit.cast(_WIDEST)).try_cast(_WIDEST),
    )


def _pointed(number: Column, scale: Column) -> Column:
    """Return the text of a number whose last ``scale`` digits are decimals; a negative scale adds zeros."""

    def text(digits: Column) -> Column:
        padded = F.lpad(digits, F.greatest(F.char_length(digits), scale + 1), F.lit("0"))
        return _let(
            padded,
            lambda shown: F.concat(F.left(shown, F.char_length(shown) - scale), F.lit("."), F.right(shown, scale)),
        )

    whole = F.ltrim(number.cast("string"), F.lit("-"))
    pointed = F.when(scale > 0, text(whole)).when(scale < 0, F.concat(whole, F.repeat(F.lit("0"), -scale)))
    return F.concat(F.when(number < 0, F.lit("-")).otherwise(F.lit("")), F.coalesce(pointed, whole))


def _array(value: Column, item: Encoding) -> Column:
    """Return an array of decoded values as JSON; NULL if one of them cannot be read."""
    entries = F.from_json(value, "array<string>")
    decoded = F.transform(entries, lambda entry: _decoded(entry, item, data_types.STRING, F.lit(True)))
    nulls = F.size(F.filter(entries, lambda entry: entry.isNull()))

    def json_of(read: Column) -> Column:
        return F.when(F.size(F.filter(read, lambda entry: entry.isNull())) == nulls, F.to_json(read))

    return _let(decoded, json_of)


def unwrapped(value: Column, type_text: str) -> Column:
    """Return the plain value in an object by which MongoDB's JSON names its type; other values as they are."""
    if data_types.parse(type_text).name == data_types.JSON:
        return value
    names = (*_WRAPPERS, "$date")
    parts = F.from_json(value, ", ".join(f"`{name}` STRING" for name in names))
    inner = F.from_json(parts["$date"], "`$numberLong` STRING")["$numberLong"]
    date = F.coalesce(inner, parts["$date"])
    moment = _number_or_text(date, _moment(date, MILLISECONDS))
    plain = F.coalesce(*(parts[name] for name in _WRAPPERS), moment)
    is_wrapped = F.startswith(value, F.lit('{"$')) & (F.size(F.json_object_keys(value)) == 1)
    return F.when(is_wrapped, F.coalesce(plain, value)).otherwise(value)


def is_unavailable(row: Column, options: TopicOptions, wanted: tuple[str, ...]) -> Column:
    """Return the condition that a wanted column of a row, or one with a wanted path, has Debezium's placeholder."""
    placeholder = Placeholder.of(options.unavailable_value)
    names = dict.fromkeys(part for name in wanted for part in (name, name.partition(".")[0]))
    fields = unique_ignoring_case(tuple(name for name in names if name not in MESSAGE_COLUMNS))
    if not fields:
        return F.lit(False)
    texts = F.from_json(row, object_schema(fields, ()))
    values = F.array(*(texts.getField(name) for name in fields))
    is_whole = F.coalesce(F.arrays_overlap(values, F.array(*map(F.lit, sorted(placeholder.texts)))), F.lit(False))
    parts = sorted(placeholder.parts)
    is_part = F.exists(values, lambda value: any_of(F.contains(value, F.lit(part)) for part in parts))
    return is_whole | F.coalesce(is_part, F.lit(False))
