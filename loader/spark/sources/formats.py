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
expected_files    all      number of files in a delivery; any
================  =======  ==========================================================================
"""

import codecs
import csv
from dataclasses import dataclass
from io import StringIO
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from loader.domain.refusals import Refusal
from loader.spark.sources.files import JAVA_ERRORS, DeliveredFile, beginning, from_uri, shown, whole_files

CSV, JSONL, PARQUET = "csv", "jsonl", "parquet"
_CSV_ONLY = ("delimiter", "quote", "escape", "encoding", "header")
_ALL = ("timezone", "expected_files")
_KNOWN = {
    CSV: (*_CSV_ONLY, "empty_is_null", "null_string", *_ALL),
    JSONL: ("empty_is_null", "null_string", *_ALL),
    PARQUET: _ALL,
}
_TABS = ("\\t", "tab")
# Character sets that Spark supports without the setting that enables all of Java's.
_SPARK_CHARSETS = {"utf-8", "us-ascii", "iso-8859-1", "utf-16", "utf-16be", "utf-16le", "utf-32"}


@dataclass(frozen=True)
class Options:
    """Checked options; None for an undeclared NULL text or number of files."""

    delimiter: str = ","
    quote: str = '"'
    escape: str = '"'
    encoding: str = "UTF-8"
    header: bool = True
    empty_is_null: bool = True
    null_string: str | None = None
    timezone: str = "UTC"
    expected_files: int | None = None

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
    counts = {"expected_files": _count(name, said.pop("expected_files"))} if "expected_files" in said else {}
    texts = {option: str(value) for option, value in said.items()}
    for option in ("delimiter", "quote", "escape"):
        if option in texts:
            texts[option] = _character(name, option, texts[option])
    texts.setdefault("escape", texts.get("quote", '"'))
    _check_encoding(spark, name, texts.get("encoding", "UTF-8"))
    _check_zone(spark, name, texts.get("timezone", "UTC"))
    return Options(**texts, **flags, **counts)


def _bad(name: str, option: str, value: object, hint: str) -> Refusal:
    return Refusal("BAD_OPTION", f"{name}: the option {option} cannot be {value!r}", hint=hint)


def _flag(name: str, option: str, value: object) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise _bad(name, option, value, "It is true or false.")
    return text == "true"


def _count(name: str, value: object) -> int:
    if not str(value).isdecimal() or int(str(value)) < 1:
        raise _bad(name, "expected_files", value, "It is a whole number from 1.")
    return int(str(value))


def _character(name: str, option: str, value: str) -> str:
    character = "\t" if value in _TABS and option == "delimiter" else value
    if character == "" and option != "delimiter":
        return character
    if len(character) != 1 or (option == "delimiter" and character in "\r\n"):
        raise _bad(name, option, value, "It is one character, no line end; \\t is a tab.")
    return character


def _check_encoding(spark: SparkSession, name: str, encoding: str) -> None:
    """Raise Refusal unless both Python, which reads the header, and Java, which reads the rows, support it."""
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


# First record of a CSV file: column names and line separator.
#
# It is read before Spark reads the file, because Spark drops a header without checking it.


_USUAL_HEADER, _LONGEST_HEADER = 1 << 14, 1 << 20  # bytes


@dataclass(frozen=True)
class Beginning:
    """``fields`` of the first record, the number of ``lines`` before its end, and the separator for Spark.

    ``separator`` is None if blank lines precede the first record: only Spark's own detection works then.
    """

    fields: tuple[str, ...]
    lines: int
    separator: str | None


def read_beginning(spark: SparkSession, file: DeliveredFile, options: Options) -> Beginning:
    """Return the file's first record that is not blank; without one, no fields.

    Raises Refusal WRONG_ENCODING, or UNREADABLE_HEADER if the record does not end.
    """
    for size in (_USUAL_HEADER, _LONGEST_HEADER):
        raw = beginning(spark, file, size)
        text = raw.decode(options.encoding, errors="replace").removeprefix("\ufeff")
        lines = list(StringIO(text, newline=""))
        try:
            fields, taken = _first_record(lines, options)
        except csv.Error as error:
            if len(raw) == size < _LONGEST_HEADER:
                continue
            raise _unreadable_header(file, error) from error
        if taken < len(lines) or len(raw) < size:
            break
    if any("\ufffd" in field for field in fields):
        _check_decodes(raw, file, options)
    blank_before = bool(lines) and not lines[0].strip("\r\n")
    ended_by_cr = bool(fields) and lines[taken - 1].endswith("\r")
    separator = None if blank_before else "\r" if ended_by_cr else "\n"
    return Beginning(tuple(fields), taken, separator)


def _first_record(lines: list[str], options: Options) -> tuple[list[str], int]:
    """Return the first record that is not blank, and the number of lines up to its end."""
    dialect: dict[str, Any] = {"delimiter": options.delimiter, "strict": True}
    if not options.quote:
        dialect |= {"quoting": csv.QUOTE_NONE}
    elif options.escape == options.quote:
        dialect |= {"quotechar": options.quote}
    else:
        dialect |= {"quotechar": options.quote, "escapechar": options.escape or None, "doublequote": False}
    reader = csv.reader(lines, **dialect)
    fields = next((record for record in reader if record), [])
    return fields, reader.line_num


def _unreadable_header(file: DeliveredFile, error: csv.Error) -> Refusal:
    return Refusal(
        "UNREADABLE_HEADER",
        f"{file.shown}: the first record cannot be read: {error}",
        file=file.shown,
        row=1,
        hint="A quote may not be closed.",
    )


def header_names(file: DeliveredFile, fields: tuple[str, ...]) -> tuple[str, ...]:
    """Return a header's names without surrounding blanks; a column without a name is named by its position.

    Raise Refusal EMPTY_FILE or DUPLICATE_COLUMN.
    """
    if not fields:
        raise Refusal(
            "EMPTY_FILE",
            f"{file.shown} is empty: it has not even a header",
            file=file.shown,
            hint="A delivery without rows still names its columns in its first line.",
        )
    names = tuple(field.strip() or f"(column {place})" for place, field in enumerate(fields, start=1))
    twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise Refusal(
            "DUPLICATE_COLUMN",
            f"{file.shown}: the header names {', '.join(twice)} more than once",
            file=file.shown,
            row=1,
            column=twice[0],
            count=len(twice),
            samples=twice[:5],
            hint="Every column needs a name of its own.",
        )
    return names


def _check_decodes(raw: bytes, file: DeliveredFile, options: Options) -> None:
    """Raise Refusal WRONG_ENCODING if the header's bytes are invalid in the encoding.

    A replacement character that the file itself contains is valid.
    """
    try:
        raw.decode(options.encoding)
    except UnicodeDecodeError as error:
        if error.end == len(raw) in (_USUAL_HEADER, _LONGEST_HEADER):
            return  # only cut in the middle of a character
        raise Refusal(
            "WRONG_ENCODING",
            f"{file.shown}: the header is not {options.encoding}",
            file=file.shown,
            row=1,
            samples=(raw[:80].decode(options.encoding, errors="replace"),),
            hint="Say the file's encoding in the source's options, or deliver it in the one that is said.",
        ) from error


# Line checks of JSON lines: each must be one object, and its keys are collected. Spark's JSON reader preserves the
# literal text of values, but ignores keys that were not requested and any text after an object on its line. So the
# lines are first read once as text.


SAMPLES = 5
_SAMPLE_LENGTH = 80  # characters


def keys_of_lines(spark: SparkSession, files: tuple[DeliveredFile, ...], wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return every key of every object: the wanted ones first, then the others by name.

    If there are no lines, the wanted keys count as delivered. Raise Refusal WRONG_ENCODING, BAD_JSON or
    DUPLICATE_COLUMN with line numbers.
    """
    lines = text_lines(spark, files)
    line = F.trim(F.col("value"), F.lit(" \t\r"))
    keys = F.json_object_keys(line)
    checks = {
        "invalid": ~F.is_valid_utf8("value"),
        "bad": ~F.coalesce(_is_one_object(line), F.lit(False)),
        "twice": F.size(F.array_distinct(keys)) < F.size(keys),
    }
    # Mostly there is one set of keys, so it is collected as a set of sets.
    seen = F.collect_set(F.array_sort(F.array_distinct(keys)))
    found = (
        lines.where(line != "")
        .agg(F.count(F.lit(1)).alias("rows"), seen.alias("seen"), *(F.count_if(c).alias(n) for n, c in checks.items()))
        .first()
    )
    for check, describe in (("invalid", _wrong_encoding), ("bad", _bad_json), ("twice", _key_twice)):
        if found[check]:
            raise describe(found[check], *first_lines(spark, files, checks[check] & (line != "")))
    delivered = {key for keys in found["seen"] for key in keys}
    first = tuple(name for name in wanted if name in delivered or not found["rows"])
    return first + tuple(sorted(delivered - set(first)))


