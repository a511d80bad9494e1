"""Strict conversion of delivered values to the product's types; values that do not fit become NULL.

Spark's own casts are too lenient for a contract: they read ``2020`` as a date, ``12:30`` as a time of today,
``1d`` as a number, 1.005 as 1.01 and 1e400 as Infinity. A text fits a type if it is:

=============  =============================================================================
integer,       digits, also with an integral point or exponent: ``450``, ``450.0``, ``1e2``; in range
bigint
decimal(p,s)   digits, point, exponent; never rounded: 1.005 does not fit decimal(10,2), 1.000 does
float          digits, point, exponent, ``NaN``, ``Infinity``, ``inf`` with a sign; 1e400 does not fit
boolean        true, t, yes, y, 1 and false, f, no, n, 0, in any case
date           ``yyyy-mm-dd``, from year 1
time           ``hh:mm``, ``hh:mm:ss``, up to six decimals; stays text
timestamp      a date, or date and time with ``T`` or a blank; six decimals; ``Z``, ``UTC``, an offset
               or none: then it is local time in the zone of the option ``timezone``, UTC if absent.
               A local time skipped by a clock change does not fit; a repeated one is the
               earlier instant
binary         hexadecimal digits, an even number of them
uuid           8-4-4-4-12 hexadecimal digits; stays text
json           one JSON value; stays text
string(n)      at most n characters
=============  =============================================================================

Blanks, tabs and line ends around a value are ignored for all types except string and json, where they belong
to the value. An empty text fits string only.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from loader.spark.runtime.conditions import any_of
from metadata.domain import types as ours
from metadata.domain.text_formats import JSON_ARRAY, JSON_OBJECT, PATTERNS, STRICT_JSON, TO_MICROSECONDS

_BLANKS = " \t\r\n"
_NUMERIC = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType, T.FloatType, T.DoubleType)
_TEXT = (T.StringType, T.VarcharType, T.CharType)
_NESTED = (T.StructType, T.ArrayType, T.MapType, T.VariantType)
_NUMBERS = (ours.INTEGER, ours.BIGINT, ours.DECIMAL, ours.FLOAT)

_DATE = r"^\d{4}-\d{2}-\d{2}$"
_ZONE = r"( ?(Z|UTC|[+-]\d{2}(:?[0-5]\d)?))"
_TIMESTAMP = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d{1,6}0*)?)?" + _ZONE + "?)?$"
_ZONED = r"^.{10}[T ].*" + _ZONE + "$"
_BEYOND_MICROSECONDS = "(" + TO_MICROSECONDS + ")[0-9]+"
_NANOSECONDS = TO_MICROSECONDS + "[0-9]*[1-9]"
_OFFSET = r"([+-]\d{2})(\d{2})$"
# By how much clocks are put back: an hour nearly everywhere, half of one on Lord Howe, two in Troll.
_CLOCK_SHIFTS = ("INTERVAL 1 HOUR", "INTERVAL 30 MINUTES", "INTERVAL 2 HOURS")


def typed(column: Column, type_text: str, options: dict | None = None, source: T.DataType | None = None) -> Column:
    """Return ``column`` as the product's type ``type_text``; NULL where it is NULL or does not fit.

    ``source`` is the column's Spark type if it is not text; without it the value is read as text. Needs
    ``spark.sql.session.timeZone=UTC``.
    """
    target = ours.parse(type_text)
    zone = (options or {}).get("timezone") or "UTC"
    if source is None or isinstance(source, _TEXT):
        return _from_text(column.cast("string"), target, zone)
    return _from_value(column, source, target, zone)


def fits(column: Column, type_text: str, options: dict | None = None, source: T.DataType | None = None) -> Column:
    """Return the condition that ``column`` is NULL or a value of ``type_text``; never NULL itself."""
    target = ours.parse(type_text)
    if isinstance(source, (*_TEXT, type(None))) and target == ours.DataType(ours.STRING):
        return F.lit(True)
    return column.isNull() | typed(column, type_text, options, source).isNotNull()


def stored_ddl(type_text: str) -> str:
    """Return the Spark type of ``typed``'s result."""
    target = ours.parse(type_text)
    return "STRING" if target.length is not None else ours.spark_type(target)


def _from_text(text: Column, target: ours.DataType, zone: str) -> Column:
    trimmed = F.trim(text, F.lit(_BLANKS))
    match target.name:
        case ours.STRING:
            return text if target.length is None else F.when(F.char_length(text) <= target.length, text)
        case ours.INTEGER | ours.BIGINT:
            return _integer(trimmed, ours.spark_type(target))
        case ours.DECIMAL:
            return _decimal(trimmed, target.precision, target.scale)
        case ours.FLOAT:
            return _float(trimmed)
        case ours.BOOLEAN:
            return trimmed.try_cast("boolean")
        case ours.DATE:
            return _from_year_one(F.when(trimmed.rlike(_DATE), trimmed.try_cast("date")), "date")
        case ours.TIMESTAMP:
            return _from_year_one(_timestamp(trimmed, zone), "timestamp")
        case ours.TIME | ours.UUID:
            return F.when(trimmed.rlike(PATTERNS[target.name]), trimmed)
        case ours.JSON:
            return F.when(is_json(text), text)
        case ours.BINARY:
            return F.when(F.char_length(trimmed) % 2 == 0, F.unhex(trimmed))
    raise ValueError(f"no conversion to {target}")


def is_json(text: Column) -> Column:
    """Return the condition that ``text`` is exactly one JSON value; NULL or false if not."""
    array, object_ = (F.concat(F.lit(left), text, F.lit(right)) for left, right in (JSON_ARRAY, JSON_OBJECT))
    in_array = F.from_json(array, "array<string>", STRICT_JSON)
    in_object = F.json_object_keys(object_)
    return (F.size(in_array) == 1) & (F.size(in_object) == 1)


