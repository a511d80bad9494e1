"""Tests of moving a column within the order of its dataset's columns."""

from hypothesis import given
from hypothesis import strategies as st

from metadata.domain.grid import moved_item

# Keys are upper case, attributes lower case: a column moves among columns of the same kind.
ORDERS = st.lists(st.sampled_from("ABCabcdef"), unique=True, min_size=1)


def moved_within_kind(order: list[str], item: str, by: int) -> list[str]:
    return moved_item(order, item, by, lambda other: other.isupper() == item.isupper())


def same_kind(order: list[str], item: str) -> list[str]:
    return [name for name in order if name.isupper() == item.isupper()]


@given(ORDERS, st.data(), st.integers(-10, 10))
def test_moved_column_takes_the_wanted_position_and_keeps_the_order_of_others(order: list[str], data, by: int) -> None:
    item = data.draw(st.sampled_from(order))
    result = moved_within_kind(order, item, by)
    assert sorted(result) == sorted(order)
    assert [name for name in result if name != item] == [name for name in order if name != item]
    places = same_kind(order, item)
    assert same_kind(result, item).index(item) == min(max(places.index(item) + by, 0), len(places) - 1)


@given(ORDERS, st.data())
def test_moving_by_zero_changes_nothing(order: list[str], data) -> None:
    assert moved_within_kind(order, data.draw(st.sampled_from(order)), 0) == order


def test_moved_column_skips_columns_of_another_kind() -> None:
    assert moved_within_kind(list("aKb"), "a", 1) == list("Kba")
    assert moved_within_kind(list("aKb"), "b", -1) == list("baK")
