"""ORC and Avro deliveries: their own types, and the refusal of broken ones."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as parquet_files
import pytest
from pyarrow import orc as orc_files

from loader.contract.manifest.sources import DeliveredColumn
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.discovery import discover
from loader.sources.file_samples import sample_files
from metadata.domain.sources.locations import Roots
from tests.loader.engine.sources.deliveries import CONTRACT as TEXTS
from tests.loader.engine.sources.deliveries import KEY, refused, rows_of, source_of, tuples_of

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
EXPECTED = [("a", 1, AT, Decimal("1.50"), '["x","y"]')]


@pytest.mark.core
def test_orc_delivery_is_read_with_its_own_types(spark, tmp_path):
    assert rows_of(spark, orc(spark, tmp_path / "day", ROW), CONTRACT, format_name="orc") == EXPECTED
    discovery = discover(spark, str(tmp_path / "day"), "orc")
    assert [column["type"] for column in discovery["columns"]] == [
        "string",
        "integer",
        "timestamp",
        "decimal(10,2)",
        "json",
    ]


@pytest.mark.core
def test_avro_delivery_is_read_with_its_own_types(spark, tmp_path):
    path = avro(tmp_path / "a.avro", [record()])
    assert rows_of(spark, path, CONTRACT, format_name="avro") == EXPECTED
    discovery = discover(spark, str(path), "avro")
    assert [column["type"] for column in discovery["columns"]] == [
        "string",
        "integer",
        "timestamp",
        "decimal(10,2)",
        "json",
    ]


UNDECODED = "SELECT 'a' id, 'x' name, 1 n UNION ALL SELECT 'b', CAST(X'61FF' AS STRING), 2"


def write_with_spark(spark, path, kind, query):
    spark.sql(query).coalesce(1).write.format(kind).save(str(path))
    return path


@pytest.mark.parametrize("kind", ["orc", "delta"])
def test_text_that_is_not_utf_8_is_refused(spark, tmp_path, kind):
    refusal = refused(spark, write_with_spark(spark, tmp_path / "day", kind, UNDECODED), TEXTS, kind)
    assert (refusal.code, refusal.column, refusal.count) == ("WRONG_ENCODING", "name", 1)


def test_key_that_is_not_utf_8_is_refused_also_if_keys_are_folded(spark, tmp_path):
    path = write_with_spark(spark, tmp_path / "day", "orc", "SELECT CAST(X'C9FF' AS STRING) id, 'x' name, 1 n")
    refusal = refused(spark, path, TEXTS, "orc", fold_keys="lower", trim_keys=True)
    assert (refusal.code, refusal.column) == ("WRONG_ENCODING", "id")


def test_discovery_of_a_text_that_is_not_utf_8_is_refused(spark, tmp_path):
    with pytest.raises(Refusal) as raised:
        discover(spark, str(write_with_spark(spark, tmp_path / "day", "orc", UNDECODED)), "orc")
    assert (raised.value.code, raised.value.column, raised.value.count) == ("WRONG_ENCODING", "name", 1)


def test_row_with_a_text_that_is_not_utf_8_is_quarantined(spark, tmp_path):
    path, rejected = (
        write_with_spark(spark, tmp_path / "day", "parquet", UNDECODED.replace("'b'", "CAST(X'62FF' AS STRING)")),
        [],
    )
    source = source_of(path, TEXTS, "parquet", faulty_rows="quarantine")
    delivery = read_delivery(spark, source, reject=lambda given: rejected.extend(tuples_of(given)) or len(rejected))
    assert [tuple(row) for row in delivery.frame.collect()] == [("a", "x", 1)]
    assert [(fault.code, fault.column) for fault in delivery.faults.faults] == [
        ("WRONG_ENCODING", "id"),
        ("WRONG_ENCODING", "name"),
    ]
    delivery.release()
    assert [row[1:] for row in rejected] == [(["WRONG_ENCODING id", "WRONG_ENCODING name"], None, "b\ufffd", "2")]


def test_avro_files_of_several_schemas_are_united_by_name(spark, tmp_path):
    avro(tmp_path / "day" / "1.avro", [record()])
    later = SCHEMA | {"fields": [*reversed(SCHEMA["fields"]), {"name": "new", "type": "string"}]}
    avro(tmp_path / "day" / "2.avro", [record("b") | {"new": "x"}], later)
    delivery = read_delivery(spark, source_of(tmp_path / "day", CONTRACT, "avro"))
    assert sorted(row["id"] for row in delivery.frame.collect()) == ["a", "b"]
    assert delivery.unknown == [{"name": "new", "type": "string", "nullable_seen": True}]
    delivery.release()


def test_avro_file_without_a_column_changes_no_value_of_another_file(spark, tmp_path):
    amount = {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}
    columns = {"amount": amount, "tags": {"type": "array", "items": "string"}, "n": "int"}
    fields = [{"name": "id", "type": "string"}, *({"name": name, "type": kind} for name, kind in columns.items())]
    row = {"id": "a", "amount": Decimal("123456789012345678.91"), "tags": ["x"], "n": 1}
    avro(tmp_path / "day" / "1.avro", [row], SCHEMA | {"fields": fields})
    avro(tmp_path / "day" / "2.avro", [{"id": "b"}], SCHEMA | {"fields": fields[:1]})
    types = {"amount": "decimal(20,2)", "tags": "json", "n": "integer"}
    contract = (KEY, *(DeliveredColumn(f"k-{name}", name, kind) for name, kind in types.items()))
    assert rows_of(spark, tmp_path / "day", contract, "avro") == [
        ("a", Decimal("123456789012345678.91"), '["x"]', 1),
        ("b", None, None, None),
    ]


def test_orc_files_with_the_names_of_old_hive_are_united_by_name(spark, tmp_path):
    (tmp_path / "day").mkdir()
    orc_files.write_table(pa.table({"_col0": ["a"], "_col1": ["1"]}), str(tmp_path / "day" / "1.orc"))
    orc_files.write_table(pa.table({"_col1": ["2"], "_col0": ["b"]}), str(tmp_path / "day" / "2.orc"))
    contract = (replace(KEY, name="_col0"), DeliveredColumn("k-n", "_col1", "string"))
    assert rows_of(spark, tmp_path / "day", contract, "orc") == [("a", "1"), ("b", "2")]


OLD = [dt.date(1, 1, 1), dt.date(1582, 10, 4)]


def test_old_dates_of_orc_are_those_of_the_library_that_wrote_them(spark, tmp_path):
    times = pa.array([dt.datetime(1400, 1, 1), dt.datetime(1500, 2, 28, 12)], pa.timestamp("us"))
    orc_files.write_table(pa.table({"id": ["a", "b"], "d": OLD, "t": times}), str(tmp_path / "1.orc"))
    rows = "VALUES ('c', DATE'0001-01-01', TIMESTAMP'1500-02-28 12:00:00', 5) AS v(id, D, t, more)"
    orc(spark, tmp_path / "spark", f"SELECT * FROM {rows}")
    columns = (KEY, DeliveredColumn("k-d", "d", "date"), DeliveredColumn("k-t", "t", "timestamp"))
    expected = [("a", OLD[0], dt.datetime(1400, 1, 1)), ("b", OLD[1], dt.datetime(1500, 2, 28, 12))]
    assert rows_of(spark, tmp_path / "1.orc", columns, "orc") == expected
    (tmp_path / "spark").rename(tmp_path / "day")
    (tmp_path / "1.orc").rename(tmp_path / "day" / "1.orc")
    third = ("c", OLD[0], dt.datetime(1500, 2, 28, 12))
    assert rows_of(spark, tmp_path / "day", columns, "orc") == [*expected, third]


def test_old_dates_of_orc_beside_a_struct_that_cannot_be_read_are_those_of_its_library(spark, tmp_path):
    orc_files.write_table(pa.table({"id": ["a"], "d": OLD[:1], "s": [{"a": 1, "A": 2}]}), str(tmp_path / "1.orc"))
    columns = (KEY, DeliveredColumn("k-d", "d", "date"))
    assert rows_of(spark, tmp_path / "1.orc", columns, "orc") == [("a", OLD[0])]


def test_orc_file_without_a_column_that_can_be_read_gives_rows_without_values(spark, tmp_path):
    orc_files.write_table(pa.table({"s": [{"a": 1, "A": 2}]}), str(tmp_path / "1.orc"))
    orc_files.write_table(pa.table({"n": [7]}), str(tmp_path / "2.orc"))
    assert rows_of(spark, tmp_path, (DeliveredColumn("k-n", "n", "bigint"),), "orc") == [(7,), (None,)]


def test_avro_type_that_an_unreadable_column_defines_is_read_in_other_columns(spark, tmp_path):
    colour = {"type": "enum", "name": "colour", "symbols": ["red", "blue"]}
    fields = [{"name": "c", "type": colour}, *({"name": name, "type": "int"} for name in ("x", "X"))]
    types = {"s": {"type": "record", "name": "inner", "fields": fields}, "c": ["null", "colour"]}
    path = avro_of(tmp_path / "a.avro", types, [{"id": "a", "s": {"c": "red", "x": 1, "X": 2}, "c": "blue"}])
    assert avro_rows(spark, path, DeliveredColumn("k-c", "c", "string"))[0] == [("blue",)]


def test_avro_union_that_spark_widens_is_refused_only_if_the_contract_has_its_column(spark, tmp_path):
    types = {"u": [logical("int", "date"), "long"], "n": "int"}
    path = avro_of(tmp_path / "a.avro", types, [{"id": "a", "u": 5, "n": 7}])
    assert avro_rows(spark, path, DeliveredColumn("k-n", "n", "integer"))[0] == [(7,)]
    refusal = refused(spark, path, (KEY, DeliveredColumn("k-u", "u", "json")), "avro")
    assert (refusal.code, refusal.column) == ("UNREADABLE_COLUMN", "u")


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


@pytest.mark.parametrize("kind", ["orc", "avro", "parquet"])
def test_struct_with_fields_that_differ_in_case_is_refused_only_if_the_contract_has_its_column(spark, tmp_path, kind):
    path, row = tmp_path / f"a.{kind}", {"id": "a", "s": {"a": "x", "A": "y"}, "n": 7}
    if kind == "avro":
        inner = {"type": "record", "name": "s", "fields": [{"name": name, "type": "string"} for name in ("a", "A")]}
        kinds = {"id": "string", "s": inner, "n": "int"}
        avro(path, [row], SCHEMA | {"fields": [{"name": name, "type": of} for name, of in kinds.items()]})
    else:
        write = orc_files.write_table if kind == "orc" else parquet_files.write_table
        write(pa.table({name: [value] for name, value in row.items()}), str(path))
    number, struct = DeliveredColumn("k-n", "n", "bigint"), DeliveredColumn("k-s", "s", "json")
    assert rows_of(spark, path, (KEY, number), kind) == [("a", 7)]
    for column in (struct, replace(struct, name="s.a", type="string")):
        refusal = refused(spark, path, (KEY, column), kind)
        assert (refusal.code, refusal.column) == ("UNREADABLE_COLUMN", "s")
        assert "a struct with the fields a and A" in refusal.message
    sample = sample_files(path, kind, None, roots=Roots.of([str(tmp_path)], folder="/"))
    assert [bool(column.problem) for column in sample.columns] == [False, True, False]


def test_avro_files_whose_names_differ_in_case_are_united(spark, tmp_path):
    price = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    kinds = {"id": "string", "at": {"type": "long", "logicalType": "timestamp-nanos"}, "price": price}
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    upper = [part | {"name": part["name"].upper()} for part in fields]
    avro(tmp_path / "day" / "1.avro", [{"id": "a", "at": 1_000, "price": Decimal("1.50")}], SCHEMA | {"fields": fields})
    avro(tmp_path / "day" / "2.avro", [{"ID": "b", "AT": 2_001, "PRICE": Decimal("2.50")}], SCHEMA | {"fields": upper})
    columns = (KEY, DeliveredColumn("k-price", "price", "decimal(10,2)"), DeliveredColumn("k-at", "at", "timestamp"))
    delivery = read_delivery(spark, source_of(tmp_path / "day", columns, "avro"))
    rows = sorted(tuple(row)[:2] for row in delivery.frame.select("id", "price").collect())
    delivery.release()
    assert rows == [("a", Decimal("1.50")), ("b", Decimal("2.50"))]
    assert delivery.unknown == []
    assert any("of at have digits below microseconds" in warning for warning in delivery.warnings)


@pytest.mark.parametrize("first", [{"id": ["a"]}, {"id": ["a"], "ID": ["b"]}])
def test_orc_file_with_a_repeated_name_is_refused_by_its_own_name(spark, tmp_path, first):
    (tmp_path / "day").mkdir()
    files = [first, {"id": ["a"], "ID": ["b"]}]
    for number, columns in enumerate(files, start=1):
        orc_files.write_table(pa.table(columns), str(tmp_path / "day" / f"{number}.orc"))
    refusal = refused(spark, tmp_path / "day", (KEY,), format_name="orc")
    assert (refusal.code, refusal.column) == ("DUPLICATE_COLUMN", "id")
    assert refusal.file.endswith("1.orc" if len(first) > 1 else "2.orc")


@pytest.mark.parametrize("format_name", ["orc", "avro"])
def test_a_folder_without_files_is_refused(spark, tmp_path, format_name):
    (tmp_path / "day").mkdir()
    assert refused(spark, tmp_path / "day", (KEY,), format_name=format_name).code == "MISSING_FILE"


NESTED = "SELECT 'a' id, named_struct('p', CAST(1.5 AS decimal(10,2)), 'deep', named_struct('q', 7)) s, array(1) l"


@pytest.mark.parametrize("format_name", ["parquet", "orc", "json"])
def test_column_paths_read_fields_of_structs(spark, tmp_path, format_name):
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


def test_missing_column_is_refused_beside_a_column_of_an_unsupported_type(spark, tmp_path):
    spark.sql("SELECT 1 n, INTERVAL '1' DAY took").coalesce(1).write.parquet(str(tmp_path / "day"))
    refusal = refused(spark, tmp_path / "day", (KEY,), format_name="parquet")
    assert (refusal.code, refusal.column) == ("MISSING_COLUMN", "id")
    assert refusal.schema == ({"name": "n", "type": "integer", "declared": True}, {"name": "took", "declared": True})


def test_new_column_of_an_unsupported_type_is_described_without_a_type(spark, tmp_path):
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
    columns_with_path = (*columns, DeliveredColumn("k-s", "s", "json"))
    assert refused(spark, path, columns_with_path, format_name="jsonl").code == "NO_SUCH_PATH"
    path = put("b.jsonl", '{"id": "a", "s": {"p": 1}}\n{"id": "b", "s": 1}\n')
    refusal = refused(spark, path, columns, format_name="jsonl")
    assert (refusal.code, refusal.row) == ("BAD_JSON", 2)


# Avro: types that Spark's reader does not know


def avro_of(path, types, rows, **options):
    """Write a file with the key and a column of each type."""
    fields = [{"name": "id", "type": "string"}, *({"name": name, "type": kind} for name, kind in types.items())]
    return avro(path, rows, {"type": "record", "name": "row", "fields": fields}, **options)


def logical(base, name):
    return {"type": base, "logicalType": name}


def avro_rows(spark, path, *columns):
    delivery = read_delivery(spark, source_of(path, (KEY, *columns), "avro"))
    rows = [tuple(row)[1:] for row in delivery.frame.orderBy("id").collect()]
    delivery.release()
    return rows, delivery.warnings, [(column["name"], column.get("type")) for column in delivery.unknown]


def avro_sample(path):
    return sample_files(path, "avro", None, roots=Roots.of([str(path.parent)], folder="/"))


def test_times_and_nanoseconds_of_avro_are_read(spark, tmp_path):
    types = {
        "ms": ["null", logical("int", "time-millis")],
        "us": logical("long", "time-micros"),
        "ns": logical("long", "timestamp-nanos"),
        "local": ["null", logical("long", "local-timestamp-nanos")],
    }
    number = 1_706_695_200_123_456_000
    rows = [
        {"id": "a", "ms": dt.time(10), "us": dt.time(10, 0, 0, 500_000), "ns": number, "local": number},
        {"id": "b", "ms": None, "us": dt.time(0), "ns": -1, "local": None},
    ]
    path = avro_of(tmp_path / "a.avro", types, rows)
    columns = [DeliveredColumn(f"k-{name}", name, kind) for name, kind in
               (("ms", "time"), ("us", "time"), ("ns", "timestamp"), ("local", "timestamp"))]  # fmt: skip
    at = dt.datetime(2024, 1, 31, 10, 0, 0, 123456)
    before = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)
    expected = [("10:00:00", "10:00:00.5", at, at), (None, "00:00:00", before, None)]
    assert avro_rows(spark, path, *columns)[:2] == (
        expected,
        ("1 value of ns have digits below microseconds, which were cut.",),
    )
    unknown = [("ms", "time"), ("us", "time"), ("ns", "timestamp"), ("local", "timestamp")]
    assert avro_rows(spark, path) == ([(), ()], (), unknown)
    assert [(column.name, str(column.type)) for column in avro_sample(path).columns[1:]] == unknown


def test_times_and_nanoseconds_inside_of_avro_records_are_read(spark, tmp_path):
    inner = [
        {"name": "t", "type": ["null", logical("int", "time-millis")]},
        {"name": "at", "type": {"type": "array", "items": logical("long", "timestamp-nanos")}},
        {"name": "m", "type": {"type": "map", "values": logical("long", "time-micros")}},
    ]
    types = {"r": ["null", {"type": "record", "name": "inner", "fields": inner}]}
    values = {"t": dt.time(10), "at": [1_706_695_200_123_456_789], "m": {"k": dt.time(0, 0, 1)}}
    path = avro_of(tmp_path / "a.avro", types, [{"id": "a", "r": values}, {"id": "b", "r": None}])
    rows, warnings, _ = avro_rows(spark, path, DeliveredColumn("k-r", "r", "json"))
    assert rows == [('{"t":"10:00:00","at":["2024-01-31T10:00:00.123456Z"],"m":{"k":"00:00:01"}}',), (None,)]
    assert len(warnings) == 1
    assert avro_rows(spark, path, DeliveredColumn("k-t", "r.t", "time"))[0] == [("10:00:00",), (None,)]


def test_avro_unions_are_read_as_json(spark, tmp_path):
    point = {"type": "record", "name": "point", "fields": [{"name": "x", "type": "int"}]}
    types = {"u": ["null", "string", "int", "boolean", point], "wide": ["null", "int", "long"]}
    values = ['x "y"', 7, True, {"x": 1}, None]
    rows = [{"id": key, "u": value, "wide": 2**40} for key, value in zip("abcde", values, strict=True)]
    path = avro_of(tmp_path / "a.avro", types, rows)
    columns = DeliveredColumn("k-u", "u", "json"), DeliveredColumn("k-wide", "wide", "bigint")
    expected = ['"x \\"y\\""', "7", "true", '{"x":1}', None]
    assert avro_rows(spark, path, *columns)[0] == [(text, 2**40) for text in expected]
    assert [str(column.type) for column in avro_sample(path).columns[1:]] == ["json", "bigint"]


def test_avro_enums_are_read_as_text_also_by_reference(spark, tmp_path):
    colour = {"type": "enum", "name": "colour", "namespace": "n", "symbols": ["red", "blue"]}
    types = {"first": colour, "second": ["null", "n.colour"], "both": ["null", "n.colour", "int"]}
    rows = [{"id": "a", "first": "red", "second": "blue", "both": "red"}]
    path = avro_of(tmp_path / "a.avro", types, rows)
    columns = [DeliveredColumn(f"k-{name}", name, kind) for name, kind in
               (("first", "string"), ("second", "string"), ("both", "json"))]  # fmt: skip
    assert avro_rows(spark, path, *columns)[0] == [("red", "blue", '"red"')]
    assert [str(column.type) for column in avro_sample(path).columns[1:]] == ["string", "string", "json"]


def test_recursive_avro_type_is_refused_only_if_the_contract_has_its_column(spark, tmp_path):
    tree = {"type": "record", "name": "tree", "fields": [{"name": "left", "type": ["null", "tree"]}]}
    path = avro_of(tmp_path / "a.avro", {"t": tree}, [{"id": "a", "t": {"left": {"left": None}}}])
    assert avro_rows(spark, path) == ([()], (), [("t", None)])
    refusal = refused(spark, path, (KEY, DeliveredColumn("k-t", "t", "json")), format_name="avro")
    assert (refusal.code, refusal.column) == ("UNREADABLE_COLUMN", "t")
    assert "of the same type" in avro_sample(path).columns[1].problem


def test_avro_decimal_of_over_38_digits_is_refused_only_if_the_contract_has_its_column(spark, tmp_path):
    kind = logical("bytes", "decimal") | {"precision": 50, "scale": 2}
    path = avro_of(tmp_path / "a.avro", {"d": kind}, [{"id": "a", "d": Decimal("1.50")}])
    assert avro_rows(spark, path)[0] == [()]
    refusal = refused(spark, path, (KEY, DeliveredColumn("k-d", "d", "decimal(38,2)")), format_name="avro")
    assert (refusal.code, refusal.column) == ("UNREADABLE_COLUMN", "d")
    assert "50 digits" in avro_sample(path).columns[1].problem


@pytest.mark.parametrize("codec", ["null", "deflate", "snappy", "zstandard", "bzip2", "xz"])
def test_avro_of_every_compression_is_sampled_and_loaded(spark, tmp_path, codec):
    path = tmp_path / "a.avro"
    frame = spark.sql("SELECT 'a' id, 'x' v UNION ALL SELECT 'b', repeat('y', 1000)").coalesce(1)
    compression = "uncompressed" if codec == "null" else codec
    frame.write.format("avro").option("compression", compression).save(str(tmp_path / "d"))
    path.write_bytes(next((tmp_path / "d").glob("*.avro")).read_bytes())
    assert sorted(avro_rows(spark, path, DeliveredColumn("k-v", "v", "string"))[0]) == [("x",), ("y" * 1000,)]
    assert sorted(avro_sample(path).values[1]) == ["x", "y" * 1000]


def test_a_block_of_avro_with_a_wrong_checksum_is_refused(spark, tmp_path):
    spark.sql("SELECT 'a' id, repeat('y', 100) v").coalesce(1).write.format("avro").save(str(tmp_path / "d"))
    content = next((tmp_path / "d").glob("*.avro")).read_bytes()
    place = content.rindex(b"y")
    (tmp_path / "a.avro").write_bytes(content[:place] + b"z" + content[place + 1 :])
    with pytest.raises(Refusal) as refusal:
        avro_sample(tmp_path / "a.avro")
    assert refusal.value.code == "UNREADABLE_FILE"
    columns = (KEY, DeliveredColumn("k-v", "v", "integer"))
    assert refused(spark, tmp_path / "a.avro", columns, format_name="avro").code == "UNREADABLE_FILE"


@pytest.mark.parametrize("schema", ["int", ["null", "string"], {"type": "array", "items": "int"}])
def test_avro_file_whose_values_are_no_records_is_refused(spark, tmp_path, schema):
    path = avro(tmp_path / "a.avro", [], schema)
    refusal = refused(spark, path, (KEY,), format_name="avro")
    assert (refusal.code, "not records" in refusal.message) == ("NOT_RECORDS", True)
    with pytest.raises(Refusal) as sampled:
        avro_sample(path)
    assert sampled.value.code == "NOT_RECORDS"


@pytest.mark.parametrize("day", [3_000_000, -800_000])
def test_years_outside_of_1_to_9999_in_avro_are_refused(spark, tmp_path, day):
    path = avro_of(tmp_path / "a.avro", {"d": logical("int", "date")}, [{"id": "a", "d": day}])
    refusal = refused(spark, path, (KEY, DeliveredColumn("k-d", "d", "date")), format_name="avro")
    assert (refusal.code, refusal.row, refusal.column) == ("VALUE_DOES_NOT_FIT", 1, "d")
    assert avro_sample(path).columns[1].problem == "row 1 has a date outside of the years 1 to 9999"
    assert avro_rows(spark, path)[0] == [()]