def _integer(text: Column, ddl: str) -> Column:
    """Convert text to an integer: digits by a fast cast, values with a point or exponent by a full check."""
    integral = F.when(text.rlike("[.eE]"), _decimal(text, 38, 0)).try_cast(ddl)
    return F.coalesce(text.try_cast(ddl), integral)


def _decimal(text: Column, precision: int, scale: int) -> Column:
    """Convert text to a decimal; the text itself is checked for lost digits, since Spark rounds to the scale."""
    ascii_only = F.octet_length(text) == F.char_length(text)  # Java takes the digits of any script
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
    # Java's suffixes 1d and 1f, its hexadecimal floats, and overflow are not what a source means.
    suffixed = F.right(text, F.lit(1)).isin("d", "D", "f", "F")
    hexadecimal = F.contains(text, F.lit("x")) | F.contains(text, F.lit("X"))
    overflow = F.abs(number) == F.lit(float("inf"))
    infinite = F.lower(F.ltrim(text, F.lit("+-"))).isin("inf", "infinity")
    return F.when(~(suffixed | hexadecimal | overflow) | infinite, number)


def _timestamp(text: Column, zone: str) -> Column:
    moment = F.when(
        text.rlike(_TIMESTAMP), F.coalesce(text.try_cast("timestamp"), _respelled(text).try_cast("timestamp"))
    )
    if zone == "UTC":
        return moment
    # A date is its first instant, whatever the clocks did at midnight.
    day = F.when(text.rlike(_DATE), F.to_utc_timestamp(moment, zone))
    return F.when(text.rlike(_ZONED), moment).otherwise(F.coalesce(day, _instant(moment, zone)))


def _instant(local: Column, zone: str) -> Column:
    """Return the instant of a local time; NULL if a clock change skips it (Spark would take a later one)."""
    instant = F.to_utc_timestamp(local, zone)
    return F.when(F.from_utc_timestamp(instant, zone) == local, instant)


def comes_twice(column: Column, source: T.DataType, zone: str) -> Column:
    """Return the condition that a local time without offset is repeated by a clock change; never NULL."""
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


def has_nanoseconds(text: Column) -> Column:
    """Return the condition that a timestamp's text has more than six decimals; never NULL."""
    return F.coalesce(text.rlike(_NANOSECONDS), F.lit(False))


def cut_to_microseconds(text: Column) -> Column:
    """Return a timestamp's text without digits below microseconds."""
    return F.regexp_replace(text, _BEYOND_MICROSECONDS, "$1")


def _respelled(text: Column) -> Column:
    """Rewrite a timestamp's text for Spark: with seconds, without blanks, with an offset like ``+01:00``.

    ISO 8601 and databases allow the shorter forms, Spark does not.
    """
    clock = F.replace(F.substring(text, 12, 40), F.lit(" "), F.lit(""))
    with_seconds = F.when(F.substring(clock, 6, 1) == ":", clock).otherwise(
        F.concat(F.left(clock, F.lit(5)), F.lit(":00"), F.substring(clock, 6, 40))
    )
    return F.concat(F.left(text, F.lit(10)), F.lit("T"), F.regexp_replace(with_seconds, _OFFSET, "$1:$2"))


def _from_year_one(value: Column, ddl: str) -> Column:
    return F.when(value >= F.lit("0001-01-01").cast(ddl), value)


def _from_value(column: Column, source: T.DataType, target: ours.DataType, zone: str) -> Column:
    """Cast a typed value to another type; NULL unless casting it back gives the same value."""
    ddl = stored_ddl(str(target))
    kind = target.name
    if source.simpleString().upper() == ddl:
        return column
    if kind in (ours.STRING, ours.JSON, ours.UUID, ours.TIME):
        return _as_text(column, source, target, zone)
    if kind in _NUMBERS and isinstance(source, _NUMERIC):
        there = column.try_cast(ddl)
        same = there.try_cast(source) == column
        if (isinstance(source, T.LongType) and kind == ours.FLOAT) or (
            isinstance(source, (T.FloatType, T.DoubleType)) and kind == ours.BIGINT
        ):
            # Spark takes the double 2^63 for a bigint, and makes it one less.
            same = same & (column.cast("double") < F.lit(2.0**63))
        return F.when(same, there)
    if kind == ours.TIMESTAMP and isinstance(source, T.DateType):
        return F.to_utc_timestamp(column.cast("timestamp"), zone)
    if kind == ours.TIMESTAMP and isinstance(source, T.TimestampNTZType):
        return _instant(column.cast("timestamp"), zone)
    if kind == ours.DATE and isinstance(source, (T.TimestampType, T.TimestampNTZType)):
        there = column.cast("date")
        return F.when(there.cast(source) == column, there)
    return F.lit(None).cast(ddl)


def _as_text(column: Column, source: T.DataType, target: ours.DataType, zone: str) -> Column:
    if isinstance(source, _NESTED):
        text = F.to_json(column)
        return text if target.name == ours.JSON else _from_text(text, target, zone)
    if isinstance(source, (T.FloatType, T.DoubleType)):
        # Equal values have one text: -0.0 equals 0.0, so a number that becomes text changes nothing.
        column = F.when(column == 0, F.lit(0.0).cast(source)).otherwise(column)
    text = column.cast("string")
    if isinstance(source, T.BinaryType):
        text = F.when(F.is_valid_utf8(text), text)
    return _from_text(text, target, zone)
