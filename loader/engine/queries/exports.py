"""Export of rows to a CSV file on the runner's machine.

Rows reach the file one by one, so memory does not grow with their number: Spark's driver has one partition of the
result at a time, which a shuffle keeps small, and the runner one batch of its rows.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from elevata.core.spreadsheets import csv_line, safe_csv_lines
from loader.domain.queries.answers import MOST_EXPORTED
from loader.domain.queries.differences import difference_header
from loader.domain.queries.query_results import value_text
from loader.engine.queries.answer_values import as_values, json_value
from metadata.domain.sensitivity import MASK

_BUFFER = 1 << 20
# Partitions of the result's shuffle, and the bytes up to which Spark joins them: a file of a table is one partition.
_SETTINGS = {
    "spark.sql.shuffle.partitions": "200",
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum": "200",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "4m",
}


def export_session(spark: SparkSession) -> SparkSession:
    """Return a session whose results have small partitions."""
    return _with_small_partitions(spark.newSession())


def _with_small_partitions(session: SparkSession) -> SparkSession:
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def export_rows(frame: DataFrame, masked: Collection[str], path: str, *, ordered: bool, exact: bool) -> dict[str, Any]:
    """Write the rows of a frame of texts; return columns, number of rows, and ``truncated``.

    The frame is one of ``export_session``. A frame that is not ``ordered`` is shuffled into small partitions. Unless
    ``exact``, texts that a spreadsheet would interpret as formulas begin with an apostrophe. Values of masked columns
    are masks.
    """
    if not ordered:
        frame = frame.hint("rebalance")
    places = [place for place, name in enumerate(frame.columns) if name in masked]
    rows = with_masks(frame.toLocalIterator(), places) if places else frame.toLocalIterator()
    lines = map(csv_line, rows) if exact else safe_csv_lines(rows)
    count, truncated = write_lines(Path(path), frame.columns, lines, MOST_EXPORTED)
    return {
        "columns": frame.columns,
        "rows": [],
        "exported": count,
        "truncated": truncated,
        "masked": [name for name in frame.columns if name in masked],
    }


def export_differences(columns: Sequence[str], differing: DataFrame, *, path: str) -> dict[str, Any]:
    """Write all rows that differ as the CSV file of a comparison; return their number as ``exported``."""
    _with_small_partitions(differing.sparkSession)
    texts = as_values(differing).toLocalIterator()
    rows = ([row[0], *(value_text(json_value(value)) for value in row[1:])] for row in texts)
    count, _ = write_lines(Path(path), difference_header(columns), safe_csv_lines(rows), MOST_EXPORTED)
    return {"exported": count}


def with_masks(rows: Iterable[Sequence[Any]], places: Collection[int]) -> Iterator[list[Any]]:
    """Yield the rows with masks at the places of masked columns."""
    return ([MASK if place in places else value for place, value in enumerate(row)] for row in rows)


def write_lines(path: Path, columns: Sequence[str], lines: Iterator[str], most: int) -> tuple[int, bool]:
    """Write a header and at most ``most`` lines; return their number, and True if there are more.

    The file has its name once it is complete.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    part, count = path.with_suffix(".part"), 0
    try:
        with part.open("w", encoding="utf-8", newline="", buffering=_BUFFER) as file:
            file.write(csv_line(columns))
            for line in islice(lines, most):
                file.write(line)
                count += 1
        truncated = count == most and next(lines, None) is not None
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count, truncated
