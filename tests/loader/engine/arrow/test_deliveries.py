"""Parquet deliveries that small loads leave to the general load."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.engine.arrow.deliveries import Column, DeliveredFile, Delivery, NotPlain, read_delivery


def delivery(path: Path, kind: str) -> Delivery:
    status = path.stat()
    file = DeliveredFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000, path.name)
    return Delivery("parquet", (file,), (Column("v", kind),))


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([3_000_000], pa.int32()).cast(pa.date32()), "date"),
        (pa.array([2_147_483_000], pa.int32()).cast(pa.date32()), "date"),
        (pa.array([-800_000], pa.int32()).cast(pa.date32()), "date"),
        (pa.array([253_402_300_800_000_000], pa.int64()).cast(pa.timestamp("us", "UTC")), "timestamp"),
        (pa.array([1], pa.timestamp("ns", "UTC")), "timestamp"),
        (pa.array([1], pa.time64("us")), "time"),
    ],
)
def test_small_load_leaves_far_dates_nanoseconds_and_times_to_the_general_load(
    tmp_path: Path, values: pa.Array, kind: str
):
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    with pytest.raises(NotPlain):
        read_delivery(delivery(tmp_path / "a.parquet", kind), 100)


def test_small_load_reads_the_last_day_of_year_9999(tmp_path: Path):
    values = pa.array([2_932_896], pa.int32()).cast(pa.date32())
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    assert read_delivery(delivery(tmp_path / "a.parquet", "date"), 100)["v"].to_pylist() == values.to_pylist()


def test_small_load_refuses_a_page_with_a_wrong_checksum(tmp_path: Path):
    table = pa.table({"v": pa.array([22], pa.int64())})
    options = {"compression": "none", "use_dictionary": False, "write_page_checksum": True, "write_statistics": False}
    pq.write_table(table, tmp_path / "a.parquet", **options)
    content = (tmp_path / "a.parquet").read_bytes()
    wrong = content.replace((22).to_bytes(8, "little"), (23).to_bytes(8, "little"))
    (tmp_path / "a.parquet").write_bytes(wrong)
    with pytest.raises((NotPlain, OSError)):
        read_delivery(delivery(tmp_path / "a.parquet", "bigint"), 100)


@pytest.mark.parametrize("content", ["a,b\n1,2\n,\n", "a,b\n1,2,\n", 'a,"b\nc"\n1,2\n'])
def test_small_load_leaves_empty_records_and_other_forms_to_the_general_load(tmp_path: Path, content: str):
    path = tmp_path / "a.csv"
    path.write_text(content)
    status = path.stat()
    file = DeliveredFile(str(path), status.st_size, status.st_mtime_ns // 1_000_000, path.name)
    columns = (Column("a", "integer"), Column("b", "integer"))
    with pytest.raises(NotPlain):
        read_delivery(Delivery("csv", (file,), columns), 100)