def _is_one_object(line: Column) -> Column:
    # Spark's parser stops after the first value. Any text after it breaks one of these frames.
    in_array = F.json_array_length(F.concat(F.lit("["), line, F.lit("]")))
    in_object = F.json_object_keys(F.concat(F.lit('{"":'), line, F.lit("}")))
    return F.startswith(line, F.lit("{")) & (in_array == 1) & (F.size(in_object) == 1)


def text_lines(spark: SparkSession, files: tuple[DeliveredFile, ...]) -> DataFrame:
    """Return the lines as column ``value``, with their bytes unchanged."""
    return spark.read.text([file.pattern for file in files])


def first_lines(
    spark: SparkSession, files: tuple[DeliveredFile, ...], wrong: Column
) -> tuple[str, int, tuple[str, ...]]:
    """Return file and number of the first ``wrong`` line, and the beginnings of the first few."""
    with whole_files(spark):
        numbered = text_lines(spark, files).select(
            "value", F.col("_metadata.file_path").alias("file"), F.monotonically_increasing_id().alias("order")
        )
        starts = dict(numbered.groupBy("file").agg(F.min("order")).collect())
        text = F.left(F.make_valid_utf8("value"), F.lit(_SAMPLE_LENGTH))
        rows = numbered.where(wrong).orderBy("file", "order").select("file", "order", text).limit(SAMPLES).collect()
    places = [(shown(from_uri(file)), order - starts[file] + 1, text) for file, order, text in rows]
    samples = tuple(f"line {number}: {text}" for _, number, text in places)
    return places[0][0], places[0][1], samples


def _wrong_encoding(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return wrong_encoding("UTF-8", count, file, line, samples)


def wrong_encoding(encoding: str, count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    """Return the refusal for bytes that are invalid in the source's encoding."""
    return Refusal(
        "WRONG_ENCODING",
        f"{file}, line {line}: not {encoding}; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="Say the file's encoding in the source's options, or deliver it in the one that is said.",
    )


def _bad_json(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "BAD_JSON",
        f"{file}, line {line}: not one JSON object; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="JSON lines hold one object per line, from { to }.",
    )


def _key_twice(count: int, file: str, line: int, samples: tuple[str, ...]) -> Refusal:
    return Refusal(
        "DUPLICATE_COLUMN",
        f"{file}, line {line}: the object names a key more than once; {count} lines in all",
        file=file,
        row=line,
        count=count,
        samples=samples,
        hint="Every key needs a name of its own.",
    )
