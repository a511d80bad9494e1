"""Columns covered by row hashes: their record in commits, and its later use."""

from hypothesis import given
from hypothesis import strategies as st

from loader.domain.historization.hashing import HASHED, HASHED_BEFORE, hashed_notes, hashed_over, hashed_set

A, AB, B = (hashed_set([(key, "string") for key in keys]) for keys in ("a", "ab", "b"))
TEXTS = {"a": "string", "b": "string"}


def test_a_set_is_the_same_for_types_that_hash_alike():
    assert hashed_set([("a", "integer"), ("b", "date")]) == hashed_set([("b", "timestamp"), ("a", "decimal")])
    assert hashed_set([("a", "date")]) != hashed_set([("a", "string")])


def test_the_first_run_notes_its_set():
    assert hashed_notes(None, AB) == {HASHED: AB}
    assert hashed_over({HASHED: AB}, TEXTS) == [("a", "b")]


def test_a_run_over_the_same_columns_notes_the_same():
    assert hashed_notes({HASHED: AB}, AB) == {HASHED: AB}


def test_what_held_before_stays_noted_as_what_differs():
    noted = hashed_notes({HASHED: AB}, A)
    assert noted == {HASHED: A, HASHED_BEFORE: "+b:string"}
    assert hashed_over(noted, TEXTS) == [("a",), ("a", "b")]


def test_a_history_that_never_noted_its_columns_does_not_begin_to():
    assert hashed_notes({"forgotten": "2024"}, AB) == {}
    assert hashed_over({"forgotten": "2024"}, TEXTS) is None


def test_without_columns_there_is_a_set_too():
    noted = hashed_notes(hashed_notes({HASHED: ""}, A), "")
    assert noted == {HASHED: "", HASHED_BEFORE: "+a:string"}
    assert hashed_over(noted, TEXTS) == [(), ("a",)]


def test_a_hash_over_values_that_are_gone_cannot_be_told():
    noted = {HASHED: B, HASHED_BEFORE: "+a:string"}
    assert hashed_over(noted, {"b": "string"}) is None
    assert hashed_over(noted, {"a": "instant", "b": "string"}) is None
    assert hashed_over(noted, TEXTS) == [("b",), ("a", "b")]


@given(st.lists(st.frozensets(st.sampled_from("abcde")), min_size=1, max_size=8))
def test_every_set_that_ever_held_is_remembered_once(held):
    noted = None
    for keys in held:
        noted = hashed_notes(noted, hashed_set([(key, "string") for key in keys]))
    found = hashed_over(noted, dict.fromkeys("abcde", "string"))
    assert found[0] == tuple(sorted(held[-1]))
    assert sorted(found) == sorted({tuple(sorted(keys)) for keys in held})
