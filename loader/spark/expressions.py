"""Spark expressions: strict conversion, encoding v2, balanced conditions, sample rows.

Spark's own casts are too lenient for checks of deliveries: they read ``2020`` as a date, ``12:30`` as a time of today,
``1d`` as a number, 1.005 as 1.01 and 1e400 as Infinity. A text fits a type if it is:

=============  =============================================================================
integer,       digits, or a whole number with point or exponent: ``450``, ``450.0``, ``1e2``; in range
bigint
decimal(p,s)   digits, point, exponent; never rounded: 1.005 does not fit decimal(10,2), 1.000 does
float          digits, point, exponent, ``NaN``, ``Infinity``, ``inf`` with a sign; 1e400 does not fit
boolean        true, t, yes, y, 1 and false, f, no, n, 0, in any case
date           ``yyyy-mm-dd``, of the years 1 to 9999
time           ``hh:mm``, ``hh:mm:ss``, up to six decimals and zeros after them; stays text
timestamp      a date, or date and time with ``T`` or a blank; six decimals; ``Z``, ``UTC``, an offset
               or none, which means local time in the zone of the option ``timezone`` (default UTC).
               A local time that a clock change skips does not fit; one that it repeats is the
               earlier instant
binary         hexadecimal digits, an even number of them
uuid           8-4-4-4-12 hexadecimal digits; stays text
json           one JSON value; stays text
string(n)      at most n characters
=============  =============================================================================

Blanks, tabs and line ends around a value are ignored for all types except string and json, where they belong
to the value. An empty text fits string only. Formats that a source declares (``metadata.domain.sources.value_formats``)
are rewritten to these texts first.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.domain.historization.hashing import EXACT_INTEGERS_BELOW, MICROSECONDS_PER_DAY, escape, in_order, peppered
from loader.spark.nested_values import TEMPORAL, readable_json, within_years
from loader.spark.value_formats import BLANKS as _BLANKS
from loader.spark.value_formats import standard_text
from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.sql import quote_identifier
from metadata.domain.types import JSON_ARRAY, JSON_OBJECT, PATTERNS, STRICT_JSON, TO_MICROSECONDS

# Encoding v2 as native Spark expressions (defined in ``loader.domain.historization.hashing``). Needs a session with
# ``spark.sql.ansi.enabled=true`` (a decimal's text is then plain digits, never ``1E-7``) and, for timestamps without
# a zone, ``spark.sql.session.timeZone=UTC``.


_TEXT = (T.StringType, T.VarcharType, T.CharType)


def canonical(column: Column, data_type: T.DataType) -> Column:
    """Return the canonical text of a value, unescaped; NULL stays NULL. Raise TypeError for a nested type."""
    match data_type:
        case T.StringType() | T.VarcharType() | T.CharType():
            return column
        case T.BooleanType() | T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType():
            return column.cast("string")
        case T.DecimalType():
            return _decimal_text(column, data_type.scale)
        case T.FloatType() | T.DoubleType():
            return _float_text(column.cast("double"))
        case T.TimestampType() | T.TimestampNTZType():
            return F.unix_micros(column.cast("timestamp")).cast("string")
        case T.DateType():
            return (F.unix_date(column).cast("bigint") * F.lit(MICROSECONDS_PER_DAY)).cast("string")
        case T.BinaryType():
            return F.lower(F.hex(column))
    raise TypeError(f"a value of type {data_type.simpleString()} has no canonical text")


def encode(components: Sequence[tuple[str, Column, T.DataType]]) -> Column:
    """Return the text to hash. Ids are sorted once, when the plan is built, not per row."""
    # NULL contributes nothing, because concat with a NULL is NULL, and concat_ws leaves NULLs out.
    parts = [
        F.concat(F.lit(f"{escape(identifier)}~"), _escape(canonical(column, data_type), data_type))
        for identifier, column, data_type in in_order(components)
    ]
    return F.concat_ws("|", *parts) if parts else F.lit("")


def digest(components: Sequence[tuple[str, Column, T.DataType]], pepper: str = "") -> Column:
    """Return the SHA-256 of the encoded components: 64 lower-case hexadecimal digits, never NULL."""
    secret = [(identifier, F.lit(value), T.StringType()) for identifier, value in peppered(pepper)]
    return F.sha2(encode([*secret, *components]), 256)


def _escape(text: Column, data_type: T.DataType) -> Column:
    """Escape the special characters of text, the backslash first; other types cannot contain any."""
    if not isinstance(data_type, _TEXT):
        return text
    for character in ("\\", "~", "|"):
        text = F.replace(text, F.lit(character), F.lit(escape(character)))
    return text


def _decimal_text(column: Column, scale: int) -> Column:
    text = column.cast("string")
    if scale <= 0:
        return text
    return F.rtrim(F.rtrim(text, F.lit("0")), F.lit("."))


def _float_text(column: Column) -> Column:
    """Format a float with ``%a``, including NaN and the infinities; NULL stays NULL instead of ``null``."""
    plain = (F.abs(column) < F.lit(float(EXACT_INTEGERS_BELOW))) & (F.rint(column) == column)
    digits = column.cast("bigint").cast("string")
    return F.when(plain, digits).when(column.isNotNull(), F.format_string("%a", column))


# Balanced combination of many expressions or frames. Spark processes expressions and plans by recursion: a chain over
# the columns of a wide table (``a | b | c …``) ends in a StackOverflowError; a balanced tree has only a few levels.


_Part = TypeVar("_Part", Column, DataFrame)


def any_of(conditions: Iterable[Column]) -> Column:
    """Return the condition that at least one of the conditions holds; false if there are none."""
    return _combine(list(conditions) or [F.lit(False)], lambda left, right: left | right)


def all_of(conditions: Iterable[Column]) -> Column:
    """Return the condition that all conditions hold; true if there are none."""
    return _combine(list(conditions) or [F.lit(True)], lambda left, right: left & right)


def total(numbers: Iterable[Column]) -> Column:
    """Return the sum of the numbers; 0 if there are none."""
    return _combine(list(numbers) or [F.lit(0)], lambda left, right: left + right)


def united(
    frames: Iterable[DataFrame], join: Callable[[DataFrame, DataFrame], DataFrame] = DataFrame.unionAll
) -> DataFrame:
    """Return the rows of all frames. ``join`` unites two frames, by default by column position."""
    return _combine(list(frames), join)


def _combine(parts: list[_Part], join: Callable[[_Part, _Part], _Part]) -> _Part:
    while len(parts) > 1:
        pairs = [join(left, right) for left, right in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[len(pairs) * 2 :]
    return parts[0]


_NUMERIC = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.FloatType, T.DoubleType)
_NESTED = (T.StructType, T.ArrayType, T.MapType, T.VariantType)
_NUMBERS = (data_types.INTEGER, data_types.BIGINT, data_types.DECIMAL, data_types.FLOAT)

_DATE = r"^\d{4}-\d{2}-\d{2}$"
_ZONE = r"( ?(Z|UTC|[+-]\d{2}(:?[0-5]\d)?))"
_TIMESTAMP = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?" + _ZONE + "?)?$"
_ZONED = r"^.{10}[T ].*" + _ZONE + "$"
_BEYOND_MICROSECONDS = "(" + TO_MICROSECONDS + ")[0-9]+"
_NANOSECONDS = TO_MICROSECONDS + "[0-9]*[1-9]"
_OFFSET = r"([+-]\d{2})(\d{2})$"
# Amounts by which clocks are put back: an hour nearly everywhere, half an hour on Lord Howe Island, two hours at Troll.
_CLOCK_SHIFTS = ("INTERVAL 1 HOUR", "INTERVAL 30 MINUTES", "INTERVAL 2 HOURS")


def typed(column: Column, type_text: str, options: dict | None = None, source: T.DataType | None = None) -> Column:
    """Return ``column`` as the product's type ``type_text``; NULL where it is NULL or does not fit.

    ``source`` is the column's Spark type if it is not text; without it the value is read as text. Needs
    ``spark.sql.session.timeZone=UTC``.
    """
    target = data_types.parse(type_text)
    zone = (options or {}).get("timezone") or "UTC"
    if source is None or isinstance(source, _TEXT):
        text = standard_text(column.cast("string"), target.name, ValueFormats.of(options or {}))
        return _from_text(text, target, zone)
    return _from_value(column, source, target, zone)


def fits(column: Column, type_text: str, options: dict | None = None, source: T.DataType | None = None) -> Column:
    """Return the condition that ``column`` is NULL or a value of ``type_text``; never NULL itself."""
    target = data_types.parse(type_text)
    if isinstance(source, (*_TEXT, type(None))):
        if target == data_types.DataType(data_types.STRING):
            return F.lit(True)
    elif source.simpleString().upper() == stored_ddl(type_text) and not isinstance(source, TEMPORAL):
        return F.lit(True)
    return column.isNull() | typed(column, type_text, options, source).isNotNull()


def stored_ddl(type_text: str) -> str:
    """Return the Spark type of ``typed``'s result."""
    target = data_types.parse(type_text)
    return "STRING" if target.length is not None else data_types.spark_type(target)


