"""Bounds, tables and result files of measures."""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from bench.history.measure import BOUNDS, MEASURE, _measured_before
from bench.problem import BenchProblem
from bench.report import write_result
from bench.runner import Bound, Run, summary


def run_of(output: Path, **sides: float) -> Run:
    run = Run(MEASURE, Namespace(rows=3, tables=1, output=output), Path())
    for side, seconds in sides.items():
        run.record(f"deep: {side}", (seconds, 2 * seconds))
    return run


def measures(run: Run) -> dict[str, dict]:
    return run.result({})["measures"]


def test_bounds_are_met_or_missed_and_those_without_times_are_left_out():
    found = measures(run_of(Path(), ours=2.0, limit=1.0, four_step=7.0))
    assert {name: entry["met"] for name, entry in found.items()} == {
        "ours against the limit, depth 5": False,
        "four_step against ours, depth 5": True,
    }
    assert found["four_step against ours, depth 5"] == {
        "value": 3.5,
        "by_processor": 3.5,
        "wanted": ">= 3",
        "met": True,
    }


def test_wrong_peer_does_not_count_and_a_wrong_engine_of_ours_misses_its_bound():
    run = run_of(Path(), ours=1.0, limit=1.0, koheesio=9.0)
    run.wrong = {"deep: koheesio": "loses"}
    assert measures(run)["koheesio against ours, depth 5"]["met"] is None
    assert measures(run)["ours against the limit, depth 5"]["met"] is True
    run.wrong = {"deep: ours": "loses"}
    assert measures(run)["ours against the limit, depth 5"]["met"] is False


def test_bound_of_seconds_takes_the_slowest_if_that_is_wanted():
    bound = Bound("slowest", "choice", at_most=5, by=max)
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


def test_file_without_results_is_not_continued(tmp_path):
    (tmp_path / "results.json").write_text("[]")
    with pytest.raises(BenchProblem, match="is no results file"):
        _measured_before(run_of(tmp_path / "results.json"), ["deep"])


def test_results_of_the_repository_can_be_continued():
    known = _measured_before(run_of(MEASURE.output), ["deep"])
    assert {"shallow", "small", "many"} <= set(known)


def test_summary_shows_failures_beside_times():
    run = run_of(Path(), ours=2.0)
    run.wrong = {"deep: koheesio": "failed: no"}
    lines = summary(run.result({})).splitlines()
    assert lines[1].split() == ["deep:", "ours", "2.000", "4.000", "2.00"]
    assert lines[2].endswith("wrong: failed: no")


def test_summary_of_a_run_without_times_has_no_rows():
    assert len(summary(run_of(Path()).result({})).split()) == 11


def test_a_written_result_names_the_machine_and_the_time(tmp_path):
    write_result(tmp_path / "r.json", {"rows": 3})
    written = json.loads((tmp_path / "r.json").read_text())
    assert list(written) == ["machine", "measured_at", "rows"]
    assert written["machine"]["cpus"] >= 1
