"""Tests of data types: spellings, normal form, Spark's names."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.types import (
    NAMES,
    DataType,
    TypeProblem,
    from_spark,
    parse,
    spark_type,
    stored_type,
)


@st.composite
def data_types(draw: st.DrawFn) -> DataType:
    name = draw(st.sampled_from(NAMES))
    if name == "string":
        return DataType(name, length=draw(st.none() | st.integers(1, 1000)))
    if name == "decimal":
        precision = draw(st.integers(1, 38))
        return DataType(name, precision=precision, scale=draw(st.integers(0, precision)))
    return DataType(name)


@given(data_types())
def test_type_round_trips_through_its_text(data_type: DataType) -> None:
    assert parse(str(data_type)) == data_type


@given(data_types())
def test_type_is_parsed_regardless_of_case_and_spaces(data_type: DataType) -> None:
    assert parse(f"  {str(data_type).upper()} ") == data_type


@given(data_types())
def test_stored_type_of_a_stored_type_is_the_same(data_type: DataType) -> None:
    assert stored_type(stored_type(data_type)) == stored_type(data_type)


@pytest.mark.parametrize(
    ("alias", "expected"),
    [
        ("int", "integer"),
        ("INT64", "bigint"),
        ("long", "bigint"),
        ("bool", "boolean"),
        ("double", "float"),
        ("double precision", "float"),
        ("text", "string"),
        ("varchar(20)", "string(20)"),
        ("character varying(7)", "string(7)"),
        ("numeric(10,2)", "decimal(10,2)"),
        ("Decimal( 10 , 2 )", "decimal(10,2)"),
        ("decimal(5)", "decimal(5,0)"),
        ("timestamptz", "timestamp"),
        ("timestamp with time zone", "timestamp"),
        ("bytea", "binary"),
        ("jsonb", "json"),
        ("guid", "uuid"),
    ],
)
def test_other_spellings_are_normalised(alias: str, expected: str) -> None:
    assert str(parse(alias)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "strin",
        "int8",
        "decimal",
        "decimal(0,0)",
        "decimal(39,1)",
        "decimal(3,4)",
        "string(0)",
        "string(-1)",
    ]
    + ["string(1,2)", "integer(5)", "array<int>", "string(10", "decimal(10;2)", "x" * 1000, "string(٣)"],
)
def test_invalid_type_is_refused(text: str) -> None:
    with pytest.raises(TypeProblem):
        parse(text)


def test_refused_type_is_reported_with_the_known_types() -> None:
    with pytest.raises(TypeProblem, match=r"'strin' is not a type; known are string, integer"):
        parse("strin")


@pytest.mark.parametrize(
    ("ours", "sparks"),
    [
        ("string", "STRING"),
        ("string(20)", "VARCHAR(20)"),
        ("integer", "INT"),
        ("bigint", "BIGINT"),
        ("decimal(10,2)", "DECIMAL(10,2)"),
        ("float", "DOUBLE"),
        ("boolean", "BOOLEAN"),
        ("date", "DATE"),
        ("timestamp", "TIMESTAMP"),
        ("binary", "BINARY"),
        ("time", "STRING"),
        ("uuid", "STRING"),
        ("json", "STRING"),
    ],
)
def test_type_is_translated_to_the_spark_name(ours: str, sparks: str) -> None:
    assert spark_type(parse(ours)) == sparks


@pytest.mark.parametrize(
    ("sparks", "ours"),
    [("int", "integer"), ("smallint", "integer"), ("float", "float"), ("decimal(10,2)", "decimal(10,2)")]
    + [("varchar(20)", "string(20)"), ("timestamp_ntz", "timestamp"), ("decimal", "decimal(10,0)")],
)
def test_sparks_types_are_read(sparks: str, ours: str) -> None:
    assert str(from_spark(sparks)) == ours


@pytest.mark.parametrize("nested", ["array<string>", "map<string,int>", "struct<a:int>", "variant"])
def test_nested_types_are_refused_by_name(nested: str) -> None:
    with pytest.raises(TypeProblem, match="cannot be held"):
        from_spark(nested)
