"""Tests of the engines on real Spark and Delta, in separate processes: all produce the same, correct history."""

from argparse import Namespace
from pathlib import Path

import pytest

from bench.history.case import MAIN, Bench
from bench.history.cases import build_and_run, make_sources, plain_entries, plans
from bench.runner import Run, measure_named

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

ROWS = 500


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    entries = plain_entries(["ours", "ours_public", "limit", "four_step"], 1)
    run = Run(measure_named("history"), Namespace(rows=ROWS, tables=1), Path())
    with Bench(plans(ROWS, 10, 1), tmp_path_factory.mktemp("bench") / "data") as bench:
        make_sources(bench, entries)
        expected, plan = bench.expected(MAIN, 2), bench.plans[MAIN]
        assert (expected["versions"], expected["open"]) == (plan.versions(2), plan.live(2))
        build_and_run(run, bench, entries, 1, "deep")
        yield run


def test_engines_end_with_the_expected_history(run):
    assert run.wrong == {}


def test_loads_have_times_and_bounds(run):
    assert set(run.costs) == {f"deep: {name}" for name in ("ours", "whole_load", "ours_public", "limit", "four_step")}
    assert all(len(costs) == 1 and min(costs[0]) > 0 for costs in run.costs.values())
    assert set(run.result({})["bounds"]) == {
        "ours against the limit, depth 5",
        "four_step against ours, depth 5",
        "whole load against the limit, depth 5",
    }


def test_bench_deletes_its_data_folder(tmp_path):
    with Bench(plans(ROWS, 10, 0), tmp_path / "data"):
        assert (tmp_path / "data").is_dir()
    assert not (tmp_path / "data").exists()
