"""Revert on real tables: the history equals one without the run."""

import pytest

from loader.contract.run_states import REVERT
from loader.domain.reference import ReferenceEngine
from loader.engine.historization import rawcore
from loader.engine.maintenance import reverts
from tests.fixtures.spark import by_night, held_in_memory
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path"), pytest.mark.takes(seconds=12)]

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
FEED = {"input": "effective", "time": "t"}
COLUMNS = {"id": "integer", "v": "string", "t": "timestamp"}


def row(id_: int, v: str, day: int) -> dict:
    return {"id": id_, "v": v, "t": DAY[day]}


BATCHES = [
    [row(1, "a", 0), row(2, "b", 0), row(3, "c", 0)],
    [row(1, "WRONG", 5), row(2, "x", 5), row(4, "only here", 5), row(3, "late", 2)],
    [row(1, "A", 8), row(2, "b", 9), row(3, "C", 8), row(1, "early", 3)],
]


@pytest.fixture
def feed(spark, tmp_path):
    return Kept(spark, tmp_path, columns=COLUMNS, policy=FEED)


@pytest.fixture
def snapshot(spark, tmp_path):
    return Kept(spark, tmp_path)


def reference_rows(*batches) -> list[tuple]:
    """Return the reference's history of these batches only."""
    reference = ReferenceEngine({"keys": ["id"], "columns": COLUMNS, "policy": FEED})
    for n, rows in enumerate(batches):
        reference.apply({"at": DAY[10 + n], "run_id": str(n), "rows": rows})

    def text_of_time(at):
        return at and f"{at:%Y-%m-%d %H:%M:%S}"

    versions = (
        (r["id"], r["v"], text_of_time(r["valid_from"]), text_of_time(r["valid_to"]), r["state"])
        for r in reference.rows()
    )
    return sorted(versions, key=str)


def load_batches(feed: Kept) -> None:
    feed.given(*((rows, DAY[10 + n]) for n, rows in enumerate(BATCHES)))


@pytest.mark.nightly
def test_revert_of_an_earlier_feed_run_gives_the_history_without_that_run(feed):
    load_batches(feed)
    expected = reference_rows(BATCHES[0], BATCHES[2])
    before = feed.table(feed.history_spec).version()
    status, event = feed.perform_run(REVERT, feed.revert_manifest("run-2", 2, later_runs=("run-3",)))
    assert (status, event.get("error")) == ("succeeded", None)
    assert feed.table(feed.history_spec).version() == before + 1
    assert feed.versions() == expected
    assert feed.rawcore_keys() == [1, 2, 3]
    assert held_in_memory(feed.spark) == []
    assert event["counts"] == {"versions": len(expected), "open": 3}
    assert feed.answer["tables"]["rawcore.rc_t_item_hist"] == {"version_before": before, "version_after": before + 1}
    feed.load([row(1, "next", 12), row(4, "new", 12)], at=DAY[20])
    expected = reference_rows(BATCHES[0], BATCHES[2], [row(1, "next", 12), row(4, "new", 12)])
    assert feed.versions() == expected


class Killed(Exception):
    pass


def killing(*_args, **_more):
    raise Killed


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["event_log", by_night("rawcore")])
@pytest.mark.parametrize("healed_by", [by_night("the revert again"), "the next load"])
def test_killed_revert_is_completed_by_its_repetition_or_the_next_load(feed, monkeypatch, place, healed_by):
    load_batches(feed)
    manifest = feed.revert_manifest("run-2", 2, later_runs=("run-3",))
    with monkeypatch.context() as patch:
        patch.setattr(*((reverts, "forget_run") if place == "event_log" else (rawcore, "rebuild")), killing)
        assert feed.perform_run(REVERT, manifest)[0] == "failed"
    later = [row(1, "next", 12), row(2, "between", 6)]
    if healed_by == "the revert again":
        assert feed.perform_run(REVERT, manifest)[0] == "succeeded"
        assert feed.versions() == reference_rows(BATCHES[0], BATCHES[2])
        assert feed.rawcore_keys() == [1, 2, 3]
    assert feed.load(later, at=DAY[20])[0] == "succeeded"
    assert feed.versions() == reference_rows(BATCHES[0], BATCHES[2], later)
    assert feed.rawcore_keys() == [1, 2, 3]
    if healed_by == "the next load":
        assert feed.perform_run(REVERT, manifest)[0] == "succeeded"
        assert feed.versions() == reference_rows(BATCHES[0], BATCHES[2], later)


