"""CSV: layout by the header records, and Spark's reader.

Spark drops a header without checking it. Files are grouped by the order of their columns and united by name.
"""

import csv
from dataclasses import dataclass
from io import StringIO
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.words import counted
from loader.contract.refusals import Refusal
from loader.engine.sources.delivered_columns import nulls_read
from loader.engine.sources.files import DeliveredFile, beginning
from loader.engine.sources.formats.text_lines import encoding_hint
from loader.engine.sources.opened import (
    LONGEST_TEXT,
    Delivered,
    FileFormat,
    Group,
    Layout,
    MalformedRecord,
    Opened,
    Place,
    Rows,
)
from loader.readers.records.headers import header_names
from metadata.domain.sources.reading_options import ReadingOptions

_USUAL_HEADER, _LONGEST_HEADER = 1 << 14, 1 << 20  # bytes
# Column of malformed records while Spark reads; no delivered column has this name.
RECORD = "\ue000record"

# A field this long means a quote that is never closed. Reading on would fill the memory.
_LONGEST_FIELD = 16_000_000  # characters
# Replaces an empty field without quotes, to distinguish it from a quoted one; it occurs in no delivery.
_ABSENT = "\ue000absent\ue000"


@dataclass(frozen=True)
class Beginning:
    """Beginning of a file: ``fields`` of the first record, number of ``lines`` to its end, separator for Spark.

    ``separator`` is None if blank lines precede the first record: only Spark's own detection works then.
    """

    fields: tuple[str, ...]
    lines: int
    separator: str | None


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
    return Beginning(tuple(fields), taken, separator)


def first_record(lines: list[str], options: ReadingOptions) -> tuple[list[str], int]:
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

    has_lines = spans_lines = is_decoded = True
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
                names = header_names(file.shown, begin.fields)
            else:
                names = contract or tuple(f"column_{place}" for place, _ in enumerate(begin.fields, start=1))
            layouts.setdefault((names, begin.separator), []).append(file)
        groups = tuple(Group(tuple(files), names, separator) for (names, separator), files in layouts.items())
        all_names = tuple(dict.fromkeys(name for group in groups for name in group.names))
        return Layout(
            all_names,
            tuple(T.StringType() for _ in all_names),
            groups,
            _missing(groups, all_names),
            {path: begin.lines if options.header else 0 for path, begin in begins.items()},
        )

    def rows(self, opened: Opened, group: Group) -> Rows:
        # Named by position, since a header may contain any text.
        fields = [f"f{place}" for place, _ in enumerate(group.names)]
        schema = T.StructType([T.StructField(name, T.StringType()) for name in (*fields, RECORD)])
        reader = opened.spark.read.schema(schema).options(mode="PERMISSIVE", columnNameOfCorruptRecord=RECORD)
        frame = reader.options(**reading_options(opened.options, group.separator)).csv(group.patterns)
        frame, values = _values(frame, fields, group.separator)
        values = [nulls_read(value, opened.options, empty=False) for value in values]
        return Rows(frame, dict(zip(group.names, values, strict=True)), F.col(RECORD))


def _missing(groups: tuple[Group, ...], names: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
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
