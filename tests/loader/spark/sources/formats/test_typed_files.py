"""ORC and Avro deliveries: their own types, and the refusal of broken ones."""

import datetime as dt
from decimal import Decimal

import fastavro
import pytest

from loader.domain.manifest.sources import DeliveredColumn
from loader.spark.sources.deliveries import discover, read_delivery
from tests.loader.spark.sources.test_deliveries import KEY, refused, rows_of, source_of

pytestmark = pytest.mark.spark

CONTRACT = (
    KEY,
    DeliveredColumn("k-n", "n", "bigint"),
    DeliveredColumn("k-at", "at", "timestamp"),
    DeliveredColumn("k-price", "price", "decimal(10,2)"),
    DeliveredColumn("k-tags", "tags", "json"),
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5)
SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}


def avro(path, rows, schema=SCHEMA, **options):
    path.parent.mkdir(exist_ok=True, parents=True)
    with path.open("wb") as file:
        fastavro.writer(file, schema, rows, **options)
    return path


def record(key="a", n=1):
    return {"id": key, "n": n, "at": AT.replace(tzinfo=dt.UTC), "price": Decimal("1.50"), "tags": ["x", "y"]}


def orc(spark, path, query):
    spark.sql(query).coalesce(1).write.orc(str(path))
    return path


ROW = "SELECT 'a' id, 1 n, TIMESTAMP'2026-01-02 03:04:05' at, CAST(1.5 AS decimal(10,2)) price, array('x', 'y') tags"
TYPES = ["string", "integer", "timestamp", "decimal(10,2)", "json"]
EXPECTED = [("a", 1, AT, Decimal("1.50"), '["x","y"]')]


def test_orc(spark, tmp_path):
    assert rows_of(spark, orc(spark, tmp_path / "day", ROW), CONTRACT, format_name="orc") == EXPECTED
    found = discover(spark, str(tmp_path / "day"), "orc")
    assert [column["type"] for column in found["columns"]] == [
        "string",
        "integer",
        "timestamp",
        "decimal(10,2)",
        "json",
    ]


def test_avro(spark, tmp_path):
    path = avro(tmp_path / "a.avro", [record()])
    assert rows_of(spark, path, CONTRACT, format_name="avro") == EXPECTED
    found = discover(spark, str(path), "avro")
    assert [column["type"] for column in found["columns"]] == [
        "string",
        "integer",
        "timestamp",
        "decimal(10,2)",
        "json",
    ]


def test_avro_files_of_several_schemas_are_united_by_name(spark, tmp_path):
    avro(tmp_path / "day" / "1.avro", [record()])
    later = SCHEMA | {"fields": [*reversed(SCHEMA["fields"]), {"name": "new", "type": "string"}]}
    avro(tmp_path / "day" / "2.avro", [record("b") | {"new": "x"}], later)
    delivery = read_delivery(spark, source_of(tmp_path / "day", CONTRACT, "avro"))
    assert sorted(row["id"] for row in delivery.frame.collect()) == ["a", "b"]
    assert delivery.unknown == [{"name": "new", "type": "string", "nullable_seen": True}]
    delivery.release()


def test_avro_files_whose_types_differ_are_refused(spark, tmp_path):
    avro(tmp_path / "day" / "1.avro", [record()])
    fields = [field | ({"type": "string"} if field["name"] == "n" else {}) for field in SCHEMA["fields"]]
    avro(tmp_path / "day" / "2.avro", [record() | {"n": "1"}], SCHEMA | {"fields": fields})
    refusal = refused(spark, tmp_path / "day", CONTRACT, format_name="avro")
    assert (refusal.code, refusal.column, refusal.file[-6:]) == ("TYPES_DIFFER", "n", "2.avro")


def test_a_value_that_does_not_fit_is_refused_with_its_record(spark, tmp_path):
    columns = (KEY, DeliveredColumn("k-n", "n", "boolean"))
    path = avro(tmp_path / "a.avro", [record(n=None), record("b")])
    refusal = refused(spark, path, columns, format_name="avro")
    assert (refusal.code, refusal.row, refusal.column, refusal.samples) == (
        "VALUE_DOES_NOT_FIT",
        2,
        "n",
        ("record 2: 1",),
    )
    orc(spark, tmp_path / "day", f"{ROW} UNION ALL SELECT 'b', 2, null, null, null")
    refusal = refused(spark, tmp_path / "day", (KEY, DeliveredColumn("k-p", "price", "integer")), format_name="orc")
    assert (refusal.code, refusal.row, refusal.column) == ("VALUE_DOES_NOT_FIT", 1, "price")


@pytest.mark.parametrize("format_name", ["orc", "avro"])
@pytest.mark.parametrize("part", [0.0, 0.02, 0.9, 0.999])
def test_a_cut_file_is_refused(spark, tmp_path, format_name, part):
    if format_name == "orc":
        folder = orc(spark, tmp_path / "whole", "SELECT uuid() id, id n FROM range(2000)")
        (file,) = folder.glob("*.orc")
    else:
        file = avro(tmp_path / "a.avro", [record(str(n)) for n in range(2000)], codec="deflate")
    content = file.read_bytes()
    cut = tmp_path / f"cut.{format_name}"
    cut.write_bytes(content[: int(len(content) * part)])
    refusal = refused(spark, cut, (KEY, DeliveredColumn("k-n", "n", "bigint")), format_name=format_name)
    assert refusal.code == "UNREADABLE_FILE"
    assert refusal.file.endswith(f"cut.{format_name}")


