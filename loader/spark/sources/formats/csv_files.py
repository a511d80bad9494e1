"""CSV: header records read before Spark reads the files, and Spark's reader.

Spark drops a header without checking it. Files are grouped by the order of their columns and united by name.
"""

import csv
from dataclasses import dataclass
from io import StringIO

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.words import counted
from loader.domain.refusals import Refusal
from loader.records.csv_records import dialect_of, is_ended_by_delimiter
from loader.records.headers import header_names
from loader.spark.sources.files import DeliveredFile, beginning
from loader.spark.sources.formats.text_lines import encoding_hint
from loader.spark.sources.opened import (
    LONGEST_TEXT,
    Delivered,
    FileFormat,
    Group,
    Layout,
    MalformedRecord,
    Opened,
    Place,
    Rows,
    nulls_read,
)
from metadata.domain.sources.option_kinds import NUMBERED
from metadata.domain.sources.reading_options import ReadingOptions

# Column of malformed records while Spark reads; no delivered column has this name.
RECORD = "\ue000record"

# A field this long means a quote that is never closed. Reading on would fill the memory.
_LONGEST_FIELD = 16_000_000  # characters
# Replaces an empty field without quotes, to distinguish it from a quoted one; it occurs in no delivery.
_ABSENT = "\ue000absent\ue000"


def _field_counts(opened: Opened, place: Place) -> str:
    """Return the number of fields of a malformed record, and the expected one."""
    names = next((group.names for group in opened.groups if place.file in [f.shown for f in group.files]), opened.names)
    other = f"another number of fields than the {len(names)} expected"
    if len(place.text) >= LONGEST_TEXT:
        return other
    try:
        fields, _ = first_record(list(StringIO(place.text, newline="")), opened.options)
    except csv.Error:
        return other
    return f"{counted(len(fields), 'field')}, expected {len(names)}" if len(fields) != len(names) else other


class CsvFormat(FileFormat):
    """CSV in any dialect of the options."""

    has_lines = spans_lines = is_decoded = skips_empty = True
    is_split = False
    malformed = (
        MalformedRecord(
            "RAGGED_ROW",
            "another number of fields than expected",
            "A field that holds the delimiter or a line end must be in quotes, and each quote be closed.",
            describe=_field_counts,
        ),
    )

    def layout(self, delivered: Delivered, contract: tuple[str, ...]) -> Layout:
        options = delivered.options
        layouts: dict[tuple, list[DeliveredFile]] = {}
        begins: dict[str, Beginning] = {}
        for file in delivered.files:
            begin = begins[file.path] = read_beginning(delivered.spark, file, options)
            if options.header:
                names = header_names(file.shown, begin.fields, numbered=options.repeated_names == NUMBERED)
            else:
                names = contract or tuple(f"column_{place}" for place, _ in enumerate(begin.fields, start=1))
            is_ended = is_ended_by_delimiter(begin.first_row, len(names))
            layouts.setdefault((names, begin.separator, is_ended), []).append(file)
        groups = tuple(
            Group(tuple(files), names, separator, is_ended_by_delimiter=is_ended)
            for (names, separator, is_ended), files in layouts.items()
        )
        all_names = tuple(dict.fromkeys(name for group in groups for name in group.names))
        return Layout(
            all_names,
            tuple(T.StringType() for _ in all_names),
            groups,
            files_lacking(groups, all_names),
            {path: begin.lines if options.header else 0 for path, begin in begins.items()},
        )

    def rows(self, opened: Opened, group: Group) -> Rows:
        # Named by position, since a header may contain any text.
        fields = [f"f{place}" for place in range(len(group.names) + group.is_ended_by_delimiter)]
        schema = T.StructType([T.StructField(name, T.StringType()) for name in (*fields, RECORD)])
        reader = opened.spark.read.schema(schema).options(mode="PERMISSIVE", columnNameOfCorruptRecord=RECORD)
        frame = reader.options(**reading_options(opened.options, group.separator)).csv(group.patterns)
        frame, values = _values(frame, fields, group.separator)
        malformed = F.col(RECORD)
        if group.is_ended_by_delimiter:
            *values, after = values
            text = F.concat_ws(opened.options.delimiter, *(F.coalesce(F.col(field), F.lit("")) for field in fields))
            malformed = F.coalesce(malformed, F.when(F.coalesce(after, F.lit("")) != "", text))
        values = [nulls_read(value, opened.options, empty=False) for value in values]
        return Rows(frame, dict(zip(group.names, values, strict=True)), _with_values(malformed, opened.options))


def _with_values(malformed: Column, options: ReadingOptions) -> Column:
    """Return the text of a malformed record that is more than delimiters; without any value it is no row."""
    return F.when(F.trim(malformed, F.lit(f"{options.delimiter}\r\n")) != "", malformed)


