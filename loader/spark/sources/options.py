r"""Reading options of sources, per format.

================  =======  ==========================================================================
option            formats  meaning; default
================  =======  ==========================================================================
delimiter         csv      one character between fields, ``\t`` for a tab; a comma
quote             csv      one character around a field that contains a delimiter, quote or line end; ``"``. Empty: no
                           field is quoted
escape            csv      one character before a quote inside such a field; the quote itself, doubled. Empty: none
encoding          csv      a character set that Java and Python know; UTF-8
header            csv      true if the first record has the names; true. If false, the fields are the
                           contract's columns in their order
empty_is_null     csv,     true if an empty text is NULL, quoted or not; true for csv, where false keeps a
                  jsonl    quoted empty text as it is; false for jsonl, which has a null of its own
null_string       csv,     a text that stands for NULL, quoted or not; none
                  jsonl
timezone          all      the zone of timestamps without one, like Europe/Berlin; UTC
================  =======  ==========================================================================
"""

import codecs
from dataclasses import dataclass

from pyspark.sql import SparkSession

from loader.domain.runs.refusals import Refusal
from loader.spark.sources.files import JAVA_ERRORS

CSV, JSONL, PARQUET = "csv", "jsonl", "parquet"
_CSV_ONLY = ("delimiter", "quote", "escape", "encoding", "header")
_KNOWN = {
    CSV: (*_CSV_ONLY, "empty_is_null", "null_string", "timezone"),
    JSONL: ("empty_is_null", "null_string", "timezone"),
    PARQUET: ("timezone",),
}
_TABS = ("\\t", "tab")
# The character sets that Spark takes without being told to take all of Java's.
_SPARK_CHARSETS = {"utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32"}


@dataclass(frozen=True)
class Options:
    """Checked options. ``null_string`` is None if no text stands for NULL."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    encoding: str = "UTF-8"
    header: bool = True
    empty_is_null: bool = True
    null_string: str | None = None
    timezone: str = "UTC"

    @property
    def utf8(self) -> bool:
        return codecs.lookup(self.encoding).name == "utf-8"


def checked_options(spark: SparkSession, name: str, format_name: str, given: dict) -> Options:
    """Return a source's checked options; raise Refusal UNKNOWN_FORMAT, UNKNOWN_OPTION or BAD_OPTION."""
    if format_name not in _KNOWN:
        raise Refusal(
            "UNKNOWN_FORMAT",
            f"{name}: there is no format {format_name}",
            hint=f"Known are {', '.join(_KNOWN)}.",
        )
    unknown = sorted(set(given) - set(_KNOWN[format_name]))
    if unknown:
        raise Refusal(
            "UNKNOWN_OPTION",
            f"{name}: a source of format {format_name} has no option {', '.join(unknown)}",
            hint=f"Known are {', '.join(_KNOWN[format_name])}.",
        )
    said = {option: value for option, value in given.items() if value is not None}
    flags = {option: _flag(name, option, said.pop(option)) for option in ("header", "empty_is_null") if option in said}
    flags.setdefault("empty_is_null", format_name == CSV)
    texts = {option: str(value) for option, value in said.items()}
    for option in ("delimiter", "quote", "escape"):
        if option in texts:
            texts[option] = _character(name, option, texts[option])
    texts.setdefault("escape", texts.get("quote", '"'))
    _check_encoding(spark, name, texts.get("encoding", "UTF-8"))
    _check_zone(spark, name, texts.get("timezone", "UTC"))
    return Options(**texts, **flags)


def _bad(name: str, option: str, value: object, hint: str) -> Refusal:
    return Refusal("BAD_OPTION", f"{name}: the option {option} cannot be {value!r}", hint=hint)


def _flag(name: str, option: str, value: object) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise _bad(name, option, value, "It is true or false.")
    return text == "true"


def _character(name: str, option: str, value: str) -> str:
    character = "\t" if value in _TABS and option == "delimiter" else value
    if character == "" and option != "delimiter":
        return character
    if len(character) != 1 or (option == "delimiter" and character in "\r\n"):
        raise _bad(name, option, value, "It is one character, no line end; \\t is a tab.")
    return character


def _check_encoding(spark: SparkSession, name: str, encoding: str) -> None:
    """Raise Refusal unless both Python, which reads the header, and Java, which reads the rows, know it."""
    try:
        codecs.lookup(encoding)
        spark._jvm.java.nio.charset.Charset.forName(encoding)
    except (LookupError, *JAVA_ERRORS):
        raise _bad(name, "encoding", encoding, "UTF-8, ISO-8859-1 and windows-1252 are common.") from None
    if encoding.lower() not in _SPARK_CHARSETS:
        spark.conf.set("spark.sql.legacy.javaCharsets", "true")


def _check_zone(spark: SparkSession, name: str, zone: str) -> None:
    try:
        spark._jvm.java.time.ZoneId.of(zone)
    except JAVA_ERRORS:
        raise _bad(name, "timezone", zone, "Zones are named like Europe/Berlin, or +02:00.") from None