@pytest.mark.parametrize("format_name", ["orc", "avro"])
def test_names_that_differ_by_case_from_the_contract_are_refused(spark, tmp_path, format_name):
    if format_name == "orc":
        orc(spark, tmp_path / "day", "SELECT 'a' ID, 1 n")
    else:
        fields = [{"name": "ID", "type": "string"}, {"name": "n", "type": "int"}]
        avro(tmp_path / "day" / "a.avro", [{"ID": "a", "n": 1}], SCHEMA | {"fields": fields})
    refusal = refused(spark, tmp_path / "day", (KEY,), format_name=format_name)
    assert (refusal.code, refusal.column) == ("MISSING_COLUMN", "id")
    assert "ID is delivered instead of id" in refusal.hint


def test_avro_names_that_differ_by_case_only_are_refused(spark, tmp_path):
    fields = [{"name": name, "type": "string"} for name in ("id", "ID")]
    path = avro(tmp_path / "a.avro", [{"id": "a", "ID": "b"}], SCHEMA | {"fields": fields})
    assert refused(spark, path, (KEY,), format_name="avro").code in ("UNREADABLE_FILE", "DUPLICATE_COLUMN")


@pytest.mark.parametrize("format_name", ["orc", "avro"])
def test_a_folder_without_files_is_refused(spark, tmp_path, format_name):
    (tmp_path / "day").mkdir()
    assert refused(spark, tmp_path / "day", (KEY,), format_name=format_name).code == "MISSING_FILE"


NESTED = "SELECT 'a' id, named_struct('p', CAST(1.5 AS decimal(10,2)), 'deep', named_struct('q', 7)) s, array(1) l"


@pytest.mark.parametrize("format_name", ["parquet", "orc", "json"])
def test_columns_with_a_path_are_fields_of_structs(spark, tmp_path, format_name):
    spark.sql(NESTED).coalesce(1).write.format(format_name).save(str(tmp_path / "day"))
    kind = "jsonl" if format_name == "json" else format_name
    columns = (KEY, DeliveredColumn("k-p", "s.p", "decimal(10,2)"), DeliveredColumn("k-q", "s.deep.q", "string"))
    delivery = read_delivery(spark, source_of(tmp_path / "day", columns, kind))
    price = "1.50" if kind == "jsonl" else Decimal("1.50")
    assert [tuple(row) for row in delivery.frame.collect()] == [("a", price, "7")]
    assert [column["name"] for column in delivery.unknown] == ["l"]
    delivery.release()
    missing = refused(spark, tmp_path / "day", (KEY, DeliveredColumn("k-x", "s.x", "string")), format_name=kind)
    assert (missing.code, missing.column) == ("MISSING_COLUMN", "s.x")


def test_a_missing_column_is_refused_beside_a_column_of_a_type_that_no_table_has(spark, tmp_path):
    spark.sql("SELECT 1 n, INTERVAL '1' DAY took").coalesce(1).write.parquet(str(tmp_path / "day"))
    refusal = refused(spark, tmp_path / "day", (KEY,), format_name="parquet")
    assert (refusal.code, refusal.column) == ("MISSING_COLUMN", "id")
    assert refusal.schema == ({"name": "n", "type": "integer", "declared": True}, {"name": "took", "declared": True})


def test_a_new_column_of_a_type_that_no_table_has_is_described_without_one(spark, tmp_path):
    spark.sql("SELECT 'a' id, 1 n, INTERVAL '1' DAY took").coalesce(1).write.parquet(str(tmp_path / "day"))
    delivery = read_delivery(spark, source_of(tmp_path / "day", (KEY,), "parquet"))
    assert [(column["name"], column.get("type")) for column in delivery.unknown] == [("n", "integer"), ("took", None)]
    delivery.release()


def test_a_path_into_a_list_is_refused(spark, tmp_path):
    path = orc(spark, tmp_path / "day", NESTED)
    refusal = refused(spark, path, (KEY, DeliveredColumn("k-x", "l.x", "string")), format_name="orc")
    assert (refusal.code, refusal.column) == ("NO_SUCH_PATH", "l.x")


def test_json_lines_keep_the_digits_of_a_value_inside_an_object(spark, put):
    path = put("a.jsonl", '{"id": "a", "s": {"p": 12345678901234567890.10}}\n{"id": "b", "s": null}\n')
    columns = (KEY, DeliveredColumn("k-p", "s.p", "decimal(38,2)"))
    delivery = read_delivery(spark, source_of(path, columns, "jsonl"))
    assert sorted(map(tuple, delivery.frame.collect()), key=str) == [("a", "12345678901234567890.10"), ("b", None)]
    delivery.release()
    both = (*columns, DeliveredColumn("k-s", "s", "json"))
    assert refused(spark, path, both, format_name="jsonl").code == "NO_SUCH_PATH"
    path = put("b.jsonl", '{"id": "a", "s": {"p": 1}}\n{"id": "b", "s": 1}\n')
    refusal = refused(spark, path, columns, format_name="jsonl")
    assert (refusal.code, refusal.row) == ("BAD_JSON", 2)
