"""Checks that a profile suggests."""

import pytest

from loader.domain.quality.profiles import ColumnProfile, buckets_of, suggested


def column(type_: str = "string", rows: int = 100, **values) -> ColumnProfile:
    return ColumnProfile("c", type_, rows=rows, **{"distinct": 50, **values})


@pytest.mark.parametrize(
    ("profile", "kinds"),
    [
        (column(nulls=1), []),
        (column(), ["not_null"]),
        (column(distinct=99, min_length=1, max_length=9), ["not_null", "unique"]),
        (column("integer", minimum="0", maximum="9"), ["not_null", "range"]),
        (column("integer", minimum="-1", maximum="9"), ["not_null"]),
        (column(min_length=4, max_length=4), ["not_null", "length"]),
        (column(distinct=2, top=[("a", 60), ("b", 40)], values_complete=True), ["not_null", "accepted_values"]),
        (column(hidden=True), ["not_null"]),
        (column(rows=5), []),
    ],
)
def test_a_column_suggests_checks_that_its_values_pass(profile, kinds):
    assert [item.kind for item in suggested([profile]) if item.kind != "row_count_change"] == kinds


def test_accepted_values_are_those_of_the_column():
    profile = column(distinct=2, top=[("b", 60), ("a", 40)], values_complete=True)
    (suggestion,) = [item for item in suggested([profile]) if item.kind == "accepted_values"]
    assert suggestion.arguments == {"columns": ["c"], "values": ["a", "b"]}


def test_existing_checks_and_skipped_columns_are_not_suggested_again():
    known = {("not_null", ("c",)), ("row_count_change", ())}
    assert suggested([column()], known) == []
    assert [item.kind for item in suggested([column()], skip=("c",))] == ["row_count_change"]


def test_an_empty_table_suggests_nothing():
    assert suggested([column(rows=0, distinct=0)]) == []


def test_histogram_spans_the_outer_quantiles_and_is_omitted_for_a_single_value():
    assert buckets_of(column("integer", quantiles=[0, 25, 50, 75, 100])) == (-25.0, 7.5)
    assert buckets_of(column("integer", quantiles=[5, 5, 5, 5, 5])) is None


def test_profile_survives_a_json_round_trip():
    profile = column("integer", quantiles=[1.0, 2.0], top=[("a", 1)], histogram=[1, 2])
    assert ColumnProfile.from_json(profile.as_json()) == profile
    assert profile.without_values().top == []
