"""Tests of the names of delivered columns in stage and rawcore."""

from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.naming import target_names

RESERVED = ("row_hash", "load_run_id")


def names(*columns: tuple[str, str]) -> list[str]:
    return target_names(columns, RESERVED)


def test_target_names_are_readable_and_numbered_if_equal():
    assert names(("Order No", ""), ("order-no", ""), ("order_no", "")) == ["order_no_2", "order_no_3", "order_no"]


def test_requested_target_name_has_precedence():
    assert names(("customer", ""), ("id", "customer")) == ["customer_2", "customer"]


def test_name_of_a_technical_column_is_numbered():
    assert names(("row_hash", ""), ("x", "LOAD_RUN_ID")) == ["row_hash_2", "LOAD_RUN_ID_2"]


columns = st.lists(st.tuples(st.text(max_size=20), st.one_of(st.just(""), st.text(min_size=1, max_size=20))))


@given(columns)
def test_target_names_are_unique_and_not_reserved(given_columns: list[tuple[str, str]]):
    targets = [name.lower() for name in target_names(given_columns, RESERVED)]
    assert len(set(targets)) == len(given_columns)
    assert not set(targets) & set(RESERVED)