def _from_text(text: Column, target: data_types.DataType, zone: str) -> Column:
    trimmed = F.trim(text, F.lit(_BLANKS))
    match target.name:
        case data_types.STRING:
            return text if target.length is None else F.when(F.char_length(text) <= target.length, text)
        case data_types.INTEGER | data_types.BIGINT:
            return _integer(trimmed, data_types.spark_type(target))
        case data_types.DECIMAL:
            return _decimal(trimmed, target.precision, target.scale)
        case data_types.FLOAT:
            return _float(trimmed)
        case data_types.BOOLEAN:
            return trimmed.try_cast("boolean")
        case data_types.DATE:
            return within_years(F.when(trimmed.rlike(_DATE), trimmed.try_cast("date")), "date")
        case data_types.TIMESTAMP:
            return within_years(_timestamp(trimmed, zone), "timestamp")
        case data_types.TIME | data_types.UUID:
            return F.when(trimmed.rlike(PATTERNS[target.name]), trimmed)
        case data_types.JSON:
            return F.when(is_json(text), text)
        case data_types.BINARY:
            return F.when(F.char_length(trimmed) % 2 == 0, F.unhex(trimmed))
    raise ValueError(f"no conversion to {target}")


def is_json(text: Column) -> Column:
    """Return the condition that ``text`` is exactly one JSON value; NULL or false if not."""
    array, object_ = (F.concat(F.lit(left), text, F.lit(right)) for left, right in (JSON_ARRAY, JSON_OBJECT))
    in_array = F.from_json(array, "array<string>", STRICT_JSON)
    in_object = F.json_object_keys(object_)
    return (F.size(in_array) == 1) & (F.size(in_object) == 1)


