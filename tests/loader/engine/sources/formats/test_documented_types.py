"""Each line of the documentation's table of types in Parquet and Avro, sampled and loaded."""

import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from loader.sources.file_samples import sample_files
from metadata.domain.sources.locations import Roots
from tests.loader.engine.sources.deliveries import source_of
from tests.loader.parquet_bytes import (
    GEOGRAPHY,
    GEOMETRY,
    UNKNOWN,
    undecoded,
    with_decimals_in_bytes,
    with_encrypted_column,
    with_former_lz4,
    with_logical_type,
    written,
)

PAGE = Path(__file__).resolve().parents[5] / "docs" / "understand" / "file_formats.md"
TABLE = re.search(r"<!-- typed -->(.*)<!-- /typed -->", PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
LINES = [tuple(cell.strip() for cell in line.strip("| ").split("|")) for line in TABLE.strip().splitlines()[2:]]
# A content of a file, and the value of the column ``v`` in its one row; for a refusal the type of the contract.
Example = tuple[bytes, Any]
ID = DeliveredColumn("k-id", "id", "integer", nullable=False, business_key=True)
POINT = b"\x01\x01\x00\x00\x00" + b"\x00" * 16
AT = dt.datetime(2024, 1, 31, 10, 0, 0, 123456)
NANOSECONDS = 1_706_695_200_123_456_789
CUT = "1 value of v have digits below microseconds, which were cut."


def parquet(values: pa.Array, **options: Any) -> bytes:
    return written(pa.table({"id": pa.array([1], pa.int32()), "v": values}), **options)


def corrupt() -> bytes:
    content = parquet(pa.array([22], pa.int64()), compression="none", use_dictionary=False, write_page_checksum=True,
                      write_statistics=False)  # fmt: skip
    return content.replace((22).to_bytes(8, "little"), (23).to_bytes(8, "little"))


def maps_of(kind: pa.DataType, key: Any) -> pa.Array:
    return pa.array([[(key, 1)]], pa.map_(kind, pa.int32()))


def packed(compression: str) -> Example:
    return parquet(pa.array(["x" * 100]), compression=compression), "x" * 100


def uuid() -> Example:
    stored = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(range(16))], pa.binary(16)))
    return parquet(stored), "00010203-0405-0607-0809-0a0b0c0d0e0f"


def avro(kind: Any, value: Any, expected: Any) -> Callable[..., Example]:
    def write(folder: Path, _: Any) -> Example:
        fields = [{"name": "id", "type": "int"}, {"name": "v", "type": kind}]
        schema, rows = {"type": "record", "name": "row", "fields": fields}, [{"id": 1, "v": value}]
        with (folder / "written").open("wb") as file:
            fastavro.writer(file, schema, rows)
        return (folder / "written").read_bytes(), expected

    return write


def avro_of_spark(codec: str) -> Callable[..., Example]:
    def write(folder: Path, spark: Any) -> Example:
        frame = spark.sql("SELECT 1 id, repeat('x', 100) v").coalesce(1).write.format("avro")
        frame.option("compression", codec).save(str(folder / codec))
        return next((folder / codec).glob("*.avro")).read_bytes(), "x" * 100

    return write


def no_records(folder: Path, _: Any) -> Example:
    with (folder / "written").open("wb") as file:
        fastavro.writer(file, "int", [1])
    return (folder / "written").read_bytes(), "integer"


def two_cases(folder: Path, _: Any) -> Example:
    fields = [{"name": name, "type": "int"} for name in ("id", "v", "V")]
    with (folder / "written").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, [{"id": 1, "v": 2, "V": 3}])
    return (folder / "written").read_bytes(), "integer"


def undecoded_avro(folder: Path, spark: Any) -> Example:
    content, _ = avro("string", "text", "string")(folder, spark)
    return content.replace(b"\x08text", b"\x08te\xfft"), "string"


def logical(base: str, name: str, **more: int) -> dict[str, Any]:
    return {"type": base, "logicalType": name} | more


