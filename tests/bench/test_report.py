"""Bounds, tables and result files of measures."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from bench.history.measure import BOUNDS, CLUSTER, CLUSTER_ROWS, _measured_before, _one_of, _per_one
from bench.problem import BenchProblem
from bench.report import write_result
from bench.runner import Bound, Run, measure_named, summary

HISTORY = measure_named("history")


def run_of(output: Path, **sides: float) -> Run:
    run = Run(HISTORY, Namespace(rows=3, tables=1, output=output), Path())
    for side, seconds in sides.items():
        run.record(f"deep: {side}", (seconds, 2 * seconds))
    return run


def bounds(run: Run) -> dict[str, dict]:
    return run.result({})["bounds"]


def test_bounds_are_met_or_missed_and_those_without_times_are_left_out():
    results = bounds(run_of(Path(), ours=2.0, limit=1.0, four_step=7.0))
    assert {name: entry["met"] for name, entry in results.items()} == {
        "ours against the limit, depth 5": False,
        "four_step against ours, depth 5": True,
    }
    assert results["four_step against ours, depth 5"] == {
        "value": 3.5,
        "by_processor": 3.5,
        "wanted": ">= 3",
        "met": True,
    }


def test_wrong_peer_does_not_count_and_a_wrong_engine_of_ours_misses_its_bound():
    run = run_of(Path(), ours=1.0, limit=1.0, koheesio=9.0)
    run.wrong = {"deep: koheesio": "loses"}
    assert bounds(run)["koheesio against ours, depth 5"]["met"] is None
    assert bounds(run)["ours against the limit, depth 5"]["met"] is True
    run.wrong = {"deep: ours": "loses"}
    assert bounds(run)["ours against the limit, depth 5"]["met"] is False


def test_side_that_failed_before_its_first_counted_load_has_bounds_without_values():
    run = run_of(Path(), ours=1.0, limit=1.0)
    run.wrong = {"deep: koheesio": "failed: no room"}
    expected = {"value": None, "by_processor": None, "wanted": ">= 1.5", "met": None}
    assert bounds(run)["koheesio against ours, depth 5"] == expected
    del run.costs["deep: ours"]
    run.wrong["deep: ours"] = "failed: no room"
    assert [entry["met"] for entry in bounds(run).values()] == [False, False]
    assert summary(run.result({})).splitlines()[-2:] == [
        "ours against the limit, depth 5  <= 1.7         -       -  MISSED",
        "koheesio against ours, depth 5   >= 1.5         -       -  MISSED",
    ]


def test_bound_with_a_divisor_of_zero_seconds_has_no_value():
    result = Bound("ratio", "ours", "peer", at_most=1).result({"ours": [1.0], "peer": [0.0]}, {})
    assert result == {"value": None, "by_processor": None, "wanted": "<= 1", "met": None}


def test_bound_without_a_wanted_value_is_not_missed_by_a_wrong_peer():
    assert Bound("peer / ours", "peer", "ours").result({"ours": [1.0], "peer": [3.0]}, {}, {"peer"})["met"] is None


def test_times_of_one_row_have_four_significant_digits():
    run = run_of(Path())
    for rows, seconds in zip(CLUSTER_ROWS, (5.1, 103.0), strict=True):
        run.costs[f"{CLUSTER} {rows}: ours"] = [(seconds, 0.0)]
        _per_one(run, CLUSTER, "ours", rows)
    result = run.result({})
    assert result["seconds"][_one_of(CLUSTER, CLUSTER_ROWS[1])] == [0.00515]
    (bound,) = result["bounds"].values()
    assert bound == {"value": 1.01, "by_processor": None, "wanted": "<= 1.5", "met": True}


def test_times_of_one_row_are_wrong_with_those_of_the_engine():
    run = run_of(Path())
    run.wrong = {f"{CLUSTER} {rows}: ours": "failed: no room" for rows in CLUSTER_ROWS}
    for rows in CLUSTER_ROWS:
        _per_one(run, CLUSTER, "ours", rows)
    assert [entry["met"] for entry in bounds(run).values()] == [False]


def test_bound_of_seconds_takes_the_slowest_if_that_is_wanted():
    bound = Bound("slowest", "choice", at_most=5, statistic=max)
    assert bound.result({"choice": [1.0, 6.0]}, {"choice": [1.0, 2.0]})["value"] == 6.0


def test_every_bound_of_the_history_step_has_one_direction():
    assert all((bound.at_most is None) != (bound.at_least is None) for bound in BOUNDS)


def test_repeated_case_replaces_its_times_and_keeps_those_of_the_others(tmp_path):
    file = tmp_path / "results.json"
    first = run_of(file, ours=1.0)
    first.costs |= {"many 50: small_tables": [(5.0, 6.0)]}
    first.save({"cases": {"deep": {"rows": 500}, "many": {"rows": 700}}})
    again = run_of(file)
    assert _measured_before(again, ["deep"]) == {"many": {"rows": 700}}
    assert again.costs == {"many 50: small_tables": [(5.0, 6.0)]}


def test_results_of_a_run_that_recorded_no_side_can_be_continued(tmp_path):
    run_of(tmp_path / "results.json").save({"cases": {"files": {"counted": []}}})
    assert _measured_before(run_of(tmp_path / "results.json"), ["deep"]) == {"files": {"counted": []}}


def test_file_without_results_is_not_continued(tmp_path):
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(BenchProblem, match="is no results file"):
        _measured_before(run_of(tmp_path / "results.json"), ["deep"])


def test_results_of_the_repository_can_be_continued():
    known = _measured_before(run_of(HISTORY.output), ["deep"])
    assert {"shallow", "small", "many"} <= set(known)


def test_summary_shows_failures_beside_times():
    run = run_of(Path(), ours=2.0)
    run.wrong = {"deep: koheesio": "failed: no"}
    assert summary(run.result({})).splitlines() == [
        "side            median s  cpu s  of",
        "deep: ours         2.000  4.000  2.00",
        "deep: koheesio         -      -    wrong: failed: no",
        "",
        "bound                           wanted  measured  by cpu",
        "koheesio against ours, depth 5  >= 1.5         -       -  does not count",
    ]


def test_summary_of_a_run_without_times_has_no_rows():
    lines = summary(run_of(Path()).result({})).splitlines()
    assert [line.split() for line in lines] == [
        ["side", "median", "s", "cpu", "s", "of"],
        [],
        ["bound", "wanted", "measured", "by", "cpu"],
    ]


def test_a_written_result_names_the_machine_and_the_time(tmp_path):
    write_result(tmp_path / "r.json", {"rows": 3})
    document = json.loads((tmp_path / "r.json").read_text())
    assert list(document) == ["machine", "measured_at", "rows"]
    assert document["machine"]["cpus"] >= 1