def _integer(text: Column, ddl: str) -> Column:
    """Convert text to an integer: digits by a fast cast, other numbers by a full check."""
    integral = F.when(text.rlike("[.eE]"), _decimal(text, 38, 0)).try_cast(ddl)
    return F.coalesce(text.try_cast(ddl), integral)


def _decimal(text: Column, precision: int, scale: int) -> Column:
    """Convert text to a decimal. The text is checked for digits beyond the scale, since Spark would round them."""
    ascii_only = F.octet_length(text) == F.char_length(text)  # Java accepts the digits of any script
    exact = F.when(text.rlike("[eE]"), _exact_with_exponent(text, scale)).otherwise(_exact(text, scale))
    return F.when(ascii_only & exact, text.try_cast(f"decimal({precision},{scale})"))


def _exact(text: Column, scale: int) -> Column:
    fraction = F.rtrim(F.substring_index(text, ".", -1), F.lit("0"))
    return ~F.contains(text, F.lit(".")) | (F.char_length(fraction) <= scale)


def _exact_with_exponent(text: Column, scale: int) -> Column:
    """Return the condition that a number with an exponent fits the scale.

    ``120e-3`` is 0.12 and needs two decimals.
    """
    lower = F.lower(text)
    mantissa = F.substring_index(lower, "e", 1)
    exponent = F.substring_index(lower, "e", -1).try_cast("bigint")
    fraction = F.when(F.contains(mantissa, F.lit(".")), F.substring_index(mantissa, ".", -1)).otherwise("")
    digits = F.translate(mantissa, "+-.", "")
    significant = F.rtrim(digits, F.lit("0"))
    zeros = F.char_length(digits) - F.char_length(significant)
    needed = F.char_length(fraction) - zeros - exponent
    return (F.char_length(F.ltrim(significant, F.lit("0"))) == 0) | (needed <= scale)


def _float(text: Column) -> Column:
    number = text.try_cast("double")
    # Java's suffixes 1d and 1f, its hexadecimal floats, and overflow are not valid in a source.
    suffixed = F.right(text, F.lit(1)).isin("d", "D", "f", "F")
    hexadecimal = F.contains(text, F.lit("x")) | F.contains(text, F.lit("X"))
    overflow = F.abs(number) == F.lit(float("inf"))
    infinite = F.lower(F.ltrim(text, F.lit("+-"))).isin("inf", "infinity")
    return F.when(~(suffixed | hexadecimal | overflow) | infinite, number)


def _timestamp(text: Column, zone: str) -> Column:
    moment = F.when(
        text.rlike(_TIMESTAMP), F.coalesce(text.try_cast("timestamp"), _spark_spelling(text).try_cast("timestamp"))
    )
    if zone == "UTC":
        return moment
    # A date is its first instant, even if clocks changed at midnight.
    day = F.when(text.rlike(_DATE), F.to_utc_timestamp(moment, zone))
    return F.when(text.rlike(_ZONED), moment).otherwise(F.coalesce(day, _instant(moment, zone)))


def _instant(local: Column, zone: str) -> Column:
    """Return the instant of a local time; NULL if a clock change skips it, for which Spark returns a later one."""
    instant = F.to_utc_timestamp(local, zone)
    return F.when(F.from_utc_timestamp(instant, zone) == local, instant)


