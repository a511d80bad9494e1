"""Places of faulty rows in a delivery: file, record and, if it is certain, line.

Used only for a delivery with faults: its rows are read again, once for all its faults. Rows of tables are named by
their business keys, messages by partition and offset.
"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from loader.domain.sources.provenance import SOURCE_ROW
from loader.engine.expressions import total
from loader.engine.pyspark_types import row_of
from loader.engine.sources.files import from_uri, shown
from loader.engine.sources.formats.text_lines import text_lines
from loader.engine.sources.opened import FILE, LONGEST_TEXT, MALFORMED, ORDER, Opened, Place
from loader.engine.sources.provenance import with_provenance
from metadata.domain.sql import quote_identifier

SAMPLES = 5
_FAULT, _CLASS, _RANK = "fault", "fault.class", "rank"


def first_places(opened: Opened, numbered: DataFrame, wanted: Sequence[tuple[Column, Column]]) -> list[list[Place]]:
    """Return for each condition the places of its first rows in the order of files and rows, or of keys.

    ``numbered`` are the rows of the delivery, with their numbers if it has files; ``wanted`` are pairs of a condition
    and the text that describes a row.
    """
    described = [
        (wrong, F.left(F.coalesce(F.make_valid_utf8(text.cast("string")), F.lit("NULL")), F.lit(LONGEST_TEXT)))
        for wrong, text in wanted
    ]
    places: list[list[Place]] = [[] for _ in wanted]
    if not opened.reader.has_files:
        keys = {f"place_{index}": column for index, column in enumerate(opened.place_columns)}
        for *values, index, text in _first_rows(numbered.withColumns(keys), list(keys), described):
            places[index].append(opened.own_place(values, text))
        return places
    word = opened.reader.numbers
    placed = numbered.withColumn(SOURCE_ROW, F.col(ORDER)) if word else with_provenance(opened, numbered, numbered)
    rows = _first_rows(placed, [FILE, SOURCE_ROW], described)
    units = [(word, row[SOURCE_ROW]) for row in rows] if word else _lines_or_records(opened, placed, rows)
    for row, (unit, number) in zip(rows, units, strict=True):
        places[row["class"]].append(Place(shown(from_uri(row[FILE])), unit, number, row["text"]))
    return places


def _first_rows(placed: DataFrame, order: Sequence[str], described: Sequence[tuple[Column, Column]]) -> list:
    """Return the columns of ``order``, the class and the text of the first rows of each class."""
    faults = [
        F.when(wrong, F.struct(F.lit(index).alias("class"), text.alias("text")))
        for index, (wrong, text) in enumerate(described)
    ]
    columns = [F.col(quote_identifier(name)) for name in order]
    rows = placed.select(*columns, F.explode(F.array_compact(F.array(*faults))).alias(_FAULT))
    in_order = Window.partitionBy(_CLASS).orderBy(*(columns or [F.col(f"{_FAULT}.text")]))
    ranked = rows.withColumn(_RANK, F.row_number().over(in_order)).where(F.col(_RANK) <= SAMPLES)
    return ranked.orderBy(_CLASS, _RANK).select(*columns, f"{_FAULT}.*").collect()


def _lines_or_records(opened: Opened, placed: DataFrame, rows: list) -> list[tuple[str, int]]:
    """Return each row's line, or its record where the line is uncertain."""
    lines = zip(_line_numbers(opened, placed, rows), rows, strict=True)
    return [("line", line) if line else ("record", row[SOURCE_ROW]) for line, row in lines]


def _line_numbers(opened: Opened, placed: DataFrame, rows: list) -> list[int | None]:
    """Return each row's line, computed from the rows and line ends before it; None if it is uncertain.

    Skipped blank lines, and line ends that are no bytes of ASCII, make it uncertain.
    """
    if not opened.reader.has_lines or not rows or opened.options.is_wide or opened.options.is_ebcdic:
        return [None] * len(rows)
    skipped = _files_with_blank_lines(opened)
    spanning = opened.names if opened.reader.spans_lines else ()
    line_ends = [_line_ends(opened.column(name)) for name in spanning]
    inside = F.when(F.col(MALFORMED).isNotNull(), _line_ends(F.col(MALFORMED))).otherwise(total(line_ends))
    before = row_of(
        placed.agg(
            *(
                F.sum(F.when((F.col(FILE) == row[FILE]) & (F.col(SOURCE_ROW) < row[SOURCE_ROW]), inside)).alias(
                    str(index)
                )
                for index, row in enumerate(rows)
            )
        ).first()
    )
    lines = []
    for index, row in enumerate(rows):
        path = from_uri(row[FILE])
        header = opened.header_lines.get(path, 0)
        line = header + (before[index] or 0) + row[SOURCE_ROW]
        lines.append(None if path in skipped else line)
    return lines


def _line_ends(text: Column) -> Column:
    without = F.replace(text, F.lit("\n"), F.lit(""))
    return F.coalesce(F.char_length(text) - F.char_length(without), F.lit(0))


def _files_with_blank_lines(opened: Opened) -> set[str]:
    blank = F.trim(F.col("value"), F.lit(opened.reader.blanks)) == ""
    files = text_lines(opened.spark, opened.files).where(blank).select(F.col("_metadata.file_path")).distinct()
    return {from_uri(row[0]) for row in files.collect()}
