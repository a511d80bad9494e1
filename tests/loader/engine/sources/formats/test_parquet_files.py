"""Parquet of other writers: types that Spark lacks, read with pyarrow in tasks, and sampled with the same result."""

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.discovery import discover
from loader.sources.file_samples import sample_files
from metadata.domain.sources.locations import Roots
from tests.fixtures.spark import by_night
from tests.loader.engine.sources.deliveries import refused, source_of
from tests.loader.parquet_bytes import (
    GEOGRAPHY,
    GEOMETRY,
    UNKNOWN,
    with_decimals_in_bytes,
    with_former_lz4,
    with_logical_type,
    written,
)

pytestmark = pytest.mark.spark

ID = DeliveredColumn("k-id", "id", "integer", nullable=False, business_key=True)
AT = dt.datetime(2024, 1, 31, 10, 0, 0, 123456)
NANOSECONDS = int(AT.replace(tzinfo=dt.UTC).timestamp()) * 10**9 + 123_456_000
POINT = b"\x01\x01\x00\x00\x00" + b"\x00" * 16
IDS = pa.array([1, 2, 3], pa.int32())


def contract(type_text: str, name: str = "v") -> tuple[DeliveredColumn, ...]:
    return (ID, DeliveredColumn("k-v", name, type_text))


def load_file(spark, path: Path, columns: tuple[DeliveredColumn, ...], **options):
    """Return (rows in the order of the key, warnings, unknown columns) of a delivery."""
    delivery = read_delivery(spark, source_of(path, columns, "parquet", **options))
    rows = [tuple(row)[1:] for row in delivery.frame.orderBy("id").collect()]
    delivery.release()
    return rows, delivery.warnings, delivery.unknown


def put_table(path: Path, values: pa.Array, name: str = "v", **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(written(pa.table({"id": IDS[: len(values)], name: values}), **options))
    return path


def sample_file(path: Path):
    return sample_files(path, "parquet", None, roots=Roots.of([str(path.parent)], folder="/"))


def test_nanoseconds_are_cut_to_microseconds_and_counted(spark, tmp_path):
    values = pa.array([NANOSECONDS, NANOSECONDS + 789, -1], pa.timestamp("ns"))
    path = put_table(tmp_path / "a.parquet", values)
    rows, warnings, _ = load_file(spark, path, contract("timestamp"))
    before_1970 = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    assert rows == [(AT,), (AT,), (before_1970,)]
    assert warnings == ("2 values of v have digits below microseconds, which were cut.",)
    assert [str(column.type) for column in sample_file(path).columns] == ["integer", "timestamp"]


def test_a_timestamp_without_zone_in_nanoseconds_is_local_time(spark, tmp_path):
    path = put_table(tmp_path / "a.parquet", pa.array([NANOSECONDS], pa.timestamp("ns")))
    rows, _, _ = load_file(spark, path, contract("timestamp"), timezone="Europe/Berlin")
    assert rows == [(AT - dt.timedelta(hours=1),)]
    zoned = put_table(tmp_path / "b.parquet", pa.array([NANOSECONDS], pa.timestamp("ns", "Europe/Berlin")))
    assert load_file(spark, zoned, contract("timestamp"), timezone="Europe/Berlin")[0] == [(AT,)]


@pytest.mark.parametrize(
    ("kind", "number", "expected"),
    [
        (pa.time32("ms"), 36_000_500, "10:00:00.5"),
        (pa.time64("us"), 36_000_000_000, "10:00:00"),
        (pa.time64("ns"), 36_000_000_001_999, "10:00:00.000001"),
    ],
)
def test_parquet_times_of_day_are_read_as_time(spark, tmp_path, kind, number, expected):
    path = put_table(tmp_path / "a.parquet", pa.array([number, None], kind))
    rows, warnings, _ = load_file(spark, path, contract("time"))
    assert rows == [(expected,), (None,)]
    assert len(warnings) == (1 if kind == pa.time64("ns") else 0)
    assert str(sample_file(path).columns[1].type) == "time"
    assert sample_file(path).values[1] == (expected, None)


def test_nanoseconds_and_times_inside_of_lists_and_structs_are_read(spark, tmp_path):
    kind = pa.list_(pa.struct([("t", pa.time64("ns")), ("at", pa.timestamp("ns"))]))
    path = put_table(tmp_path / "a.parquet", pa.array([[{"t": 36_000_000_000_001, "at": NANOSECONDS}], None, []], kind))
    rows, warnings, _ = load_file(spark, path, contract("json"))
    assert rows == [('[{"t":"10:00:00","at":"2024-01-31T10:00:00.123456"}]',), (None,), ("[]",)]
    assert warnings == ("1 value of v have digits below microseconds, which were cut.",)


@pytest.mark.parametrize(
    ("values", "type_text", "expected"),
    [
        (pa.array([1.5, -2.25, None], pa.float16()), "float", [1.5, -2.25, None]),
        (pa.array([True, None, False]), "boolean", [True, None, False]),
        (pa.array([1, 2, 255], pa.uint8()), "integer", [1, 2, 255]),
        (pa.array([2**64 - 1], pa.uint64()), "decimal(20,0)", [Decimal(2**64 - 1)]),
        (pa.array([None, None], pa.null()), "string", [None, None]),
        (pa.array([Decimal("1.50")], pa.decimal128(10, 2)), "decimal(10,2)", [Decimal("1.50")]),
        (pa.array([b"ab", None], pa.binary(2)), "binary", [b"ab", None]),
        (pa.array(["x", "y", "x"]).dictionary_encode(), "string", ["x", "y", "x"]),
        (pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())), "json", ['{"k":1}', None]),
        (pa.array([dt.date(1500, 3, 1)]), "date", [dt.date(1500, 3, 1)]),
    ],
)
def test_values_are_read_alike_beside_a_column_that_spark_cannot_read(spark, tmp_path, values, type_text, expected):
    table = pa.table({"id": IDS[: len(values)], "v": values})
    (tmp_path / "plain.parquet").write_bytes(written(table))
    beside = table.append_column("t", pa.array([1] * len(values), pa.time64("us")))
    (tmp_path / "beside.parquet").write_bytes(written(beside))
    for name in ("plain", "beside"):
        rows, _, _ = load_file(spark, tmp_path / f"{name}.parquet", contract(type_text))
        assert [row[0] for row in rows] == expected, name