IDS = pa.array([1], pa.int32())
UNDECODED = undecoded(b"te\xfft")
FAR = pa.array([3_000_000], pa.int32()).cast(pa.date32())
TREE = {"type": "record", "name": "tree", "fields": [{"name": "left", "type": ["null", "tree"]}]}
COLOUR = {"type": "enum", "name": "colour", "symbols": ["red"]}
INNER = {"type": "record", "name": "inner", "fields": [{"name": "a", "type": {"type": "array", "items": "int"}}]}
EXAMPLES: dict[tuple[str, str], list[Any]] = {
    ("Parquet", "timestamps with nanoseconds"): [(parquet(pa.array([NANOSECONDS], pa.timestamp("ns"))), AT)],
    ("Parquet", "times of day, with or without nanoseconds"): [
        (parquet(pa.array([1_000_001_001], pa.time64("ns"))), "00:00:01.000001"),
        (parquet(pa.array([1_000_001], pa.time64("us"))), "00:00:01.000001"),
        (parquet(pa.array([1_001], pa.time32("ms"))), "00:00:01.001"),
    ],
    ("Parquet", "half floats"): [(parquet(pa.array([1.5], pa.float16())), 1.5)],
    ("Parquet", "unsigned numbers of 64 bits"): [(parquet(pa.array([2**64 - 1], pa.uint64())), Decimal(2**64 - 1))],
    ("Parquet", "UUIDs"): [uuid()],
    ("Parquet", "geometries and geographies"): [
        (with_logical_type([1], "v", [POINT], number), POINT) for number in (GEOMETRY, GEOGRAPHY)
    ],
    ("Parquet", "bytes of an unknown logical type"): [(with_logical_type([1], "v", [POINT], UNKNOWN), POINT)],
    ("Parquet", "decimals in byte arrays"): [(with_decimals_in_bytes([1], "v", [-150]), Decimal("-1.50"))],
    ("Parquet", "decimals of more than 38 digits"): [
        (parquet(pa.array([Decimal(1)], pa.decimal256(39, 0))), "decimal(38,0)")
    ],
    ("Parquet", "lists, structs and maps"): [
        (parquet(pa.array([[1, None]])), "[1,null]"),
        (parquet(pa.array([{"a": 1}])), '{"a":1}'),
        (parquet(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))), '{"a":1}'),
    ],
    ("Parquet", "keys of maps that are dates, times or bytes"): [
        (parquet(maps_of(pa.date32(), AT.date())), '{"2024-01-31":1}'),
        (parquet(maps_of(pa.timestamp("us", "UTC"), AT)), '{"2024-01-31T10:00:00.123456Z":1}'),
        (parquet(maps_of(pa.timestamp("us"), AT)), '{"2024-01-31T10:00:00.123456":1}'),
        (parquet(maps_of(pa.binary(), b"ab")), '{"YWI=":1}'),
        (parquet(pa.array([[[(AT.date(), 1)]]], pa.list_(maps_of(pa.date32(), AT.date()).type))), '[{"2024-01-31":1}]'),
    ],
    ("Parquet", "keys of maps that are lists, structs or maps"): [
        (parquet(maps_of(pa.list_(pa.int32()), [1, 2])), '[{"key":[1,2],"value":1}]'),
    ],
    ("Parquet", "the encoding BYTE_STREAM_SPLIT"): [
        (parquet(pa.array([1.5]), use_dictionary=False, column_encoding={"v": "BYTE_STREAM_SPLIT"}), 1.5)
    ],
    ("Parquet", "the compressions LZ4 (both framings), Brotli, Gzip, Snappy, Zstandard"): [
        *(packed(name) for name in ("lz4", "brotli", "gzip", "snappy", "zstd")),
        (with_former_lz4(pa.table({"id": pa.array([1], pa.int32()), "v": ["x" * 100]})), "x" * 100),
    ],
    ("Parquet", "a page whose checksum is wrong"): [(corrupt(), "bigint")],
    ("Parquet", "dates outside of the years 1 to 9999, also inside of structs"): [
        (parquet(FAR), "date"),
        (parquet(pa.StructArray.from_arrays([FAR], ["d"])), "json"),
    ],
    ("Parquet", "texts that are not UTF-8, also inside of structs and lists"): [
        (parquet(UNDECODED), "string"),
        (parquet(UNDECODED, compression="lz4"), "string"),
        (parquet(UNDECODED, compression="brotli"), "string"),
        (parquet(pa.StructArray.from_arrays([UNDECODED], ["a"])), "json"),
        (parquet(pa.ListArray.from_arrays([0, 1], UNDECODED)), "json"),
    ],
    ("Parquet", "encrypted columns"): [(with_encrypted_column(pa.table({"id": IDS, "v": ["a"]}), "v"), "string")],
    ("Parquet", "two columns of one name, also if only their case differs"): [
        (written(pa.Table.from_arrays([IDS, IDS, IDS], ["id", "v", name])), "integer") for name in "vV"
    ],
    ("Avro", "times of day, in milliseconds or microseconds"): [
        avro(logical("int", "time-millis"), dt.time(10), "10:00:00"),
        avro(["null", logical("long", "time-micros")], dt.time(10, 0, 0, 5), "10:00:00.000005"),
    ],
    ("Avro", "timestamps with nanoseconds"): [avro(logical("long", "timestamp-nanos"), NANOSECONDS, AT)],
    ("Avro", "enums"): [avro(["null", COLOUR], "red", "red")],
    ("Avro", "unions of several types besides null"): [avro(["null", "string", "int"], "x", '"x"')],
    ("Avro", "unions of int and long"): [avro(["int", "long"], 7, 7)],
    ("Avro", "records, arrays and maps"): [avro(["null", INNER], {"a": [1]}, '{"a":[1]}')],
    ("Avro", "the compressions Snappy, Deflate, Zstandard, Bzip2, XZ"): [
        avro_of_spark(name) for name in ("snappy", "deflate", "zstandard", "bzip2", "xz")
    ],
    ("Avro", "decimals of more than 38 digits"): [
        avro(logical("bytes", "decimal", precision=39), Decimal(1), "decimal(38,0)")
    ],
    ("Avro", "records inside of themselves"): [avro(TREE, {"left": None}, "json")],
    ("Avro", "values that are no records"): [no_records],
    ("Avro", "two columns whose names differ in case only"): [two_cases],
    ("Avro", "texts that are not UTF-8"): [undecoded_avro],
    ("Avro", "dates outside of the years 1 to 9999"): [avro(logical("int", "date"), 3_000_000, "date")],
}