def is_ambiguous_time(column: Column, source: T.DataType, zone: str) -> Column:
    """Return the condition that a local time without offset exists twice, as clocks go back; never NULL."""
    if isinstance(source, _TEXT):
        trimmed = F.trim(column.cast("string"), F.lit(_BLANKS))
        local = F.when(~trimmed.rlike(f"{_ZONED}|{_DATE}"), _timestamp(trimmed, "UTC"))
    elif isinstance(source, T.TimestampNTZType):
        local = column.cast("timestamp")
    else:
        return F.lit(False)
    earlier = F.to_utc_timestamp(local, zone)
    later = (F.from_utc_timestamp(earlier + F.expr(shift), zone) == local for shift in _CLOCK_SHIFTS)
    return F.coalesce(any_of(later), F.lit(False))


def hex_of_base64(text: Column) -> Column:
    """Return base64 text as hex, in which binary values are read; text that is no base64 as text that is no hex."""
    return F.coalesce(F.hex(F.try_to_binary(text, F.lit("base64"))), F.when(text.isNotNull(), F.lit("-")))


def has_nanoseconds(text: Column) -> Column:
    """Return the condition that the text of a timestamp or a time has more than six decimals; never NULL."""
    return F.coalesce(text.rlike(_NANOSECONDS), F.lit(False))


def cut_to_microseconds(text: Column) -> Column:
    """Return the text of a timestamp or a time without digits below microseconds."""
    return F.regexp_replace(text, _BEYOND_MICROSECONDS, "$1")


def _spark_spelling(text: Column) -> Column:
    """Rewrite a timestamp's text for Spark: with seconds, without blanks, with an offset like ``+01:00``.

    ISO 8601 and databases allow shorter forms; Spark does not.
    """
    clock = F.replace(F.substring(text, 12, 40), F.lit(" "), F.lit(""))
    with_seconds = F.when(F.substring(clock, 6, 1) == ":", clock).otherwise(
        F.concat(F.left(clock, F.lit(5)), F.lit(":00"), F.substring(clock, 6, 40))
    )
    return F.concat(F.left(text, F.lit(10)), F.lit("T"), F.regexp_replace(with_seconds, _OFFSET, "$1:$2"))


def _from_value(column: Column, source: T.DataType, target: data_types.DataType, zone: str) -> Column:
    """Cast a typed value to another type. Return NULL unless the cast back results in the same value."""
    ddl = stored_ddl(str(target))
    kind = target.name
    if isinstance(source, TEMPORAL):
        column = within_years(column, source.simpleString())
    if source.simpleString().upper() == ddl:
        return column
    if kind in (data_types.STRING, data_types.JSON, data_types.UUID, data_types.TIME):
        return _as_text(column, source, target, zone)
    if kind in _NUMBERS and isinstance(source, _NUMERIC):
        converted = column.try_cast(ddl)
        same = converted.try_cast(source) == column
        if (isinstance(source, T.LongType) and kind == data_types.FLOAT) or (
            isinstance(source, (T.FloatType, T.DoubleType)) and kind == data_types.BIGINT
        ):
            # Spark converts the double 2^63 to a bigint that is one less.
            same = same & (column.cast("double") < F.lit(2.0**63))
        return F.when(same, converted)
    if kind == data_types.TIMESTAMP and isinstance(source, T.DateType):
        return within_years(F.to_utc_timestamp(column.cast("timestamp"), zone), "timestamp")
    if kind == data_types.TIMESTAMP and isinstance(source, T.TimestampNTZType):
        return within_years(_instant(column.cast("timestamp"), zone), "timestamp")
    if kind == data_types.DATE and isinstance(source, (T.TimestampType, T.TimestampNTZType)):
        converted = column.cast("date")
        return F.when(converted.cast(source) == column, converted)
    return F.lit(None).cast(ddl)


def _as_text(column: Column, source: T.DataType, target: data_types.DataType, zone: str) -> Column:
    if isinstance(source, _NESTED):
        text = readable_json(column, source)
        return text if target.name == data_types.JSON else _from_text(text, target, zone)
    if isinstance(source, (T.FloatType, T.DoubleType)):
        # Equal values need equal texts, so -0.0 is written as 0.0.
        column = F.when(column == 0, F.lit(0.0).cast(source)).otherwise(column)
    text = column.cast("string")
    if isinstance(source, T.BinaryType):
        text = F.when(F.is_valid_utf8(text), text)
    return _from_text(text, target, zone)


# Sample rows for refusals.


SAMPLES = 5
_LONGEST = 200


def sample_rows(rows: DataFrame, columns: Iterable[str]) -> tuple[str, ...]:
    """Read the first rows and return them as ``name=value`` of these columns, each truncated."""
    names = list(columns)
    chosen = rows.select(*(F.col(quote_identifier(name)).cast("string") for name in names)).limit(SAMPLES)
    return tuple(_cut(", ".join(map(_name_and_value, names, row))) for row in chosen.collect())


def _name_and_value(name: str, value: str | None) -> str:
    return f"{name}={'NULL' if value is None else value}"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
