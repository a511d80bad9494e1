"""Changes of a history's columns: growing types, and renames that avoid name conflicts."""

from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import permutations

import pytest

from architecture.domain.type_changes import TypeChange, classify
from loader.contract.refusals import Refusal
from loader.domain.reference.batch import Columns, widening
from loader.domain.reference.values import typed
from metadata.domain.types import parse

# Values that are long, negative or at the limit of a type.
VALUES = {
    "string": ["", "a~|\\", "2024-01-01"],
    "string(3)": ["abc"],
    "string(40)": ["x" * 40],
    "integer": [0, -(2**31)],
    "bigint": [2**63 - 1, -(2**63)],
    "decimal(10,2)": [Decimal("1.10"), Decimal("-99999999.99")],
    "decimal(25,2)": [Decimal("-99999999999999999999999.99")],
    "float": [0.5, -0.0, 1e7, 1.5e-300, float("inf"), -1234567.125],
    "boolean": [True, False],
    "date": [date(2024, 3, 1), date(1, 1, 1)],
    "time": ["23:59:59.123456"],
    "timestamp": [datetime(2024, 3, 1, 10, tzinfo=UTC), datetime(2024, 3, 1, 10, 0, 0, 250000, tzinfo=UTC)],
    "binary": [b"\x00\xff"],
    "uuid": ["00000000-0000-4000-8000-000000000001"],
    "json": ['{"a": 1}'],
}
PAIRS = list(permutations(VALUES, 2))


@pytest.mark.parametrize(("stored", "wanted"), PAIRS)
def test_reference_engine_widens_the_same_types_as_a_plan(stored, wanted):
    change = classify(stored, wanted)
    assert (widening(parse(stored), parse(wanted)) is not None) == (change is TypeChange.EQUIVALENT or change.widens)


@pytest.mark.parametrize(("stored", "wanted"), [pair for pair in PAIRS if classify(*pair).widens])
def test_widening_converts_stored_values_to_the_wider_type(stored, wanted):
    convert = widening(parse(stored), parse(wanted))
    for value in VALUES[stored]:
        assert typed(convert(value), parse(wanted)) == convert(value)


@pytest.mark.parametrize(
    ("stored", "value", "text"),
    [
        ("decimal(10,2)", Decimal("5.00"), "5.00"),
        ("float", 1.0, "1.0"),
        ("float", -0.0, "0.0"),  # equal values have one text
        ("float", 0.001, "0.001"),
        ("float", 0.00012, "1.2E-4"),
        ("float", 12345678.9, "1.23456789E7"),
        ("float", 1e7, "1.0E7"),
        ("float", float("nan"), "NaN"),
        ("float", float("-inf"), "-Infinity"),
        ("timestamp", datetime(2024, 3, 1, 10, 0, 0, 250000, tzinfo=UTC), "2024-03-01 10:00:00.25"),
        ("timestamp", datetime(2024, 3, 1, tzinfo=UTC), "2024-03-01 00:00:00"),
        ("date", date(2024, 3, 1), "2024-03-01"),
        ("boolean", True, "true"),
    ],
)
def test_widening_to_text_writes_values_as_spark_does(stored, value, text):
    assert widening(parse(stored), parse("string"))(value) == text


AB = Columns({name: parse("string") for name in ("id", "a", "b")}, ("id", "a", "b"))


def test_rename_swaps_two_columns_at_once():
    assert AB.renamed(AB.moves({"a": "b", "b": "a"})).present == ("id", "b", "a")


def test_rename_to_the_name_of_a_dropped_column_retires_that_column():
    dropped, _ = AB.delivered({"id": parse("string"), "b": parse("string")})
    moves = dropped.moves({"b": "a"})
    assert moves == {"b": "a", "a": "__retired_a"}
    assert set(dropped.renamed(moves).types) == {"id", "__retired_a", "a"}
    assert dropped.renamed(moves).present == ("id", "a")


def test_repeated_renames_retire_dropped_columns_under_distinct_names():
    columns = AB
    for old in ("b", "c"):
        columns, _ = columns.delivered({"id": parse("string"), old: parse("string")})
        columns = columns.renamed(columns.moves({old: "a"}))
    assert {"__retired_a", "__retired_a_2", "a"} <= set(columns.types)


@pytest.mark.parametrize(
    ("names", "retired", "code"),
    [
        ({"a": "b"}, (), "NAME_TAKEN"),
        ({"a": "x", "b": "x"}, (), "NAME_TAKEN"),
        ({"x": "y"}, (), "UNKNOWN_COLUMN"),
        ({"a": "t"}, ("t",), "NAME_TAKEN"),
    ],
)
def test_rename_refuses_a_taken_name_and_an_unknown_column(names, retired, code):
    columns = Columns(AB.types | {"t": parse("timestamp")}, AB.present)
    with pytest.raises(Refusal) as caught:
        columns.moves(names, retired)
    assert caught.value.code == code
