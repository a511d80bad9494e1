"""Values in formats that a source declares, rewritten to standard text (``metadata.domain.sources.value_formats``)."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from metadata.domain import types as data_types
from metadata.domain.sources.value_formats import NumberFormat, TimeFormat, ValueFormats
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
    parts, pattern = F.regexp_replace(text, F.lit(format_.pattern), F.lit(format_.parts)), format_.spark
    if format_.has_zone:
        zone = F.replace(F.regexp_extract(text, format_.pattern, format_.zone_group), F.lit("Z"), F.lit("+"))
        digits = F.rpad(F.replace(zone, F.lit(":"), F.lit("")), 5, "0")
        parts = F.concat(parts, F.lit(" "), F.left(digits, F.lit(3)), F.lit(":"), F.right(digits, F.lit(2)))
        pattern = f"{pattern} xxx"
    moment = F.try_to_timestamp(parts, F.lit(pattern))
    # An offset may lead out of the years that have four digits.
    return F.when(text.rlike(format_.pattern) & F.year(moment).between(1, 9999), F.date_format(moment, standard))


def _standard_number(text: Column, format_: NumberFormat) -> Column:
    digits = F.translate(text, format_.separators, "") if format_.thousands else text
    return F.when(text.rlike(format_.pattern), F.replace(digits, F.lit(format_.decimal), F.lit(".")))
