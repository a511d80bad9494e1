"""Loads of history batch files into real tables: CSV, zstd and Parquet; refused files change nothing."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from loader.engine.historization.history_batches.history_files import INCOMING
from tests.fixtures.spark import by_night, held_in_memory
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

POLICY = {
    "input": "batch_files",
    "time": "_fivetran_start",
    "null_string": "<null>",
    "unmodified_string": "<same>",
}
T1, T2, T3 = "2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"
OPEN = "9999-12-31T23:59:59.999Z"


@pytest.fixture
def item(spark, tmp_path):
    return Kept(spark, tmp_path, columns={"id": "integer", "v": "string", "n": "decimal(10,2)"}, policy=POLICY)


def csv(item, name: str, *lines: str, packed: bool = False):
    path = item.folder / f"{name}.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if not packed:
        return path
    compressed = pa.compress(path.read_bytes(), codec="zstd", asbytes=True)
    path = item.folder / f"{name}.csv.zst"
    path.write_bytes(compressed)
    return path


HEADER = "id,v,n,_fivetran_start,_fivetran_end,_fivetran_active,_fivetran_synced"


def first_file(item, packed: bool = False):
    return csv(
        item,
        "first",
        HEADER,
        f'1,"a, ""b""\nc",1.50,{T1},{OPEN},true,{T1}',
        f"2,<null>,<null>,{T1},{OPEN},true,{T1}",
        ",,,,,,",  # a record without any value is no row
        f'3,"",3,{T1},{OPEN},true,{T1}',
        packed=packed,
    )


def version_rows(item):
    frame = item.table(item.history_spec).frame()
    rows = frame.selectExpr(
        "id", "v", "n", "CAST(_fivetran_start AS STRING) s", "CAST(_fivetran_end AS STRING) e", "_fivetran_active a"
    )
    return sorted((r["id"], r["v"], r["n"] and str(r["n"]), r["s"][:10], r["e"][:10], r["a"]) for r in rows.collect())


@pytest.mark.core
@pytest.mark.parametrize("packed", [by_night(False), True])
def test_csv_batch_files_write_the_expected_history(spark, item, packed):
    before = held_in_memory(spark)
    how = {"compression": "zstd"} if packed else {}
    status, event = item.batch(at=T1, upsert=[first_file(item, packed)], **how)
    assert (status, event.get("error")) == ("succeeded", None)
    assert version_rows(item) == [
        (1, 'a, "b"\nc', "1.50", "2024-01-01", "9999-12-31", True),
        (2, None, None, "2024-01-01", "9999-12-31", True),
        (3, "", "3.00", "2024-01-01", "9999-12-31", True),
    ]
    update = csv(item, "u", HEADER, f"1,<same>,2,{T2},{OPEN},true,{T2}", packed=packed)
    earliest = csv(item, "e", "id,_fivetran_start", f"1,{T2}", packed=packed)
    delete = csv(item, "d", "id,_fivetran_end", f"3,{T3}", packed=packed)
    status, event = item.batch(at=T3, earliest_start=[earliest], update=[update], delete=[delete], **how)
    assert (status, event["counts"]["opened"], event["counts"]["closed"]) == ("succeeded", 1, 2)
    assert version_rows(item) == [
        (1, 'a, "b"\nc', "1.50", "2024-01-01", "2024-01-31", False),
        (1, 'a, "b"\nc', "2.00", "2024-02-01", "9999-12-31", True),
        (2, None, None, "2024-01-01", "9999-12-31", True),
        (3, "", "3.00", "2024-01-01", "2024-03-01", False),
    ]
    assert item.rawcore_keys() == [1, 2]
    assert not (item.folder / "warehouse" / INCOMING / "run-1").exists()
    assert held_in_memory(spark) == before


def test_batch_reads_several_parquet_files_of_a_kind(item):
    from datetime import UTC, datetime
    from decimal import Decimal

    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "v": ["x", "<null>"],
            "n": pa.array([Decimal("1.10"), None], pa.decimal128(20, 2)),
            "_fivetran_start": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 2, pa.timestamp("us", "UTC")),
        }
    )
    parquet.write_table(table, item.folder / "one.parquet")
    parquet.write_table(table.slice(0, 0), item.folder / "two.parquet")
    status, event = item.batch(
        at=T1, upsert=[item.folder / "one.parquet", item.folder / "two.parquet"], format="parquet"
    )
    assert (status, event.get("error")) == ("succeeded", None)
    assert [row[:3] for row in version_rows(item)] == [(1, "x", "1.10"), (2, None, None)]


def test_nanoseconds_of_parquet_are_cut_and_counted(item):
    at = pa.array([1_704_067_200_000_000_001, 1_704_067_200_000_000_000], pa.timestamp("ns", "UTC"))
    table = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["x", "y"], "n": ["1", "2"], "_fivetran_start": at})
    parquet.write_table(table, item.folder / "one.parquet")
    status, event = item.batch(at=T1, upsert=[item.folder / "one.parquet"], format="parquet")
    assert (status, event.get("error")) == ("succeeded", None)
    assert "1 times of the upsert file were cut to microseconds." in event["warnings"]
    assert [row[:4] for row in version_rows(item)] == [(1, "x", "1.00", "2024-01-01"), (2, "y", "2.00", "2024-01-01")]


@pytest.mark.nightly
def test_the_same_run_again_adds_nothing(item):
    item.batch(at=T1, upsert=[first_file(item)])
    before = item.table(item.history_spec).version()
    status, event = item.again(item.made)
    assert (status, event["version_after"]) == ("succeeded", before)


def truncated(item):
    lines = [f"{n},text {n * 7919},1,{T2},{OPEN},true,{T2}" for n in range(20_000)]
    path = csv(item, "cut", HEADER, *lines, packed=True)
    path.write_bytes(path.read_bytes()[:-1000])
    return {"upsert": [path], "compression": "zstd"}


def garbage(item):
    path = item.folder / "no.csv.zst"
    path.write_bytes(b"this is no zstd stream")
    return {"upsert": [path], "compression": "zstd"}


def upsert(*lines, header=HEADER, packed=False):
    def made(item):
        how = {"compression": "zstd"} if packed else {}
        return {"upsert": [csv(item, "bad", header, *lines, packed=packed)], **how}

    return made


BAD = [
    (truncated, "TRUNCATED_FILE", "cut.csv.zst"),
    (garbage, "UNREADABLE_FILE", "no.csv.zst"),
    (upsert("1,a,x", header="id,v,w"), "UNKNOWN_COLUMN", "w"),
    (upsert(f"a,{T2}", header="v,_fivetran_start"), "MISSING_COLUMN", "id"),
    (upsert("1,a", header="id,v"), "MISSING_COLUMN", "_fivetran_start"),
    (upsert(f"1,a,1,yesterday,{OPEN},true,{T2}"), "VALUE_DOES_NOT_FIT", "_fivetran_start"),
    (upsert(f"1,a,1.005,{T2},{OPEN},true,{T2}"), "VALUE_DOES_NOT_FIT", "1.005"),
    (upsert(f"<null>,a,1,{T2},{OPEN},true,{T2}"), "NULL_KEY", "1 rows"),
    (upsert(f"1,<same>,1,{T2},{OPEN},true,{T2}"), "UNMODIFIED_IN_UPSERT", "1 rows"),
    (upsert(f"1,a,1,{T2},{OPEN},true,{T2},more"), "RAGGED_ROW", "line 2"),
    (upsert(f"1,a,1,{T2},{OPEN},true,{T2},more", packed=True), "RAGGED_ROW", "bad.csv.zst"),
    (lambda item: {"upsert": [item.folder / "gone.csv"]}, "MISSING_FILE", "gone.csv"),
]


def test_refused_batch_files_leave_the_tables_unchanged(item):
    item.batch(at=T1, upsert=[first_file(item)])
    tables = [item.table(item.history_spec), item.table(item.rawcore_spec)]
    before = [table.version() for table in tables]
    for make, code, message in BAD:
        status, event = item.batch(at=T2, **make(item))
        assert (status, event["error"]["code"]) == ("failed", code), event
        assert message in str(event["error"]), event
        assert INCOMING not in str(event["error"])
        assert [table.version() for table in tables] == before
    assert not list((item.folder / "warehouse" / INCOMING).glob("*"))


@pytest.mark.nightly
def test_nanoseconds_are_cut_to_microseconds_and_counted_in_a_warning(item):
    fine = "2025-01-09T04:10:19.156057706Z"
    upsert = csv(item, "u", HEADER, f"1,a,1,{fine},{OPEN},true,{fine}", f"2,b,1,{T1},{OPEN},true,{T1}")
    status, event = item.batch(at=T1, upsert=[upsert])
    assert (status, event.get("error")) == ("succeeded", None)
    assert event["warnings"] == ["1 times of the upsert file were cut to microseconds."]
    starts = item.table(item.history_spec).frame().where("id = 1").selectExpr("CAST(_fivetran_start AS STRING)")
    assert starts.first()[0] == "2025-01-09 04:10:19.156057"


@pytest.mark.nightly
def test_batch_options_map_column_names_and_markers_of_a_sender(spark, tmp_path):
    columns = {"id": "integer", "label": "string", "n": "integer", "b": "binary", "t": "time"}
    item = Kept(spark, tmp_path, columns=columns, policy=POLICY)
    rows = csv(item, "r", "key,name,n,b,t", "1,,null,Cv8=,10:15:30.123456789", "2,null,7,null,10:15")
    how = {"names": {"key": "id", "name": "label"}, "null_string": "null", "unmodified_string": "same"}
    how |= {"binary": "base64", "dated": T1}
    status, event = item.batch(at=T1, upsert=[rows], **how)
    assert (status, event.get("error")) == ("succeeded", None)
    assert event["warnings"] == ["1 times of the upsert file were cut to microseconds."]
    update = csv(item, "u", "key,name,n,b,t", "1,same,8,same,same")
    delete = csv(item, "d", "key", "2")
    status, event = item.batch(at=T2, update=[update], delete=[delete], **how | {"dated": T2})
    assert (status, event.get("error")) == ("succeeded", None)
    frame = item.table(item.history_spec).frame().orderBy("id", "_fivetran_start")
    records = frame.selectExpr("id", "label", "n", "hex(b)", "t", "_fivetran_active").collect()
    assert [tuple(row) for row in records] == [
        (1, "", None, "0AFF", "10:15:30.123456", False),
        (1, "", 8, "0AFF", "10:15:30.123456", True),
        (2, None, 7, None, "10:15", False),
    ]


def test_a_binary_value_that_is_no_base64_is_refused(spark, tmp_path):
    item = Kept(spark, tmp_path, columns={"id": "integer", "b": "binary"}, policy=POLICY)
    rows = csv(item, "r", "id,b", "1,0aff!")
    status, event = item.batch(at=T1, upsert=[rows], binary="base64", dated=T1)
    assert (status, event["error"]["code"], event["error"]["samples"]) == ("failed", "VALUE_DOES_NOT_FIT", ["0aff!"])
