"""Critical path of a load run: examples, and properties of every run."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.domain.critical_path import CriticalPath, critical_path

# --- examples ----------------------------------------------------------------------------------


def test_a_run_without_datasets_has_no_path():
    assert critical_path({}, {}) == CriticalPath()


def test_path_of_independent_datasets_is_the_longest_dataset():
    analysis = critical_path({"a": 3, "b": 5, "c": 1}, {})
    assert (analysis.path, analysis.seconds) == (("b",), 5)


def test_path_follows_the_dependencies_of_datasets():
    seconds = {"raw_a": 2, "raw_b": 7, "core_a": 10, "core_b": 4}
    analysis = critical_path(seconds, {"core_a": ["raw_a"], "core_b": ["raw_b", "core_a"]})
    assert (analysis.path, analysis.seconds) == (("raw_a", "core_a", "core_b"), 16)


def test_slack_is_how_much_longer_a_dataset_may_take():
    seconds = {"raw_a": 2, "raw_b": 7, "core_a": 10, "core_b": 4}
    analysis = critical_path(seconds, {"core_a": ["raw_a"], "core_b": ["raw_b", "core_a"]})
    assert analysis.slack == {"raw_a": 0, "core_a": 0, "core_b": 0, "raw_b": 5}


def test_dependency_outside_the_run_is_ignored():
    assert critical_path({"core": 3}, {"core": ["raw"], "other": ["core"]}).path == ("core",)


def test_path_neither_begins_nor_ends_with_a_dataset_of_zero_seconds():
    assert critical_path({"a": 0, "b": 0}, {"b": ["a"]}) == CriticalPath(slack={"a": 0, "b": 0})
    assert critical_path({"a": 0, "b": 2}, {"b": ["a"]}).path == ("b",)
    assert critical_path({"b": 2, "a": 0}, {"a": ["b"]}).path == ("b",)


def test_path_is_the_first_by_name_of_equally_long_chains():
    assert critical_path({"b": 2, "a": 2, "c": 1}, {"c": ["b", "a"]}).path == ("a", "c")


def test_circular_dependency_is_refused():
    with pytest.raises(ValueError, match="in a circle: "):
        critical_path({"a": 1, "b": 1}, {"a": ["b"], "b": ["a"]})


# --- properties of every run -------------------------------------------------------------------


@st.composite
def runs(draw: st.DrawFn) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return datasets with whole seconds; each may wait for any of the previous ones."""
    names = [f"d{number}" for number in range(draw(st.integers(1, 8)))]
    seconds = {name: draw(st.integers(0, 9)) for name in names}
    waits_for = {
        name: draw(st.lists(st.sampled_from(names[:place]), unique=True)) if place else []
        for place, name in enumerate(names)
    }
    return seconds, waits_for


def longest_chain(key: str, seconds: dict[str, int], waits_for: dict[str, list[str]]) -> int:
    """Return the length of the longest chain ending here, by trying all of them."""
    return seconds[key] + max((longest_chain(upstream, seconds, waits_for) for upstream in waits_for[key]), default=0)


@given(runs())
def test_path_is_a_chain_whose_durations_add_up_to_its_seconds(run):
    seconds, waits_for = run
    analysis = critical_path(seconds, waits_for)
    assert all(before in waits_for[after] for before, after in pairwise(analysis.path))
    assert sum(seconds[key] for key in analysis.path) == analysis.seconds
    assert all(seconds[key] > 0 for key in (*analysis.path[:1], *analysis.path[-1:]))


@given(runs())
def test_no_chain_is_longer_than_the_path(run):
    seconds, waits_for = run
    assert critical_path(seconds, waits_for).seconds == max(longest_chain(key, seconds, waits_for) for key in seconds)


@given(runs())
def test_slack_is_zero_on_the_path_and_never_negative(run):
    analysis = critical_path(*run)
    assert set(analysis.slack) == set(run[0])
    assert all(analysis.slack[key] == 0 for key in analysis.path)
    assert all(slack >= 0 for slack in analysis.slack.values())


@given(runs(), st.data())
def test_delay_beyond_the_slack_lengthens_the_path(run, data):
    seconds, waits_for = run
    analysis = critical_path(seconds, waits_for)
    key = data.draw(st.sampled_from(sorted(seconds)))
    within = seconds | {key: seconds[key] + analysis.slack[key]}
    beyond = seconds | {key: seconds[key] + analysis.slack[key] + 1}
    assert critical_path(within, waits_for).seconds == analysis.seconds
    assert critical_path(beyond, waits_for).seconds == analysis.seconds + 1


@given(runs(), st.randoms())
def test_path_does_not_depend_on_the_order_of_datasets(run, random):
    seconds, waits_for = run
    names = list(seconds)
    random.shuffle(names)
    told_otherwise = {name: seconds[name] for name in names}
    assert critical_path(told_otherwise, waits_for) == critical_path(seconds, waits_for)


@given(st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=12))
def test_measured_seconds_leave_no_slack_on_a_chain(measured):
    names = [f"d{place:02}" for place in range(len(measured))]
    analysis = critical_path(dict(zip(names, measured, strict=True)), {b: [a] for a, b in pairwise(names)})
    assert analysis.seconds == pytest.approx(sum(measured))
    assert all(slack == pytest.approx(0, abs=1e-6) for slack in analysis.slack.values())
