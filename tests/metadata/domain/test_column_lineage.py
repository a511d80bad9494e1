"""Tests of cycles of flows between columns."""

from metadata.domain.column_lineage import ColumnLineage, ColumnNode, cycles


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


def test_passed_on_returns_unchanged_columns_up_to_the_first_expression():
    def node(name: str, expression: str = "") -> ColumnNode:
        return ColumnNode(name, "target", name, name, "string", expression, "d", "d", "rawcore", True, 0)

    lineage = ColumnLineage(
        (node("a"), node("b", "upper(a)"), node("c"), node("d"), node("e")), tuple(flows("ab bc cd ed"))
    )
    assert [own.id for own in lineage.passed_on("d")] == ["c", "e", "b"]
    assert lineage.passed_on("b") == []


def test_passed_on_visits_columns_of_a_cycle_once():
    nodes = tuple(ColumnNode(n, "target", n, n, "string", "", "d", "d", "rawcore", True, 0) for n in "ab")
    assert [own.id for own in ColumnLineage(nodes, (("a", "b"), ("b", "a"))).passed_on("a")] == ["b"]