def test_columns_in_an_encoding_that_spark_lacks_are_read(spark, tmp_path):
    encoding = {"use_dictionary": False, "column_encoding": {"v": "BYTE_STREAM_SPLIT"}}
    path = put_table(tmp_path / "a.parquet", pa.array([1.5, -2.25, 0.0]), **encoding)
    assert load_file(spark, path, contract("float"))[0] == [(1.5,), (-2.25,), (0.0,)]


def test_compressions_that_spark_lacks_are_read(spark, tmp_path):
    table = pa.table({"id": IDS, "v": ["x" * 100, "y" * 100, None]})
    (tmp_path / "former.parquet").write_bytes(with_former_lz4(table))
    (tmp_path / "brotli.parquet").write_bytes(written(table, compression="brotli"))
    (tmp_path / "raw.parquet").write_bytes(written(table, compression="lz4"))
    for name in ("former", "brotli", "raw"):
        rows = load_file(spark, tmp_path / f"{name}.parquet", contract("string"))[0]
        assert rows == [("x" * 100,), ("y" * 100,), (None,)], name


@pytest.mark.parametrize("number", [GEOMETRY, GEOGRAPHY, UNKNOWN])
def test_geometries_and_unknown_logical_types_are_binary(spark, tmp_path, number):
    path = tmp_path / "a.parquet"
    path.write_bytes(with_logical_type([1, 2], "shape", [POINT, None], number))
    assert str(sample_file(path).columns[1].type) == "binary"
    assert load_file(spark, path, contract("binary", "shape"))[0] == [(POINT,), (None,)]
    rows, _, unknown = load_file(spark, path, (ID,))
    assert (rows, unknown) == ([(), ()], [{"name": "shape", "type": "binary", "nullable_seen": True}])


def test_decimals_in_byte_arrays_are_read(spark, tmp_path):
    path = tmp_path / "a.parquet"
    path.write_bytes(with_decimals_in_bytes([1, 2], "price", [150, -1]))
    assert str(sample_file(path).columns[1].type) == "decimal(4,2)"
    assert load_file(spark, path, contract("decimal(4,2)", "price"))[0] == [(Decimal("1.50"),), (Decimal("-0.01"),)]


def test_parquet_uuids_are_read_as_text(spark, tmp_path):
    schema = pa.schema([("id", pa.int32()), ("v", pa.uuid())])
    storage = pa.array([bytes(range(16))], pa.binary(16))
    table = pa.table([IDS[:1], pa.ExtensionArray.from_storage(pa.uuid(), storage)], schema=schema)
    (tmp_path / "a.parquet").write_bytes(written(table))
    expected = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert load_file(spark, tmp_path / "a.parquet", contract("uuid"))[0] == [(expected,)]
    assert sample_file(tmp_path / "a.parquet").values[1] == (expected,)


