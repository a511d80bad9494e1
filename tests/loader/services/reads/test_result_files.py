"""Parquet files of query results."""

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.services.reads.result_files import parquet_of


def table_of(*columns: tuple[str, str, list], masked: tuple[str, ...] = ()) -> pa.Table:
    names, types, values = zip(*columns, strict=True)
    answer = {"columns": list(names), "types": list(types), "rows": list(zip(*values, strict=True)), "masked": masked}
    return pq.read_table(io.BytesIO(parquet_of(answer)))


@pytest.mark.parametrize(
    ("type_", "sent", "stored"),
    [
        ("int", 7, 7),
        ("bigint", 9_007_199_254_740_993, 9_007_199_254_740_993),
        ("double", 1.5, 1.5),
        ("double", "Infinity", float("inf")),
        ("boolean", True, True),
        ("string", "", ""),
        ("decimal(10,2)", "-12.50", Decimal("-12.50")),
        ("date", "2024-02-29", date(2024, 2, 29)),
        ("timestamp", "2024-02-29T12:30:00.000001Z", datetime(2024, 2, 29, 12, 30, 0, 1, UTC)),
        ("timestamp_ntz", "2024-02-29T12:30:00", datetime(2024, 2, 29, 12, 30)),
        ("binary", "00FF", b"\x00\xff"),
        ("array<int>", [1, 2], "[1, 2]"),
        ("struct<a:string>", {"a": "é"}, '{"a": "é"}'),
    ],
)
def test_parquet_file_keeps_the_type_of_a_value_and_null(type_: str, sent: Any, stored: Any):
    assert table_of(("x", type_, [sent, None])).column("x").to_pylist() == [stored, None]


def test_a_masked_column_is_text():
    table = table_of(("salary", "decimal(10,2)", ["•••"]), masked=("salary",))
    assert table.column("salary").to_pylist() == ["•••"]


def test_a_column_with_a_year_beyond_9999_is_text():
    assert table_of(("until", "date", ["+10000-01-01"])).column("until").to_pylist() == ["+10000-01-01"]


def test_columns_of_one_name_are_numbered():
    names = table_of(("id", "int", [1]), ("id", "int", [2]), ("id_2", "int", [3]), ("id", "int", [4])).column_names
    assert names == ["id", "id_3", "id_2", "id_4"]


def test_a_result_without_rows_keeps_its_columns():
    table = pq.read_table(io.BytesIO(parquet_of({"columns": ["x"], "types": ["int"], "rows": [], "masked": ()})))
    assert table.schema == pa.schema([("x", pa.int32())])