def test_every_documented_type_has_an_example():
    assert [line[:2] for line in LINES] == list(EXAMPLES)


@pytest.mark.spark
@pytest.mark.parametrize("line", LINES, ids=lambda line: f"{line[0]} {line[1]}")
def test_documented_type_is_sampled_and_loaded_as_stated(spark, tmp_path, line):
    format_name, text = line[0].lower(), line[2]
    stated = re.findall(r"`([^`]+)`", text)[0]
    for place, example in enumerate(EXAMPLES[line[:2]]):
        content, expected = example(tmp_path, spark) if callable(example) else example
        path = tmp_path / f"{place}.{format_name}"
        path.write_bytes(content)
        if text.startswith("refused"):
            assert _refused(spark, path, format_name, expected) == stated
        else:
            _loaded(spark, path, format_name, stated, expected, is_cut="cut" in text)


def _sample(path: Path, format_name: str):
    return sample_files(path, format_name, None, roots=Roots.of([str(path.parent)], folder="/"))


def _loaded(spark, path, format_name, type_text, expected, *, is_cut):
    column = next(column for column in _sample(path, format_name).columns if column.name == "v")
    assert (str(column.type), column.problem) == (type_text, "")
    source = source_of(path, (ID, DeliveredColumn("k-v", "v", type_text)), format_name)
    delivery = read_delivery(spark, source)
    assert [tuple(row) for row in delivery.frame.collect()] == [(1, expected)]
    assert delivery.warnings in ([(CUT,), ()] if is_cut else [()])
    delivery.release()


def _refused(spark, path, format_name, type_text) -> str:
    """Return the code of the load's refusal; the sample refuses the file, or has a problem of its column."""
    assert _sampled_problem(path, format_name)
    source = source_of(path, (ID, DeliveredColumn("k-v", "v", type_text)), format_name)
    with pytest.raises(Refusal) as refused:
        _read(spark, source)
    return refused.value.code


def _sampled_problem(path: Path, format_name: str) -> str:
    """Return the code of the sample's refusal, or the problem of its column."""
    try:
        return next(column.problem for column in _sample(path, format_name).columns if column.name == "v")
    except Refusal as refusal:
        return refusal.code


def _read(spark, source) -> None:
    delivery = read_delivery(spark, source)
    with delivery.reading():
        delivery.frame.collect()
