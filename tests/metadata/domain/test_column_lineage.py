"""Cycles of flows between columns."""

from metadata.domain.column_lineage import cycles


def flows(text: str) -> list[tuple[str, str]]:
    return [(pair[0], pair[1]) for pair in text.split()]


def test_flows_in_one_direction_have_no_cycle():
    assert cycles(flows("ab bc ac cd")) == []


def test_a_cycle_is_given_in_the_order_of_its_flows():
    assert cycles(flows("xa ab bc ca cy")) == [("a", "b", "c")]


def test_two_cycles_are_given_apart():
    assert sorted(cycles(flows("ab ba bc cd dc"))) == [("a", "b"), ("c", "d")]


def test_a_long_chain_needs_no_recursion():
    assert cycles([(str(place), str(place + 1)) for place in range(20_000)]) == []
