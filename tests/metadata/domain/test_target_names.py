"""Tests of the names of delivered columns in stage and rawcore."""

from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.naming import target_names

RESERVED = ("row_hash", "load_run_id")


def names(*columns: tuple[str, str]) -> list[str]:
    return target_names(columns, RESERVED)


def test_names_are_made_readable_and_parted_where_they_meet():
    assert names(("Order No", ""), ("order-no", ""), ("order_no", "")) == ["order_no_2", "order_no_3", "order_no"]


def test_a_wanted_name_goes_before_all_others():
    assert names(("customer", ""), ("id", "customer")) == ["customer_2", "customer"]


def test_a_technical_columns_name_is_never_taken():
    assert names(("row_hash", ""), ("x", "LOAD_RUN_ID")) == ["row_hash_2", "LOAD_RUN_ID_2"]


columns = st.lists(st.tuples(st.text(max_size=20), st.one_of(st.just(""), st.text(min_size=1, max_size=20))))


@given(columns)
def test_no_name_is_there_twice_or_reserved(given_columns: list[tuple[str, str]]):
    found = [name.lower() for name in target_names(given_columns, RESERVED)]
    assert len(set(found)) == len(given_columns)
    assert not set(found) & set(RESERVED)
