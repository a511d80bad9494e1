"""CSV: layout by the header records (``csv_headers``), and Spark's reader.

Spark drops a header without checking it. Files are grouped by the order of their columns and united by name.
"""

import csv
from io import StringIO

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from elevata.core.words import counted
from loader.domain.sources.csv_lines import LONGEST_FIELD
from loader.domain.sources.csv_quotes import NO_QUOTE
from loader.domain.sources.repeated_headers import header_texts
from loader.engine.sources.delivered_columns import nulls_read
from loader.engine.sources.files import DeliveredFile
from loader.engine.sources.formats.csv_headers import Beginning, first_record, read_beginning
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
from loader.readers.records.csv_records import is_ended_by_delimiter
from loader.readers.records.headers import header_names
from metadata.domain.sources.option_kinds import NUMBERED
from metadata.domain.sources.reading_options import ReadingOptions

# Column of malformed records while Spark reads; no delivered column has this name.
RECORD = "\ue000record"

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
            header = header_texts(begin.fields, options.null_string) if options.header else ()
            is_ended = is_ended_by_delimiter(begin.first_row, len(names))
            layouts.setdefault((names, header, begin.separator, is_ended), []).append(file)
        groups = tuple(
            Group(tuple(files), names, separator, header=header, is_ended_by_delimiter=is_ended)
            for (names, header, separator, is_ended), files in layouts.items()
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
        # Spark takes an empty one for the NUL character, which a value may contain.
        "quote": options.quote or NO_QUOTE,
        "escape": options.escape or NO_QUOTE,
        "encoding": options.encoding,
        "multiLine": "true",
        "maxCharsPerColumn": str(LONGEST_FIELD),
        "nullValue": "" if options.empty_is_null else _ABSENT,
        "emptyValue": "",
    }
    return spark_options | ({"lineSep": separator} if separator else {})
