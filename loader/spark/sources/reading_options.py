"""Checked reading options of a source, as a load needs them.

``metadata.domain.sources.reading_options`` has the table of options.
"""

from pyspark.sql import SparkSession

from loader.domain.refusals import Refusal
from loader.domain.sources.options import check_source_options
from loader.spark.sources.files import JAVA_ERRORS
from metadata.domain.sources.formats import FOLDER_FORMATS
from metadata.domain.sources.reading_options import ReadingOptions

# Character sets that Spark supports without the setting that enables all of Java's.
_SPARK_CHARSETS = {"utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32"}


def checked_options(spark: SparkSession, name: str, format_name: str, given: dict) -> ReadingOptions:
    """Return a source's checked options; raise Refusal UNKNOWN_FORMAT, UNKNOWN_OPTION or BAD_OPTION."""
    if format_name not in FOLDER_FORMATS:
        raise Refusal(
            "UNKNOWN_FORMAT",
            f"{name}: there is no format {format_name}",
            hint=f"Known are {', '.join(FOLDER_FORMATS)}.",
        )
    check_source_options(name, format_name, given)
    options = ReadingOptions.of(format_name, given)
    _check_encoding(spark, name, options.encoding)
    _check_zone(spark, name, options.timezone)
    return options


def _check_encoding(spark: SparkSession, name: str, encoding: str) -> None:
    """Raise Refusal unless Java, which reads the rows, supports the character set too."""
    try:
        spark._jvm.java.nio.charset.Charset.forName(encoding)
    except JAVA_ERRORS:
        raise _bad_option(name, "encoding", encoding, "UTF-8, ISO-8859-1 and windows-1252 are common.") from None
    if encoding.lower() not in _SPARK_CHARSETS:
        spark.conf.set("spark.sql.legacy.javaCharsets", "true")


def _check_zone(spark: SparkSession, name: str, zone: str) -> None:
    try:
        spark._jvm.java.time.ZoneId.of(zone)
    except JAVA_ERRORS:
        raise _bad_option(name, "timezone", zone, "Zones are named like Europe/Berlin, or +02:00.") from None


def _bad_option(name: str, option: str, value: str, hint: str) -> Refusal:
    return Refusal("BAD_OPTION", f"{name}: the option {option} cannot be {value!r}", hint=hint)