@pytest.mark.nightly
def test_revert_refuses_a_run_whose_rows_a_later_run_delivered_again(feed):
    feed.given(([row(1, "a", 0)], DAY[10]), ([row(1, "a", 0), row(2, "b", 0)], DAY[11]))
    before = feed.table(feed.history_spec).version()
    status, event = feed.perform_run(REVERT, feed.revert_manifest("run-1", 1, later_runs=("run-2",)))
    assert (status, event["error"]["code"], event["error"]["samples"][0][:2]) == ("failed", "LATER_RUNS", "1,")
    assert feed.table(feed.history_spec).version() == before


def test_revert_of_the_newest_snapshot_restores_the_former_versions(snapshot):
    snapshot.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]))
    expected = snapshot.versions()
    snapshot.load([{"id": 1, "v": "WRONG"}, {"id": 3, "v": "c"}], at=DAY[5])
    early = snapshot.revert_manifest("run-1", 1)
    assert snapshot.perform_run(REVERT, early)[1]["error"]["code"] == "LATER_RUNS"
    status, event = snapshot.perform_run(REVERT, snapshot.revert_manifest("run-2", 2))
    assert (status, event.get("error")) == ("succeeded", None)
    assert event["counts"] == {"versions": 2, "open": 2}
    assert snapshot.versions() == expected
    assert snapshot.rawcore_keys() == [1, 2]
    assert snapshot.perform_run(REVERT, snapshot.revert_manifest("run-2", 2))[1]["error"]["code"] == "ALREADY_REVERTED"
    # Dated before the run that was reverted, after the one that stays (rule 3).
    status, event = snapshot.load([{"id": 1, "v": "A"}, {"id": 2, "v": "b"}], at=DAY[3])
    assert (status, event["counts"]["changed"], event["counts"]["unchanged"]) == ("succeeded", 1, 1)
    assert snapshot.rawcore_keys() == [1, 2]


def test_a_reverted_run_is_not_applied_again(snapshot):
    snapshot.given(([{"id": 1, "v": "a"}], DAY[0]))
    snapshot.evolve()
    snapshot.sequence += 1
    second = snapshot.manifest(snapshot.deliver([{"id": 1, "v": "b"}]), at=DAY[1], run_id="run-2")
    assert snapshot.attempt(second)[0] == "succeeded"
    assert snapshot.perform_run(REVERT, snapshot.revert_manifest("run-2", 2))[0] == "succeeded"
    status, event = snapshot.again(second)
    assert (status, event["error"]["code"]) == ("failed", "RUN_REVERTED")
    assert [v[1] for v in snapshot.versions()] == ["a"]


@pytest.mark.nightly
def test_next_load_repairs_rawcore_after_a_revert_killed_before_rawcore(snapshot, monkeypatch):
    snapshot.given(
        ([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]), ([{"id": 1, "v": "WRONG"}, {"id": 3, "v": "c"}], DAY[1])
    )
    with monkeypatch.context() as patch:
        patch.setattr(rawcore, "rebuild", killing)
        assert snapshot.perform_run(REVERT, snapshot.revert_manifest("run-2", 2))[0] == "failed"
    assert snapshot.rawcore_keys() == [1, 3]
    assert snapshot.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 4, "v": "d"}], at=DAY[3])[0] == "succeeded"
    assert snapshot.rawcore_keys() == [1, 2, 4]
    assert snapshot.current() == [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 4, "v": "d"}]


def test_revert_refuses_a_history_whose_columns_changed_since_the_run(snapshot):
    snapshot.given(([{"id": 1, "v": "a"}], DAY[0]))
    snapshot.columns["w"] = "string"
    snapshot.evolve()
    before = snapshot.table(snapshot.history_spec).version()
    status, event = snapshot.perform_run(REVERT, snapshot.revert_manifest("run-1", 1))
    assert (status, event["error"]["code"]) == ("failed", "SCHEMA_CHANGED")
    assert snapshot.table(snapshot.history_spec).version() == before
