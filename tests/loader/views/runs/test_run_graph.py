"""Graph of a load run: nodes and edges, critical path, bars, and limits on the number of nodes."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.selectors import run_picture
from loader.selectors.run_picture import Part, RunPicture, summary

START = datetime(2026, 11, 21, 8, tzinfo=UTC)


def part(key: str, seconds: float | None = None, *waits_for: str, status: str = "succeeded", **known) -> Part:
    layer = "raw" if key.startswith("raw") else "rawcore"
    return Part(key, f"{layer}.{key}", layer, status, seconds=seconds, waits_for=waits_for, **known)


AIRPORTS = (
    part("raw_a", 2.0, rows=28130),
    part("raw_r", 7.0),
    part("rc_a", 10.0, "raw_a"),
    part("rc_r", 4.0, "raw_r", "rc_a"),
)


def test_each_dataset_is_a_node_with_its_state_and_link():
    node = RunPicture(AIRPORTS).graph({"raw_a": "#dataset-raw_a"}).nodes[0]
    assert (node.id, node.title, node.layer, node.state, node.url) == (
        *("raw_a", "raw_a", "raw", "succeeded"),
        "#dataset-raw_a",
    )
    assert node.sub == "28,130 rows, 2.0 s"


def test_the_critical_path_is_marked_in_nodes_and_edges():
    graph = RunPicture(AIRPORTS).graph({})
    assert [node.id for node in graph.nodes if node.marked] == ["raw_a", "rc_a", "rc_r"]
    assert [(edge.start, edge.end) for edge in graph.edges if edge.marked] == [("raw_a", "rc_a"), ("rc_a", "rc_r")]
    assert [(edge.start, edge.end) for edge in graph.edges if not edge.marked] == [("raw_r", "rc_r")]


def test_dependency_outside_the_run_has_no_edge():
    assert RunPicture((part("rc_a", 1.0, "raw_gone"),)).graph({}).edges == ()


def test_unfinished_dataset_counts_with_its_expected_duration():
    parts = (part("raw_a", 2.0), part("rc_a", None, "raw_a", status="running"), part("rc_b", 3.0))
    picture = RunPicture(parts, {"rc_a": 30.0, "rc_b": 99.0})
    assert (picture.path.path, picture.path.seconds, picture.is_expected) == (("raw_a", "rc_a"), 32.0, True)
    assert not RunPicture(AIRPORTS).is_expected


def test_path_without_an_earlier_run_contains_only_known_durations():
    parts = (part("raw_a", 2.0), part("rc_a", None, "raw_a", status="queued"))
    assert RunPicture(parts).path.path == ("raw_a",)


def test_skipped_dataset_counts_with_zero_seconds():
    parts = (part("raw_a", 2.0, status="failed"), part("rc_a", None, "raw_a", status="skipped"))
    assert RunPicture(parts, {"rc_a": 30.0}).path.seconds == 2.0


def test_circular_dependencies_have_no_path():
    parts = (part("rc_a", 1.0, "rc_b"), part("rc_b", 1.0, "rc_a"))
    picture = RunPicture(parts)
    assert (picture.chain, len(picture.graph({}).edges)) == ([], 2)


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (part("a", 6.4, rows=1204), "1,204 rows, 6.4 s"),
        (part("a", 125.0), "2 min 05 s"),
        (part("a", status="running", phase="comparing"), "comparing"),
        (part("a", status="queued"), ""),
        (part("a", status="skipped"), ""),
        (part("a", 2.0, status="failed"), "2.0 s"),
    ],
)
def test_node_summary_shows_rows_and_seconds_or_the_current_phase(known: Part, expected: str):
    assert summary(known) == expected


def test_node_without_success_shows_its_state_in_words():
    graph = RunPicture((part("a", 1.0), part("b", status="failed"), part("c", status="queued"))).graph({})
    assert [node.state_label for node in graph.nodes] == ["", "failed", "queued"]


# --- bars -------------------------------------------------------------------------------------------


def part_with_times(key: str, begin: float, end: float | None) -> Part:
    finished = START + timedelta(seconds=end) if end is not None else None
    return part(key, started_at=START + timedelta(seconds=begin), finished_at=finished)


def test_bar_has_the_position_and_width_of_the_working_time():
    picture = RunPicture((part_with_times("a", 0, 5), part_with_times("b", 5, 20), part_with_times("c", 10, None)))
    bars = picture.bars(start=START, end=START + timedelta(seconds=20))
    assert {key: (bar.x, bar.width) for key, bar in bars.items()} == {"a": (0, 25), "b": (25, 75), "c": (50, 50)}


def test_work_of_an_earlier_attempt_has_no_bar():
    picture = RunPicture((part_with_times("a", -60, -50), part("b", 3.0)))
    assert picture.bars(start=START, end=START + timedelta(seconds=20)) == {}


def test_a_run_that_has_not_begun_has_no_bars():
    assert RunPicture((part_with_times("a", 0, 5),)).bars(start=None, end=START) == {}


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 50)), max_size=8), st.floats(0.1, 100))
def test_no_bar_leaves_its_frame(spans, whole):
    picture = RunPicture(
        tuple(part_with_times(f"d{n}", begin, begin + length) for n, (begin, length) in enumerate(spans))
    )
    for bar in picture.bars(start=START, end=START + timedelta(seconds=whole)).values():
        assert bar.width > 0
        assert bar.x >= 0
        assert bar.x + bar.width <= 100.01


# --- large runs -------------------------------------------------------------------------------------


def draw_large_run(monkeypatch: pytest.MonkeyPatch, most: int) -> RunPicture:
    monkeypatch.setattr(run_picture, "MOST_DRAWN", most)
    chains = [(part(f"raw_{n:02}", 1.0), part(f"rc_{n:02}", 1.0, f"raw_{n:02}")) for n in range(20)]
    chains[7] = (part("raw_07", 9.0), part("rc_07", 9.0, "raw_07"))
    chains[11] = (part("raw_11", 1.0), part("rc_11", 1.0, "raw_11", status="failed"))
    return RunPicture(tuple(node for chain in chains for node in chain))


def test_large_run_draws_the_path_and_failed_datasets_with_their_neighbours(monkeypatch):
    picture = draw_large_run(monkeypatch, 5)
    assert [node.key for node in picture.drawn] == ["raw_07", "rc_07", "raw_11", "rc_11"]
    assert picture.left_out == 36
    assert {edge.end for edge in picture.graph({}).edges} == {"rc_07", "rc_11"}


def test_number_of_drawn_datasets_is_limited(monkeypatch):
    picture = draw_large_run(monkeypatch, 3)
    assert len(picture.drawn) == 3
    assert {"raw_07", "rc_07", "rc_11"} == {node.key for node in picture.drawn}


def test_small_run_is_drawn_completely():
    assert RunPicture(AIRPORTS).drawn == AIRPORTS
    assert RunPicture(AIRPORTS).left_out == 0
