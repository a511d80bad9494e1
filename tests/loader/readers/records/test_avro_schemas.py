"""Schemas of Avro files: names of types, and the schema that Spark is given."""

import json
from io import BytesIO
from typing import Any

import fastavro
import pytest

from loader.readers.records.avro_schemas import AvroSchema, logical_of

REPEATED = [{"name": "x", "type": "int"}, {"name": "X", "type": "int"}]
COLOUR = {"type": "enum", "name": "colour", "symbols": ["red"]}
NANOSECONDS = {"type": "long", "logicalType": "timestamp-nanos"}


def schema_of(columns: dict[str, Any], **more: str) -> AvroSchema:
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    return AvroSchema.of(json.dumps({"type": "record", "name": "row", "fields": fields} | more), "a.avro")


def record(name: str, *fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)} | more


def spark_schema(schema: AvroSchema) -> dict[str, Any]:
    """Return the schema for Spark after parsing it, which fails for a name that no type has."""
    assert schema.for_spark is not None
    fastavro.parse_schema(json.loads(schema.for_spark))
    return json.loads(schema.for_spark)


def problem(schema: AvroSchema, name: str) -> str:
    return schema.problem(next(part["type"] for part in schema.fields if part["name"] == name))


def test_definition_inside_of_a_column_without_spark_moves_to_its_first_use():
    bad = record("bad", {"name": "c", "type": COLOUR}, *REPEATED)
    parsed = spark_schema(schema_of({"s": bad, "c": ["null", "colour"], "again": "colour"}))
    (first, *_), (again,) = parsed["fields"][0]["type"][1:], [parsed["fields"][1]["type"]]
    assert [part["name"] for part in parsed["fields"]] == ["c", "again"]
    assert (first["symbols"], again) == (["red"], "colour")


def test_moved_definition_keeps_its_namespace():
    bad = record("bad", {"name": "c", "type": COLOUR}, *REPEATED, namespace="inner")
    parsed = spark_schema(schema_of({"s": bad, "c": "inner.colour"}, namespace="outer"))
    assert parsed["fields"][0]["type"]["name"] == "inner.colour"


def test_moved_definition_carries_the_definitions_inside_of_it():
    point = record("point", {"name": "c", "type": COLOUR}, {"name": "at", "type": NANOSECONDS})
    bad = record("bad", {"name": "p", "type": point}, *REPEATED)
    parsed = spark_schema(schema_of({"s": bad, "c": "colour", "p": {"type": "array", "items": "point"}}))
    colour, points = (part["type"] for part in parsed["fields"])
    assert colour["symbols"] == ["red"]
    assert [part["type"] for part in points["items"]["fields"]] == ["colour", {"type": "long"}]


def test_short_name_means_the_type_of_its_own_namespace():
    outer = record("kind", {"name": "d", "type": "int"}, namespace="a")
    inner = record("kind", {"name": "at", "type": NANOSECONDS}, namespace="b")
    user = record("user", {"name": "first", "type": inner}, {"name": "again", "type": "kind"}, namespace="b")
    schema = schema_of({"k": outer, "u": user}, namespace="a")
    (_, again) = schema.resolved(schema.fields[1]["type"])["fields"]
    assert schema.resolved(again["type"])["fields"][0]["name"] == "at"


def test_record_in_a_record_of_the_same_name_in_another_namespace_is_no_recursion():
    inner = record("kind", {"name": "d", "type": "int"}, namespace="b")
    schema = schema_of({"k": record("kind", {"name": "inner", "type": inner}, namespace="a")})
    assert problem(schema, "k") == ""


