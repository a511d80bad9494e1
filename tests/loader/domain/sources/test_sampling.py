"""Types, keys and evidence from a sample: every proposal fits all sampled values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.domain.sources.sampling import holds, infer, misfits, suggest_key
from metadata.domain import types as ours
from metadata.domain.sources.value_formats import ValueFormats
from metadata.domain.types import DataType, parse


def inferred_type(*values: str | None) -> str:
    return str(infer(values, len(values))[0])


def evidence(*values: str | None) -> str:
    return infer(values, len(values))[1]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "-20", "300"], "integer"),
        (["1234567890"], "bigint"),
        (["123456789012"], "bigint"),
        (["true", "FALSE"], "boolean"),
        (["0", "1"], "integer"),
        (["yes", "no"], "string"),
        (["1.5", "2"], "float"),
        (["12.50", "3.99", "-0.01"], "decimal(18,2)"),
        (["12.5", "3.9"], "float"),
        (["40.6413", "-73.77"], "float"),
        (["1e5", "1.5"], "string"),
        (["1.5e300"], "float"),
        (["2024-02-29", "2023-12-31"], "date"),
        (["2023-02-29"], "string"),
        (["2024-02-29 10:11:12", "2024-02-28"], "timestamp"),
        (["2024-02-29T10:11:12.123456Z"], "timestamp"),
        (["2024-02-29T25:11"], "string"),
        (["2024-02-29T10:11.5"], "string"),
        (["23:59", "00:00:01.5"], "time"),
        (["550e8400-e29b-41d4-a716-446655440000"], "uuid"),
        (['{"a": 1}', "[]"], "json"),
        (["{broken"], "string"),
        (["EDDF", "EDDM"], "string"),
        ([" 12"], "string"),
        ([" 2024-01-01"], "string"),
        (["٣"], "string"),
    ],
)
def test_inferred_type_is_the_narrowest_without_loss(values: list[str], expected: str):
    assert inferred_type(*values) == expected


def test_values_with_leading_zeros_are_inferred_as_string_with_evidence():
    assert inferred_type("007", "12") == "string"
    assert "'007' begins with a zero" in evidence("007", "12")


def test_numbers_beyond_the_range_of_a_float_are_inferred_as_string():
    assert infer(["1.0e999", "4.0E-999"], 2) == (parse("string"), "text, at most 8 characters long")
    assert evidence("1.5", "2.5", "1.0e999") == "2 of 3 sampled values are numbers, '1.0e999' is not"


def test_numbers_in_another_format_than_the_declared_one_are_inferred_as_string():
    formats = ValueFormats.of({"decimal_separator": ","})
    assert infer(["1.5", "2.25"], 2, formats) == (parse("string"), "text, at most 4 characters long")


def test_digits_too_long_for_a_number_are_inferred_as_string():
    assert inferred_type("9" * 25) == "string"
    assert "too long for a number" in evidence("9" * 25)


def test_evidence_of_whole_numbers_states_count_and_width():
    values = [str(number) for number in range(100_000_000_000, 100_000_002_000)]
    assert evidence(*values) == "all 2,000 sampled values are whole numbers; widest 12 digits"


def test_evidence_names_the_only_value_that_is_no_number():
    assert evidence("1", "2", "3", "n/a") == "3 of 4 sampled values are numbers, 'n/a' is not"


def test_long_values_are_cut_in_the_evidence():
    assert len(evidence("1", "2", "x" * 500)) < 120


def test_column_without_values_is_inferred_as_string():
    assert inferred_type(None, None) == "string"
    assert evidence(None, None) == "no row of the sample has a value"
    assert infer([], 0)[1] == "the sample has no rows"


def test_null_values_do_not_affect_the_inferred_type():
    assert inferred_type("1", None, "2") == "integer"


numbers = st.one_of(
    st.integers().map(str),
    st.floats().map(str),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
)
moments = st.one_of(st.dates().map(str), st.datetimes().map(str), st.times().map(str), st.uuids().map(str))
anything = st.one_of(numbers, moments, st.booleans().map(str), st.text(max_size=30))


@given(st.one_of(st.lists(numbers), st.lists(moments), st.lists(anything)))
def test_the_proposed_type_holds_every_sampled_value(values: list[str]):
    data_type, reason = infer(values, len(values))
    assert [value for value in values if not holds(data_type, value)] == []
    assert reason


@given(st.lists(st.one_of(st.none(), anything)))
def test_misfits_are_counted_as_a_load_would_refuse_them(values: list[str | None]):
    data_type = parse("integer")
    count, first = misfits(data_type, values)
    assert count == sum(1 for value in values if value is not None and not holds(data_type, value))
    assert count == 0 or not holds(data_type, first)


def test_a_decimal_has_room_for_larger_amounts_than_were_seen():
    data_type = infer(["1.00", "2.00"], 2)[0]
    assert holds(data_type, "9999999999999999.99")


def test_whole_numbers_that_may_grow_out_of_an_integer_are_bigints():
    assert infer(["2147483647"], 1)[0] == DataType(ours.BIGINT)


# --- the business key ----------------------------------------------------------------------------


def test_unique_column_without_nulls_is_suggested_as_key():
    places, why = suggest_key(["city", "icao"], [["Rome", "Rome"], ["LIRA", "LIRF"]])
    assert places == (1,)
    assert why == "all 2 sampled values are present and unique"


def test_key_suggestion_prefers_a_key_like_name_to_an_earlier_column():
    names, values = ["title", "orderId"], [["a", "b"], ["1", "2"]]
    assert suggest_key(names, values)[0] == (1,)


def test_column_with_a_null_is_not_suggested_as_key():
    assert suggest_key(["id"], [["1", None, "3"]]) == ((), "")


def test_two_columns_are_suggested_as_key_where_neither_alone_is_unique():
    places, why = suggest_key(["order_no", "line_no"], [["1", "1", "2"], ["1", "2", "1"]])
    assert places == (0, 1)
    assert "together" in why


def test_single_row_suggests_no_key():
    assert suggest_key(["id"], [["1"]]) == ((), "")


@given(
    st.integers(2, 6).flatmap(lambda width: st.lists(st.lists(anything, min_size=width, max_size=width), max_size=8))
)
def test_suggested_key_is_unique_in_all_sampled_rows(rows: list[list[str]]):
    columns = [list(column) for column in zip(*rows, strict=True)]
    places, _ = suggest_key([f"c{n}" for n in range(len(columns))], columns)
    if places:
        keys = [tuple(row[place] for place in places) for row in rows]
        assert len(set(keys)) == len(keys)