def test_unreadable_column_is_refused_only_if_the_contract_has_it(spark, tmp_path):
    values = pa.array([Decimal("1.5"), None], pa.decimal256(60, 2))
    path = put_table(tmp_path / "a.parquet", values)
    rows, _, unknown = load_file(spark, path, (ID,))
    assert (rows, unknown) == ([(), ()], [{"name": "v"}])
    refusal = refused(spark, path, contract("decimal(38,2)"), format_name="parquet")
    assert (refusal.code, refusal.column) == ("UNREADABLE_COLUMN", "v")
    assert "60 digits" in refusal.message
    assert "60 digits" in sample_file(path).columns[1].problem


def read_rows(spark, source) -> None:
    """Read and check a delivery, and collect its rows: a task that reads a file finds a fault in the first of them."""
    delivery = read_delivery(spark, source)
    try:
        with delivery.reading():
            delivery.frame.collect()
    finally:
        delivery.release()


def test_a_corrupt_page_of_another_column_does_not_stop_a_load(spark, tmp_path):
    values = pa.array([11, 22, 33], pa.int64())
    for extra in (None, pa.array([1, 2, 3], pa.time64("us"))):
        table = pa.table({"id": IDS, "v": values} | ({} if extra is None else {"t": extra}))
        content = written(table, compression="none", use_dictionary=False, write_page_checksum=True)
        place = content.index((22).to_bytes(8, "little"))
        path = tmp_path / "a.parquet"
        path.write_bytes(content[:place] + b"\x17" + content[place + 1 :])
        assert load_file(spark, path, (ID,))[0] == [(), (), ()]
        with pytest.raises(Refusal, match="CRC") as refusal:
            read_rows(spark, source_of(path, contract("bigint"), "parquet"))
        assert refusal.value.code == "UNREADABLE_FILE"
        with pytest.raises(Refusal, match="CRC"):
            sample_file(path)


FAR = 3_000_000  # days after 1970: the year 10183


@pytest.mark.parametrize("day", [FAR, *map(by_night, (-800_000, 2_147_483_000))])
@pytest.mark.parametrize("beside", [False, True])
def test_years_outside_of_1_to_9999_are_refused(spark, tmp_path, day, beside):
    days = pa.array([1, day, None], pa.int32()).cast(pa.date32())
    columns = {"id": IDS, "v": days, "s": pa.StructArray.from_arrays([days], ["d"])}
    if beside:
        columns["t"] = pa.array([1, 2, 3], pa.time64("us"))
    path = tmp_path / "a.parquet"
    path.write_bytes(written(pa.table(columns)))
    for name, type_text in (("v", "date"), ("v", "timestamp"), ("v", "string"), ("s", "json"), ("s.d", "date")):
        refusal = refused(spark, path, contract(type_text, name), format_name="parquet")
        assert (refusal.code, refusal.row, refusal.column) == ("VALUE_DOES_NOT_FIT", 2, name)
    assert load_file(spark, path, (ID,))[0] == [(), (), ()]
    problems = [column.problem for column in sample_file(path).columns]
    assert problems[1:3] == ["row 2 has a date outside of the years 1 to 9999"] * 2


def test_timestamps_outside_of_the_years_1_to_9999_are_refused(spark, tmp_path):
    values = pa.array([1, 253_402_300_800_000_000, -62_135_596_800_000_001], pa.int64()).cast(pa.timestamp("us", "UTC"))
    refusal = refused(spark, put_table(tmp_path / "a.parquet", values), contract("timestamp"), format_name="parquet")
    assert (refusal.code, refusal.row, refusal.count) == ("VALUE_DOES_NOT_FIT", 2, 2)


def test_files_of_spark_and_of_pyarrow_form_a_single_delivery(spark, tmp_path):
    put_table(tmp_path / "day" / "1.parquet", pa.array(["x"]))
    table = pa.table({"id": pa.array([2, 3], pa.int32()), "v": pa.array([None, None], pa.null())})
    later = table.append_column("t", pa.array([1, None], pa.time64("us")))
    (tmp_path / "day" / "2.parquet").write_bytes(written(later))
    columns = (*contract("string"), DeliveredColumn("k-t", "t", "time"))
    rows, _, _ = load_file(spark, tmp_path / "day", columns)
    assert rows == [("x", None), (None, "00:00:00.000001"), (None, None)]
    put_table(tmp_path / "day" / "3.parquet", pa.array([7], pa.int64()))
    refusal = refused(spark, tmp_path / "day", columns, format_name="parquet")
    assert (refusal.code, refusal.column, refusal.file[-9:]) == ("TYPES_DIFFER", "v", "3.parquet")


