"""File of an export: written line by line, complete or absent."""

import tracemalloc
from itertools import repeat
from pathlib import Path

import pytest

from loader.engine.queries.exports import write_lines


def test_memory_does_not_grow_with_the_rows_of_an_export(tmp_path: Path):
    rows = 1_000_000
    tracemalloc.start()
    written = write_lines(tmp_path / "rows.csv", ["id"], repeat('"EDDB"\r\n', rows), rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert written == (rows, False)
    assert (tmp_path / "rows.csv").stat().st_size == len('"id"\r\n') + 8 * rows
    assert peak < 4_000_000


def test_export_stops_at_the_row_limit_and_reports_that_more_rows_exist(tmp_path: Path):
    assert write_lines(tmp_path / "rows.csv", ["id"], iter(['"1"\r\n', '"2"\r\n']), 1) == (1, True)
    assert (tmp_path / "rows.csv").read_bytes() == b'"id"\r\n"1"\r\n'


def test_an_export_that_fails_leaves_no_file(tmp_path: Path):
    with pytest.raises(ZeroDivisionError):
        write_lines(tmp_path / "rows.csv", ["id"], (f"{1 // row}" for row in (1, 0)), 10)
    assert list(tmp_path.iterdir()) == []
