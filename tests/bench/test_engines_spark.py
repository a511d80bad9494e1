"""The engines on real Spark and Delta, in their own processes: all end with the same, right history."""

import pytest

from bench.history.case import Bench
from bench.history.cases import make_sources, measure, plain_entries, plans
from bench.history.results import ratios

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

ROWS = 500


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    entries = plain_entries(["ours", "ours_public", "limit", "four_step"], 1)
    with Bench(plans(ROWS, 10, 1), tmp_path_factory.mktemp("bench") / "data") as bench:
        make_sources(bench, entries)
        yield {result["name"]: result for result in measure(bench, entries, 1)}, bench.plans["main"]


def test_engines_end_with_the_expected_history(results):
    timings, plan = results
    assert {name: result.get("wrong") for name, result in timings.items()} == dict.fromkeys(
        ("ours", "whole_load", "ours_public", "limit", "four_step")
    )
    for result in timings.values():
        assert (result["versions"], result["open"]) == (plan.versions(2), plan.live(2))


def test_loads_have_times_bytes_and_ratios(results):
    timings, _ = results
    for result in timings.values():
        assert len(result["seconds"]) == 1
        assert result["median"] > 0
        assert result["cpu_seconds"] > 0
        assert result["bytes_read"] > 0
    assert {"ours_vs_limit", "ours_public_vs_ours", "four_step_vs_ours", "whole_load_vs_limit"} <= set(
        ratios(list(timings.values()))
    )


def test_bench_deletes_its_data_folder(tmp_path):
    with Bench(plans(ROWS, 10, 0), tmp_path / "data"):
        assert (tmp_path / "data").is_dir()
    assert not (tmp_path / "data").exists()
