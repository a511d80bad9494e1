"""Places of errors in a delivery: file, record and, if it is certain, line.

Used only for a refused delivery: it is read again in whole files with numbered rows.
"""

from dataclasses import dataclass

from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from loader.spark.runtime.conditions import total
from loader.spark.sources.delivery_reading import FILE, MALFORMED, ORDER, Opened
from loader.spark.sources.files import from_uri, shown, whole_files
from loader.spark.sources.json_lines import text_lines
from loader.spark.sources.options import CSV

SAMPLES = 5
_SAMPLE_LENGTH = 80  # characters


@dataclass(frozen=True)
class Place:
    """Place of one faulty row. ``record`` and ``line`` count from 1; ``text`` is the faulty value."""

    file: str
    record: int
    line: int | None
    text: str

    @property
    def number(self) -> int:
        return self.line or self.record

    @property
    def name(self) -> str:
        return f"line {self.line}" if self.line else f"record {self.record}"

    @property
    def sample(self) -> str:
        return f"{self.name}: {self.text}"


def first_places(opened: Opened, wrong: Column, text: Column) -> list[Place]:
    """Return the first ``wrong`` rows in the order of files and rows; ``text`` describes them."""
    described = F.left(F.coalesce(text.cast("string"), F.lit("NULL")), F.lit(_SAMPLE_LENGTH))
    with whole_files(opened.spark):
        numbered = opened.frame(numbered=True).persist(StorageLevel.MEMORY_AND_DISK_DESER)
        try:
            starts = dict(numbered.groupBy(FILE).agg(F.min(ORDER)).collect())
            rows = numbered.where(wrong).orderBy(FILE, ORDER).limit(SAMPLES).select(FILE, ORDER, described).collect()
            lines = _line_numbers(opened, numbered, rows, starts)
        finally:
            numbered.unpersist()
    return [
        Place(shown(from_uri(file)), order - starts[file] + 1, line, sample)
        for (file, order, sample), line in zip(rows, lines, strict=True)
    ]


def _line_numbers(opened: Opened, numbered: DataFrame, rows: list, starts: dict[str, int]) -> list[int | None]:
    """Return each row's line, computed from the rows and line ends before it; None if it is uncertain.

    Skipped blank lines make it uncertain.
    """
    if not opened.is_text or not rows or not _lines_are_bytes(opened):
        return [None] * len(rows)
    skipped = _files_with_blank_lines(opened)
    line_ends = [_line_ends(F.col(f"d{place}")) for place, _ in enumerate(opened.names)] if opened.format == CSV else []
    inside = F.when(F.col(MALFORMED).isNotNull(), _line_ends(F.col(MALFORMED))).otherwise(total(line_ends))
    before = numbered.agg(
        *(
            F.sum(F.when((F.col(FILE) == row[FILE]) & (F.col(ORDER) < row[ORDER]), inside)).alias(str(place))
            for place, row in enumerate(rows)
        )
    ).first()
    lines = []
    for place, row in enumerate(rows):
        path = from_uri(row[FILE])
        header = opened.header_lines.get(path, 0)
        line = header + (before[place] or 0) + row[ORDER] - starts[row[FILE]] + 1
        lines.append(None if path in skipped else line)
    return lines


def _lines_are_bytes(opened: Opened) -> bool:
    """Return True if a line end is one byte, as in every encoding except UTF-16 and UTF-32."""
    return not opened.options.encoding.lower().startswith(("utf-16", "utf-32", "utf16", "utf32"))


def _line_ends(text: Column) -> Column:
    without = F.replace(text, F.lit("\n"), F.lit(""))
    return F.coalesce(F.char_length(text) - F.char_length(without), F.lit(0))


def _files_with_blank_lines(opened: Opened) -> set[str]:
    blank = F.trim(F.col("value"), F.lit("\r")) == ""
    files = text_lines(opened.spark, opened.files).where(blank).select(F.col("_metadata.file_path")).distinct()
    return {from_uri(row[0]) for row in files.collect()}
