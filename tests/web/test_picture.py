"""The lineage picture's layout, and SQL in colours. No database."""

from hypothesis import given
from hypothesis import strategies as st

from elevata.sqltext import highlight
from metadata.selectors import Lineage, LineageEdge, LineageNode
from metadata.views.picture import BOX_HEIGHT, BOX_WIDTH, Picture, draw

LAYERS = ["source", "raw", "stage", "rawcore", "history", "bizcore", "serving"]


def node(name: str, layer: str, distance: int = 1, active: bool = True) -> LineageNode:
    kind = layer if layer in ("source", "history") else "target"
    stored = "rawcore" if layer == "history" else layer
    return LineageNode(name, kind, f"{stored}.{name}", stored, 1, active, distance)


def picture(nodes: list[LineageNode], *edges: tuple[str, str, str]) -> Picture:
    return draw(Lineage(tuple(nodes), tuple(LineageEdge(*edge) for edge in edges)), lambda one: f"/{one.id}/")


def chain() -> Picture:
    return picture(
        [
            node("s", "source"),
            node("r", "raw"),
            node("v", "stage"),
            node("c", "rawcore", 0),
            node("p", "rawcore"),
            node("h", "history"),
        ],
        ("s", "r", "input"),
        ("r", "v", "input"),
        ("v", "c", "input"),
        ("c", "h", "history"),
        ("c", "p", "reference"),
        ("c", "p", "reference"),
    )


def test_layers_stand_from_left_to_right():
    boxes = {box.node.id: box for box in chain().boxes}
    assert boxes["s"].x < boxes["r"].x < boxes["v"].x < boxes["c"].x < boxes["h"].x
    assert boxes["p"].x == boxes["c"].x
    assert [head.label for head in chain().heads] == ["Source", "Raw", "Stage", "Rawcore", "History"]


def test_the_dataset_itself_is_marked():
    assert [box.node.id for box in chain().boxes if box.here] == ["c"]


def test_two_references_do_not_hide_each_other():
    paths = [line.path for line in chain().lines if line.kind == "reference"]
    assert len(set(paths)) == 2


def test_a_dataset_that_reads_its_own_layer_stands_right_of_it():
    boxes = {
        box.node.id: box for box in picture([node("a", "bizcore"), node("b", "bizcore")], ("a", "b", "input")).boxes
    }
    assert boxes["a"].x < boxes["b"].x


def test_a_circle_is_drawn_all_the_same():
    made = picture([node("a", "bizcore"), node("b", "bizcore")], ("a", "b", "input"), ("b", "a", "input"))
    assert len(made.boxes) == len(made.lines) == 2


def test_long_names_are_cut_and_retired_ones_marked():
    (box,) = picture([node("x" * 60, "raw", active=False)]).boxes
    assert box.title.endswith("…")
    assert box.sub == "raw · retired"


def test_nothing():
    assert picture([]).boxes == ()


@given(
    st.lists(st.sampled_from(LAYERS), min_size=1, max_size=14),
    st.lists(st.tuples(st.integers(0, 13), st.integers(0, 13), st.sampled_from(["input", "reference"]))),
)
def test_boxes_never_overlap_and_lie_inside(layers: list[str], edges: list[tuple[int, int, str]]):
    nodes = [node(f"n{index}", layer) for index, layer in enumerate(layers)]
    made = picture(
        nodes,
        *(
            (f"n{start}", f"n{end}", kind)
            for start, end, kind in edges
            if start != end and max(start, end) < len(nodes)
        ),
    )
    assert len(made.boxes) == len(nodes)
    places = {(box.x, box.y) for box in made.boxes}
    assert len(places) == len(nodes)
    for box in made.boxes:
        assert 0 <= box.x <= made.width - BOX_WIDTH
        assert 0 <= box.y <= made.height - BOX_HEIGHT
    for column in {box.x for box in made.boxes}:
        tops = sorted(box.y for box in made.boxes if box.x == column)
        assert all(lower - upper >= BOX_HEIGHT for upper, lower in zip(tops, tops[1:], strict=False))


def test_sql_in_colours():
    html = highlight("SELECT `a``b`, 'it''s' -- <why>\nFROM t WHERE x > 1.5 AND y = {{ load_run_id }}")
    assert '<span class="k">SELECT</span>' in html
    assert '<span class="n">`a``b`</span>' in html
    assert '<span class="s">&#x27;it&#x27;&#x27;s&#x27;</span>' in html
    assert '<span class="c">-- &lt;why&gt;</span>' in html
    assert '<span class="d">1.5</span>' in html
    assert '<span class="p">{{ load_run_id }}</span>' in html


@given(st.text())
def test_sql_keeps_every_character_and_lets_no_tag_through(sql: str):
    import html
    import re

    made = highlight(sql)
    assert html.unescape(re.sub(r"</?span[^>]*>", "", made)) == sql
    assert "<script" not in made
