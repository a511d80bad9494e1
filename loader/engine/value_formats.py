"""Values in formats that a source declares, rewritten to standard text (``metadata.domain.sources.value_formats``)."""

from itertools import chain

from pyspark.sql import Column
from pyspark.sql import functions as F

from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import (
    MONTH_NUMBERS,
    NEGATIVE_SIGN_FIRST,
    NEGATIVE_TEXT,
    NumberFormat,
    TimeFormat,
    ValueFormats,
)
from metadata.domain.text_formats import BLANKS

_NUMBERS = (data_types.INTEGER, data_types.BIGINT, data_types.DECIMAL, data_types.FLOAT)


def standard_text(text: Column, type_name: str, formats: ValueFormats) -> Column:
    """Return the standard text of a value of this type; NULL for a text in another format than the declared one.

    Needs ``spark.sql.session.timeZone=UTC``.
    """
    trimmed = F.trim(text, F.lit(BLANKS))
    if type_name == data_types.DATE and formats.dates:
        return _standard_time(trimmed, formats.dates, "yyyy-MM-dd")
    if type_name == data_types.TIMESTAMP and formats.timestamps:
        zone = "'Z'" if formats.timestamps.has_zone else ""
        return _standard_time(trimmed, formats.timestamps, f"yyyy-MM-dd'T'HH:mm:ss.SSSSSS{zone}")
    if type_name in _NUMBERS and formats.numbers:
        return _standard_number(trimmed, formats.numbers)
    if type_name == data_types.BOOLEAN and formats.true_words:
        word = F.lower(trimmed)
        return F.when(word.isin(*formats.true_words), "true").when(word.isin(*formats.false_words), "false")
    return text


def _standard_time(text: Column, format_: TimeFormat, standard: str) -> Column:
    computed = _computed_parts(text, format_)
    parts = (F.regexp_replace(text, F.lit(format_.pattern), F.lit(format_.parts)), *computed.values())
    moment = F.try_to_timestamp(F.concat_ws(" ", *parts), F.lit(" ".join((format_.spark, *computed))))
    # An offset may lead out of the years that have four digits.
    return F.when(text.rlike(format_.pattern) & F.year(moment).between(1, 9999), F.date_format(moment, standard))


def _computed_parts(text: Column, format_: TimeFormat) -> dict[str, Column]:
    """Return the parts of a date that Spark does not read as they are written, by Spark's pattern."""
    parts = {}
    if group := format_.group("%y"):
        digits = F.regexp_extract(text, format_.pattern, group).try_cast("int")
        first = F.lit(format_.century_start)
        year = F.pmod(digits - first, F.lit(100)) + first
        parts["yyyy"] = F.lpad(year.cast("string"), 4, "0")
    if group := format_.group("%b", "%B"):
        name = F.lower(F.rtrim(F.regexp_extract(text, format_.pattern, group), F.lit(".")))
        numbers = chain.from_iterable((F.lit(month), F.lit(f"{number:02}")) for month, number in MONTH_NUMBERS.items())
        parts["MM"] = F.try_element_at(F.create_map(*numbers), name)
    if group := format_.group("%z"):
        zone = F.replace(F.regexp_extract(text, format_.pattern, group), F.lit("Z"), F.lit("+"))
        digits = F.rpad(F.replace(zone, F.lit(":"), F.lit("")), 5, "0")
        parts["xxx"] = F.concat(F.left(digits, F.lit(3)), F.lit(":"), F.right(digits, F.lit(2)))
    return parts


def _standard_number(text: Column, format_: NumberFormat) -> Column:
    number = F.regexp_replace(text, F.lit(NEGATIVE_TEXT), F.lit(NEGATIVE_SIGN_FIRST)) if format_.negative else text
    return F.when(text.rlike(format_.pattern), _with_point(number, format_))


def _with_point(text: Column, format_: NumberFormat) -> Column:
    digits = F.translate(text, format_.separators, "") if format_.thousands else text
    return F.replace(digits, F.lit(format_.decimal), F.lit("."))