def files_lacking(groups: tuple[Group, ...], names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the files that lack a column, by column."""
    missing: dict[str, tuple[str, ...]] = {}
    for group in groups:
        for name in names:
            if name not in group.names:
                missing[name] = (*missing.get(name, ()), *(file.shown for file in group.files))
    return missing


def _values(frame: DataFrame, fields: list[str], separator: str | None) -> tuple[DataFrame, list[Column]]:
    """Return the fields without the CR of a CR LF line end.

    Spark gets LF as line end, so that a CR LF inside quotes is preserved and one file may contain both
    kinds. The CR is then the end of the last field, or a blank line.
    """
    values = [F.col(field) for field in fields]
    if separator != "\n":
        return frame, values
    last = values[-1]
    blank = (last == "\r") if len(fields) == 1 else (F.col(RECORD) == "")
    without = F.when(last != "\r", F.left(last, F.char_length(last) - 1))
    ended = F.when(F.endswith(last, F.lit("\r")), without).otherwise(last)
    return frame.where(~F.coalesce(blank, F.lit(False))), [*values[:-1], ended]


def reading_options(options: ReadingOptions, separator: str | None) -> dict[str, str]:
    """Return the options of Spark's CSV reader; without a separator Spark detects the line end."""
    spark_options = {
        "header": str(options.header).lower(),
        "sep": options.delimiter,
        "quote": options.quote,
        "escape": options.escape,
        "encoding": options.encoding,
        "multiLine": "true",
        "maxCharsPerColumn": str(_LONGEST_FIELD),
        "nullValue": "" if options.empty_is_null else _ABSENT,
        "emptyValue": "",
    }
    return spark_options | ({"lineSep": separator} if separator else {})


# First record of a file: column names and line separator.


_USUAL_HEADER, _LONGEST_HEADER = 1 << 14, 1 << 20  # bytes


@dataclass(frozen=True)
class Beginning:
    """Beginning of a file: ``fields`` of the first record, number of ``lines`` to its end, separator for Spark.

    ``separator`` is None if blank lines precede the first record: only Spark's own detection works then. ``first_row``
    are the fields of the first record with a value that is no header, if it ends in the bytes that are read for it.
    """

    fields: tuple[str, ...]
    lines: int
    separator: str | None
    first_row: tuple[str, ...] = ()


def read_beginning(spark: SparkSession, file: DeliveredFile, options: ReadingOptions) -> Beginning:
    """Return the file's first record that is not blank; without one, ``fields`` is empty.

    Raise Refusal WRONG_ENCODING, or UNREADABLE_HEADER if the record does not end.
    """
    for size in (_USUAL_HEADER, _LONGEST_HEADER):
        raw = beginning(spark, file, size)
        text = raw.decode(options.encoding, errors="replace").removeprefix("\ufeff")
        lines = list(StringIO(text, newline=""))
        try:
            fields, taken = first_record(lines, options)
        except csv.Error as error:
            if len(raw) == size < _LONGEST_HEADER:
                continue
            raise _unreadable_header(file, error) from error
        if taken < len(lines) or len(raw) < size:
            break
    if options.header and taken == len(lines) and len(raw) == _LONGEST_HEADER:
        raise _unreadable_header(file, f"it has more than {_LONGEST_HEADER:,} bytes")
    if any("\ufffd" in field for field in fields):
        _check_decodes(raw, file, options)
    blank_before = bool(lines) and not lines[0].strip("\r\n")
    ended_by_cr = bool(fields) and lines[taken - 1].endswith("\r")
    separator = None if blank_before else "\r" if ended_by_cr else "\n"
    row = _first_row(lines[taken:] if options.header else lines, options, is_whole=len(raw) < size)
    return Beginning(tuple(fields), taken, separator, row)


def _first_row(lines: list[str], options: ReadingOptions, *, is_whole: bool) -> tuple[str, ...]:
    """Return the fields of the first record with a value; empty if there is none that ends in these lines."""
    reader = csv.reader(lines, **dialect_of(options))
    try:
        for fields in reader:
            if any(fields):
                return tuple(fields) if is_whole or reader.line_num < len(lines) else ()
    except csv.Error:  # the checks of the quotes refuse it
        pass
    return ()


def first_record(lines: list[str], options: ReadingOptions) -> tuple[list[str], int]:
    """Return the first record that is not blank, and the number of lines up to its end."""
    reader = csv.reader(lines, **dialect_of(options))
    fields = next((record for record in reader if record), [])
    return fields, reader.line_num


def _unreadable_header(file: DeliveredFile, error: csv.Error | str) -> Refusal:
    return Refusal(
        "UNREADABLE_HEADER",
        f"{file.shown}: the first record cannot be read: {error}",
        file=file.shown,
        row=1,
        hint="A quote may not be closed.",
    )


def _check_decodes(raw: bytes, file: DeliveredFile, options: ReadingOptions) -> None:
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
            f"{file.shown}: the header cannot be decoded as {options.encoding}",
            file=file.shown,
            row=1,
            samples=(raw[:80].decode(options.encoding, errors="replace"),),
            hint=encoding_hint(options.encoding),
        ) from error
