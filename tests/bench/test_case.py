"""Rounds of engines: order, counted loads, failures."""

from argparse import Namespace
from pathlib import Path

from bench.history.case import Entry, difference, run_case
from bench.history.cases import plain_entries
from bench.processes.workers import Failed
from bench.runner import Run, measure_named

RIGHT = {"versions": 12, "open": 10, "checksum": "7"}


class FakeBench:
    """Bench without engines: ``loads`` has the requested loads in order, as engine, load and restored history."""

    def __init__(self, digests: dict[str, dict], failing: tuple[str, ...] = ()) -> None:
        self._digests, self._failing = digests, failing
        self.loads: list[tuple] = []
        self._engine = ""

    def load(self, entry: Entry, load: int, *, restore: str) -> dict:
        self.loads.append((entry.name, load, restore))
        if entry.name in self._failing:
            raise Failed("no room")
        return {"seconds": float(len(self.loads)), "cpu_seconds": 1.0}

    def worker(self, engine: str) -> "FakeBench":
        self._engine = engine
        return self

    def ask(self, do: str) -> dict:
        assert do == "digest"
        return self._digests[self._engine]

    def expected(self, variant: str, load: int) -> dict:
        return RIGHT


def run_rounds(bench: FakeBench, entries: list[Entry], rounds: int, case: str = "", **wrong: str) -> Run:
    run = Run(measure_named("history"), Namespace(), Path())
    run.wrong |= wrong
    run_case(run, bench, entries, rounds, case)
    return run


def test_engines_alternate_and_the_first_round_is_not_measured():
    bench = FakeBench({"ours": RIGHT, "limit": RIGHT})
    run = run_rounds(bench, [Entry("ours", "ours", 3), Entry("limit", "limit", 3)], 5, "deep")
    assert [name for name, *_ in bench.loads] == ["ours", "limit", "limit", "ours"] * 3
    assert {(load, restored) for _, load, restored in bench.loads} == {(4, "3")}
    assert {side: len(costs) for side, costs in run.costs.items()} == {"deep: ours": 5, "deep: limit": 5}
    assert (1.0, 1.0) not in run.costs["deep: ours"]
    assert run.wrong == {}


def test_engine_with_a_wrong_result_is_measured_and_reported_with_its_fault():
    bench = FakeBench({"ours": RIGHT, "koheesio": RIGHT | {"open": 11, "shortcoming": "does not close"}})
    run = run_rounds(bench, [Entry("ours", "ours", 0), Entry("koheesio", "koheesio", 0)], 5)
    assert len(run.costs["koheesio"]) == len(run.costs["ours"]) == 5
    assert run.wrong == {"koheesio": "does not close: 11 open versions, should be 10"}


def test_failed_engine_is_excluded_and_the_others_are_measured():
    bench = FakeBench({"ours": RIGHT}, failing=("four_step",))
    entries = [Entry(name, name, 0) for name in ("ours", "four_step", "dbt_snapshot")]
    run = run_rounds(bench, entries, 1, dbt_snapshot="failed: no history")
    assert set(run.costs) == {"ours"}
    assert run.wrong == {"dbt_snapshot": "failed: no history", "four_step": "failed: no room"}


def test_difference_reports_wrong_versions_open_versions_or_values():
    assert difference(RIGHT, RIGHT) is None
    assert difference(RIGHT | {"open": 11}, RIGHT) == "11 open versions, should be 10"
    assert difference(RIGHT | {"versions": 9, "shortcoming": "loses"}, RIGHT) == "loses: 9 versions, should be 12"
    assert "other keys, intervals or values" in difference(RIGHT | {"checksum": "8"}, RIGHT)


def test_whole_load_entry_is_added_after_ours():
    assert plain_entries(["limit", "ours"], 3) == [
        Entry("ours", "ours", 3),
        Entry("whole_load", "ours", 3, how="whole", kind="source", label="3-whole"),
        Entry("limit", "limit", 3),
    ]
    assert plain_entries(["small_tables"], 3) == []