def test_schema_for_spark_can_read_the_rows_of_the_file(monkeypatch):
    # Samples register a reader of this logical type with the library; Spark reads the number.
    monkeypatch.delitem(fastavro.read.LOGICAL_READERS, "long-timestamp-nanos", raising=False)
    tree = record("tree", {"name": "left", "type": ["null", "tree"]}, {"name": "c", "type": COLOUR}, namespace="n")
    columns = {"s": record("bad", {"name": "t", "type": tree}, *REPEATED), "t": ["null", "n.tree"], "at": NANOSECONDS}
    schema = schema_of(columns, namespace="o")
    leaf = {"left": None, "c": "red"}
    stored, row = BytesIO(), {"s": {"t": leaf, "x": 1, "X": 2}, "t": {"left": leaf, "c": "red"}, "at": 5}
    fields = [{"name": name, "type": kind} for name, kind in columns.items()]
    fastavro.writer(stored, {"type": "record", "name": "row", "namespace": "o", "fields": fields}, [row])
    stored.seek(0)
    assert list(fastavro.reader(stored, spark_schema(schema))) == [{"t": row["t"], "at": 5}]


def test_aliases_are_no_names_of_columns_for_spark():
    text = {"type": "record", "name": "row", "fields": [{"name": "b", "aliases": ["a"], "type": NANOSECONDS},
                                                        {"name": "a", "type": "int"}]}  # fmt: skip
    assert "aliases" not in json.dumps(spark_schema(AvroSchema.of(json.dumps(text), "a.avro")))


def test_schema_that_spark_reads_as_it_is_stays():
    assert schema_of({"c": COLOUR, "again": "colour", "at": {"type": "int", "logicalType": "date"}}).for_spark is None


WIDE = {"type": "bytes", "logicalType": "decimal", "precision": 50, "scale": 2}


@pytest.mark.parametrize(
    "kind",
    [WIDE, {"type": "array", "items": WIDE}, record("r", {"name": "d", "type": ["null", WIDE]}), ["string", WIDE]],
    ids=["column", "array", "record", "union"],
)
def test_decimal_of_over_38_digits_is_a_problem_of_its_column_at_any_depth(kind: Any):
    assert problem(schema_of({"d": kind}), "d") == "a number of 50 digits; the most are 38"


@pytest.mark.parametrize(
    "kind",
    [
        ["null", {"type": "int", "logicalType": "date"}, "long"],
        [{"type": "int", "logicalType": "time-millis"}, {"type": "long", "logicalType": "time-micros"}],
    ],
)
def test_union_of_numbers_with_a_logical_type_is_a_problem_of_its_column(kind: Any):
    schema = schema_of({"u": kind})
    assert "union" in problem(schema, "u")
    assert schema.members(schema.fields[0]["type"]) == ["long"]


@pytest.mark.parametrize("attributes", [{"precision": "10"}, {"precision": 50, "scale": 60}, {}])
def test_invalid_decimal_type_is_read_as_bytes(attributes: dict[str, Any]):
    schema = schema_of({"d": {"type": "bytes", "logicalType": "decimal"} | attributes})
    assert (problem(schema, "d"), schema.for_spark) == ("", None)


@pytest.mark.parametrize(
    ("logical", "stored", "other"),
    [("date", "int", "long"), ("timestamp-millis", "long", "int"), ("local-timestamp-micros", "long", "string")],
)
def test_logical_type_of_a_type_that_cannot_store_it_is_ignored(logical: str, stored: str, other: str):
    assert logical_of({"type": stored, "logicalType": logical}) == logical
    assert logical_of({"type": other, "logicalType": logical}) == ""


def test_recursive_type_with_repeated_fields_is_left_out_for_spark():
    tree = record("tree", {"name": "left", "type": ["null", "tree"]}, *REPEATED)
    schema = schema_of({"t": tree, "n": "int"})
    assert problem(schema, "t") == "of a type that contains values of the same type"
    assert [part["name"] for part in spark_schema(schema)["fields"]] == ["n"]


def test_attributes_of_other_writers_are_no_types():
    kind = {"type": "string", "values": {"a": 1}, "fields": 5, "items": {"b": 2}}
    assert schema_of({"v": kind}).for_spark is None
