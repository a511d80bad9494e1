"""Graphs: columns, headings, legend and JSON."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.web.graph import LAYERS, Edge, Graph, Node
from metadata.selectors.dataset_lineage import Lineage, LineageEdge, LineageNode
from metadata.selectors.lineage import of_lineage


def graph(nodes: str, *edges: str, **fields: Any) -> Graph:
    """Return a graph as in ``graph("a:raw b:rawcore", "a>b")``; an edge written ``a~b`` is a reference."""
    node_objects = (Node(name, name, layer=layer) for name, _, layer in (word.partition(":") for word in nodes.split()))
    return Graph(tuple(node_objects), tuple(edge(text, **fields) for text in edges))


def edge(text: str, **fields: Any) -> Edge:
    if "~" in text:
        return Edge(*text.split("~"), kind="reference", **fields)
    return Edge(*text.split(">"), **fields)


CHAIN = "s:source r:raw v:stage c:rawcore h:history"


def test_graph_layers_are_columns_from_left_to_right_with_heads():
    result = graph(f"h:history {CHAIN.removesuffix(' h:history')}", "s>r", "r>v", "v>c", "c>h")
    assert result.ranks == {"s": 0, "r": 1, "v": 2, "c": 3, "h": 4}
    assert result.heads == ("Source", "Raw", "Stage", "Rawcore", "History")


def test_dataset_that_reads_its_own_layer_is_right_of_its_input():
    result = graph("a:bizcore b:bizcore", "a>b")
    assert result.ranks == {"a": 0, "b": 1}
    assert result.heads == ("Bizcore", "Bizcore")


def test_history_is_right_of_its_dataset_in_any_layer():
    result = graph("b:bizcore h:history", "b>h")
    assert result.ranks["h"] > result.ranks["b"]


def test_reference_does_not_change_the_columns_of_a_graph():
    assert graph("a:rawcore b:rawcore", "a~b").ranks == {"a": 0, "b": 0}


def test_graph_has_no_column_for_a_missing_layer():
    assert graph("s:source c:serving").ranks == {"s": 0, "c": 1}


def test_a_column_where_layers_meet_has_no_head():
    assert graph("b:bizcore d:bizcore c:rawcore", "b>d", "b>c").heads == ("Bizcore", "")


def test_cyclic_graph_has_columns():
    assert len(graph("a:bizcore b:bizcore", "a>b", "b>a").ranks) == 2


def test_edge_from_a_node_to_itself_does_not_change_its_column():
    assert graph("a:rawcore", "a~a").ranks == graph("a:rawcore", "a>a").ranks == {"a": 0}


def test_graph_with_a_node_without_a_layer_has_no_ranks_and_heads():
    result = Graph((Node("a", "a"), Node("b", "b", layer="raw")), (Edge("a", "b"),))
    assert result.ranks == {}
    assert result.heads == ()
    assert "rank" not in result.as_json()["nodes"][1]


def test_an_edge_that_leads_nowhere_is_refused():
    with pytest.raises(ValueError, match="from a to b"):
        graph("a:raw", "a>b")


def test_two_nodes_of_one_id_are_refused():
    with pytest.raises(ValueError, match="same id"):
        graph("a:raw a:stage")


def test_graph_legend_lists_only_layers_states_and_edge_kinds_of_the_graph():
    result = Graph(
        (
            Node("a", "a", layer="rawcore", state="failed", state_label="failed"),
            Node("b", "b", layer="raw", state="failed", state_label="failed"),
            Node("c", "c", layer="raw", state="queued", state_label="queued"),
        ),
        (Edge("b", "a"), Edge("a", "c", "reference")),
    )
    assert result.layers == ("raw", "rawcore")
    assert result.states == (("failed", "failed"), ("queued", "queued"))
    assert [kind for kind, _ in result.kinds] == ["input", "reference"]
    assert not result.has_marked


def test_graph_legend_has_marked_edges():
    assert graph("a:raw b:stage", "a>b", marked=True).has_marked


def test_graph_json_omits_empty_fields():
    result = Graph((Node("a", "rc_a", "rawcore", "rawcore", url="/a/", here=True), Node("b", "rc_b", layer="rawcore")))
    assert result.as_json() == {
        "nodes": [
            {
                "id": "a",
                "title": "rc_a",
                "sub": "rawcore",
                "layer": "rawcore",
                "url": "/a/",
                "here": True,
                "rank": 0,
            },
            {"id": "b", "title": "rc_b", "layer": "rawcore", "rank": 0},
        ],
        "edges": [],
        "heads": ["Rawcore"],
    }


def test_lineage_is_converted_to_a_graph():
    def node(name: str, kind: str, distance: int, active: bool = True) -> LineageNode:
        return LineageNode(name, kind, f"rawcore.{name}", "rawcore", 1, active, distance)

    lineage = Lineage(
        (node("c", "target", 0), node("h", "history", 1, active=False)),
        (LineageEdge("c", "h", "history"), LineageEdge("c", "c", "reference", "parent_key")),
    )
    result = of_lineage(lineage, lambda node: f"/{node.id}/")
    assert [(node.title, node.sub, node.layer, node.here, node.muted) for node in result.nodes] == [
        ("c", "rawcore", "rawcore", True, False),
        ("h", "rawcore · retired", "history", False, True),
    ]
    assert result.nodes[0].url == "/c/"
    assert result.edges[1] == Edge("c", "c", "reference", "parent_key")


@given(
    st.lists(st.sampled_from(list(LAYERS)), min_size=2, max_size=14),
    st.lists(
        st.tuples(st.integers(0, 13), st.integers(0, 13), st.sampled_from(["input", "history", "reference"])),
        min_size=1,
    ),
)
def test_edges_of_an_acyclic_graph_except_references_point_right(layers: list[str], pairs: list[tuple[int, int, str]]):
    nodes = tuple(Node(f"n{place}", "n", layer=layer) for place, layer in enumerate(layers))
    # Only forwards in the order of the list, so that there is no circle.
    ends = [(*sorted((a % len(nodes), b % len(nodes))), kind) for a, b, kind in pairs]
    edges = tuple(Edge(f"n{a}", f"n{b}", kind) for a, b, kind in ends if a < b)
    result = Graph(nodes, edges)
    assert all(result.ranks[edge.start] < result.ranks[edge.end] for edge in edges if edge.kind != "reference")
    assert set(result.ranks.values()) == set(range(len(result.heads)))
    assert json.loads(json.dumps(result.as_json())) == result.as_json()
