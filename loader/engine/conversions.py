"""Strict conversion of texts and values to the product's types.

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

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.engine.expressions import any_of
from loader.engine.hashing import TEXT
from loader.engine.nested_values import TEMPORAL, json_within_years, within_years
from loader.engine.value_formats import BLANKS as _BLANKS
from loader.engine.value_formats import standard_text
from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.text_formats import JSON_ARRAY, JSON_OBJECT, PATTERNS, STRICT_JSON, TO_MICROSECONDS

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
    if source is None or isinstance(source, TEXT):
        text = standard_text(column.cast("string"), target.name, ValueFormats.of(options or {}))
        return _from_text(text, target, zone)
    return _from_value(column, source, target, zone)


def fits(column: Column, type_text: str, options: dict | None = None, source: T.DataType | None = None) -> Column:
    """Return the condition that ``column`` is NULL or a value of ``type_text``; never NULL itself."""
    target = data_types.parse(type_text)
    if isinstance(source, (*TEXT, type(None))):
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
            return _decimal(trimmed, target.precision or 0, target.scale or 0)
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
    if isinstance(source, TEXT):
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
        text = json_within_years(column, source)
        return text if target.name == data_types.JSON else _from_text(text, target, zone)
    if isinstance(source, (T.FloatType, T.DoubleType)):
        # Equal values need equal texts, so -0.0 is written as 0.0.
        column = F.when(column == 0, F.lit(0.0).cast(source)).otherwise(column)
    text = column.cast("string")
    if isinstance(source, T.BinaryType):
        text = F.when(F.is_valid_utf8(text), text)
    return _from_text(text, target, zone)