def test_files_read_by_tasks_whose_names_differ_in_case_are_united(spark, tmp_path):
    (tmp_path / "day").mkdir()
    for number, (key, name) in enumerate([("id", "v"), ("ID", "V")], start=1):
        times = pa.array([1], pa.time64("us"))
        table = pa.table({key: pa.array([number], pa.int32()), name: [f"x{number}"], "t": times})
        (tmp_path / "day" / f"{number}.parquet").write_bytes(written(table))
    assert load_file(spark, tmp_path / "day", contract("string"))[0] == [("x1",), ("x2",)]


def test_refusal_in_a_file_read_by_a_task_has_the_row_number(spark, tmp_path):
    table = pa.table({"id": IDS, "v": ["1", "2", "x"], "t": pa.array([1, 2, 3], pa.time64("us"))})
    (tmp_path / "a.parquet").write_bytes(written(table, row_group_size=2))
    refusal = refused(spark, tmp_path / "a.parquet", contract("integer"), format_name="parquet")
    assert (refusal.code, refusal.row, refusal.samples) == ("VALUE_DOES_NOT_FIT", 3, ("record 3: x",))


def test_paths_lead_into_structs_of_a_file_read_by_a_task(spark, tmp_path):
    struct = pa.array([{"p": 1, "t": 1}, None], pa.struct([("p", pa.int32()), ("t", pa.time64("us"))]))
    path = put_table(tmp_path / "a.parquet", struct, "s")
    columns = (ID, DeliveredColumn("k-p", "s.p", "integer"), DeliveredColumn("k-t", "s.t", "time"))
    assert load_file(spark, path, columns)[0] == [(1, "00:00:00.000001"), (None, None)]


def test_names_with_quotes_and_dots_are_read_by_a_task(spark, tmp_path):
    path = put_table(tmp_path / "a.parquet", pa.array([1], pa.time64("us")), 'a.b "c"`')
    assert load_file(spark, path, contract("time", 'a.b "c"`'))[0] == [("00:00:00.000001",)]


def test_discover_describes_a_file_read_by_a_task(spark, tmp_path):
    path = put_table(tmp_path / "a.parquet", pa.array([1, None], pa.time64("us")))
    columns = discover(spark, str(path), "parquet")["columns"]
    assert columns == [
        {"name": "id", "type": "integer", "nullable": False},
        {"name": "v", "type": "time", "nullable": True},
    ]


def test_parquet_files_of_pandas_are_read(spark, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"id": pandas.array([1], "int32"), "v": pandas.to_datetime(["2024-01-31 10:00"])})
    frame.to_parquet(tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").field("v").type.unit == "ns"
    assert load_file(spark, tmp_path / "a.parquet", contract("timestamp"))[0] == [(dt.datetime(2024, 1, 31, 10),)]


def test_timestamps_inside_of_structs_keep_their_microseconds(spark, tmp_path):
    kind = pa.struct([("at", pa.timestamp("us", "UTC")), ("local", pa.list_(pa.timestamp("us")))])
    values = pa.array([{"at": AT, "local": [AT]}, {"at": AT.replace(microsecond=5000), "local": None}], kind)
    rows, _, _ = load_file(spark, put_table(tmp_path / "a.parquet", values), contract("json"))
    assert rows == [
        ('{"at":"2024-01-31T10:00:00.123456Z","local":["2024-01-31T10:00:00.123456"]}',),
        ('{"at":"2024-01-31T10:00:00.005Z"}',),
    ]


def test_an_error_of_a_task_is_a_refusal_with_its_file(spark, tmp_path):
    table = pa.table({"id": IDS, "v": ["x" * 1000, "y" * 1000, "z"], "t": pa.array([1, 2, 3], pa.time64("us"))})
    content = written(table, compression="snappy", use_dictionary=False)
    place = content.index(b"xxxx")
    path = tmp_path / "a.parquet"
    path.write_bytes(content[: place - 20] + b"\xff" * 40 + content[place + 20 :])
    refusal = refused(spark, path, contract("integer"), format_name="parquet")
    assert (refusal.code, refusal.file) == ("UNREADABLE_FILE", str(path))
    assert "Traceback" not in refusal.message
