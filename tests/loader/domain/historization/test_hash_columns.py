"""Columns covered by row hashes: their record in commits, and its later use."""

from hypothesis import given
from hypothesis import strategies as st

from loader.domain.historization.hash_coverage import HASHED, HASHED_BEFORE, hashed_notes, hashed_over, hashed_set

A, AB, B = (hashed_set([(key, "string") for key in keys]) for keys in ("a", "ab", "b"))
TEXTS = {"a": "string", "b": "string"}


def test_hashed_set_is_the_same_for_types_that_hash_alike():
    assert hashed_set([("a", "integer"), ("b", "date")]) == hashed_set([("b", "timestamp"), ("a", "decimal")])
    assert hashed_set([("a", "date")]) != hashed_set([("a", "string")])


def test_first_run_records_its_hashed_columns():
    assert hashed_notes(None, AB) == {HASHED: AB}
    assert hashed_over({HASHED: AB}, TEXTS) == [("a", "b")]


def test_run_over_the_same_columns_keeps_the_recorded_set():
    assert hashed_notes({HASHED: AB}, AB) == {HASHED: AB}


def test_earlier_hashed_columns_are_recorded_as_differences():
    notes = hashed_notes({HASHED: AB}, A)
    assert notes == {HASHED: A, HASHED_BEFORE: "+b:string"}
    assert hashed_over(notes, TEXTS) == [("a",), ("a", "b")]


def test_history_without_recorded_columns_records_none():
    assert hashed_notes({"forgotten": "2024"}, AB) == {}
    assert hashed_over({"forgotten": "2024"}, TEXTS) is None


def test_empty_column_set_is_recorded_too():
    notes = hashed_notes(hashed_notes({HASHED: ""}, A), "")
    assert notes == {HASHED: "", HASHED_BEFORE: "+a:string"}
    assert hashed_over(notes, TEXTS) == [(), ("a",)]


def test_earlier_hash_is_unknown_when_its_columns_are_gone_or_retyped():
    notes = {HASHED: B, HASHED_BEFORE: "+a:string"}
    assert hashed_over(notes, {"b": "string"}) is None
    assert hashed_over(notes, {"a": "instant", "b": "string"}) is None
    assert hashed_over(notes, TEXTS) == [("b",), ("a", "b")]


@given(st.lists(st.frozensets(st.sampled_from("abcde")), min_size=1, max_size=8))
def test_each_column_set_that_was_ever_used_is_recorded_once(column_sets):
    notes = None
    for keys in column_sets:
        notes = hashed_notes(notes, hashed_set([(key, "string") for key in keys]))
    columns = hashed_over(notes, dict.fromkeys("abcde", "string"))
    assert columns[0] == tuple(sorted(column_sets[-1]))
    assert sorted(columns) == sorted({tuple(sorted(keys)) for keys in column_sets})
