"""Taking turns: what is counted, what is put back, what leaves."""

from bench.history.case import Entry, run_case
from bench.processes.workers import Failed

RIGHT = {"versions": 12, "open": 10, "checksum": "7"}


class Played:
    """A bench whose engines are a list of what was asked of them."""

    def __init__(self, digests: dict[str, dict], failing: tuple[str, ...] = ()) -> None:
        self._digests, self._failing = digests, failing
        self.asked: list[tuple] = []
        self._engine = ""

    def load(self, entry: Entry, load: int, *, restore: str) -> dict:
        self.asked.append((entry.name, load, restore))
        if entry.name in self._failing:
            raise Failed("no room")
        return {"seconds": float(len(self.asked)), "cpu_seconds": 1.0, "bytes_read": None}

    def worker(self, engine: str) -> "Played":
        self._engine = engine
        return self

    def ask(self, do: str) -> dict:
        assert do == "digest"
        return self._digests[self._engine]

    def expected(self, variant: str, load: int) -> dict:
        return RIGHT


def test_engines_alternate_and_the_first_round_is_not_measured():
    bench = Played({"ours": RIGHT, "limit": RIGHT})
    ours, limit = run_case(bench, [Entry("ours", "ours", 3), Entry("limit", "limit", 3)], 5, {})
    assert [name for name, *_ in bench.asked] == ["ours", "limit", "limit", "ours"] * 3
    assert {tuple(asked) for _, *asked in bench.asked} == {(4, "3")}
    assert (len(ours["seconds"]), len(limit["seconds"])) == (5, 5)
    assert 1.0 not in ours["seconds"]
    assert "wrong" not in ours


def test_engine_with_a_wrong_result_is_measured_and_reported_with_its_fault():
    bench = Played({"ours": RIGHT, "koheesio": RIGHT | {"open": 11, "shortcoming": "does not close"}})
    ours, peer = run_case(bench, [Entry("ours", "ours", 0), Entry("koheesio", "koheesio", 0)], 5, {})
    assert len(peer["seconds"]) == 5
    assert peer["wrong"] == "does not close: 11 open versions, should be 10"
    assert len(ours["seconds"]) == 5


def test_failed_engine_is_excluded_and_the_others_are_measured():
    bench = Played({"ours": RIGHT}, failing=("four_step",))
    entries = [Entry(name, name, 0) for name in ("ours", "four_step", "dbt_snapshot")]
    ours, four_step, dbt = run_case(bench, entries, 1, {"dbt_snapshot": "failed: no history"})
    assert ours["seconds"]
    assert (four_step["seconds"], four_step["wrong"]) == ([], "failed: no room")
    assert (dbt["seconds"], dbt["wrong"]) == ([], "failed: no history")
