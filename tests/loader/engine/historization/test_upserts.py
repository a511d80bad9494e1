"""Upserts of dated rows on real tables: rawcore is that of the same dataset with a history."""

import threading
from dataclasses import replace

import pytest

from architecture.domain.tables import event_log_table
from loader.contract.run_states import PRUNE, REVERT
from loader.domain.reference import ReferenceEngine
from tests.fixtures.spark import held_in_memory
from tests.loader.harness import finished
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path"), pytest.mark.takes(seconds=12)]

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"id": "integer", "v": "string", "t": "timestamp", "op": "string"}
FEED = {"input": "cdc", "time": "t", "op": "op"}
EFFECTIVE = {"input": "effective", "time": "t"}


def row(id_: int, v: str | None, day: int, op: str = "U") -> dict:
    return {"id": id_, "v": v, "t": DAY[day], "op": op}


# New keys, a change, a late row, a repeated row, a delete, the delete of an unknown key, and a return after both.
BATCHES = [
    [row(1, "a", 0, "I"), row(2, "b", 0, "I"), row(3, "c", 0, "I"), row(5, None, 4, "D")],
    [row(1, "A", 6), row(2, None, 5, "D"), row(3, "late", 0), row(4, "d", 3, "I"), row(4, "d", 3, "I")],
    [row(1, "between", 3), row(2, "too late", 4), row(5, "before its delete", 2), row(4, "D", 7)],
    [row(2, "back", 9), row(3, "c", 8), row(5, "after", 10), row(1, None, 7, "D")],
]


def make_dataset(spark, folder, *, historize: bool = False, policy: dict = FEED) -> Kept:
    folder.mkdir(exist_ok=True)
    return Kept(spark, folder, columns=COLUMNS, policy=policy, historize=historize)


def rawcore(item: Kept) -> list[tuple]:
    """Return the rows of rawcore with their hashes and runs."""
    spec = item.rawcore_spec
    names = [column.name for column in spec.columns if column.purpose != "loaded_at"]
    rows = item.table(spec).frame().selectExpr(*(f"CAST(`{name}` AS STRING)" for name in names)).collect()
    return sorted((tuple(row) for row in rows), key=str)


def reference(policy: dict, batches: list[list[dict]]) -> list[tuple]:
    table = ReferenceEngine({"keys": ["id"], "columns": COLUMNS, "policy": policy})
    for n, rows in enumerate(batches):
        table.apply({"at": DAY[10 + n], "run_id": str(n), "rows": rows})
    return sorted(((row["id"], row["v"]) for row in table.current()), key=str)


def load_batches(item: Kept, batches: list[list[dict]]) -> Kept:
    """Return the dataset after a load of each batch."""
    return item.given(*((rows, DAY[10 + n]) for n, rows in enumerate(batches)))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "policy",
    [
        FEED,
        pytest.param(FEED | {"late": "ignore", "track": ["v"]}, marks=pytest.mark.nightly),
        pytest.param(FEED | {"deletes": "ignore"}, marks=pytest.mark.nightly),
        pytest.param(EFFECTIVE | {"absent_keys": "deleted"}, marks=pytest.mark.nightly),
    ],
)
def test_upserts_give_the_rawcore_of_the_same_dataset_with_a_history(spark, tmp_path, policy):
    batches = BATCHES
    if policy["input"] == "effective":
        batches = [[change for change in rows if change["op"] != "D"] for rows in BATCHES]
    without, with_history = (
        make_dataset(spark, tmp_path / "u", policy=policy),
        make_dataset(spark, tmp_path / "h", policy=policy, historize=True),
    )
    for n, rows in enumerate(batches):
        counts = []
        for item in (without, with_history):
            status, event = item.load(rows, at=DAY[10 + n], allow_deletes=True)
            assert status == "succeeded", event
            counts.append(event["counts"])
        assert rawcore(without) == rawcore(with_history)
        versions = ("versions", "open", "opened", "closed", "removed")
        assert counts[0] == {name: count for name, count in counts[1].items() if name not in versions}
    assert sorted(((entry["id"], entry["v"]) for entry in without.current()), key=str) == reference(policy, batches)
    assert held_in_memory(spark) == []


def test_a_repeated_run_changes_nothing(spark, tmp_path):
    item = load_batches(make_dataset(spark, tmp_path), BATCHES[:2])
    assert sorted(((entry["id"], entry["v"]) for entry in item.current()), key=str) == reference(FEED, BATCHES[:2])
    before = rawcore(item)
    manifest = item.manifest(item.deliver(BATCHES[1]), at=DAY[11], run_id="run-2")
    _, event = item.again(manifest)
    assert (rawcore(item), event["warnings"][-1]) == (
        before,
        "The table already held this run: nothing was added.",
    )


class Killed(Exception):
    pass


@pytest.mark.nightly
def test_a_run_that_died_before_rawcore_leaves_no_event(spark, tmp_path, monkeypatch):
    item = load_batches(make_dataset(spark, tmp_path / "a"), BATCHES[:1])
    undisturbed = load_batches(make_dataset(spark, tmp_path / "b"), BATCHES)

    def die(*_args):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("loader.engine.historization.rawcore.write_live_rows", die)
        item.sequence += 1
        manifest = item.manifest(item.deliver([row(1, "lost", 20)]), at=DAY[12], run_id="dead")
        status, _ = item.attempt(manifest)
    assert status == "failed"
    for n, rows in enumerate(BATCHES[1:]):
        item.load(rows, at=DAY[13 + n])
    assert item.current() == undisturbed.current()


@pytest.mark.nightly
def test_revert_of_an_upsert_run_gives_the_rows_without_that_run(spark, tmp_path):
    item = load_batches(make_dataset(spark, tmp_path / "a"), BATCHES)
    never = load_batches(make_dataset(spark, tmp_path / "b"), [BATCHES[0], *BATCHES[2:]])
    status, event = item.perform_run(REVERT, item.revert_manifest("run-2", 2))
    assert (status, event.get("error"), event["counts"]) == ("succeeded", None, {"rows": 4})
    assert item.current() == never.current()
    for dataset in (item, never):
        dataset.load([row(1, "next", 20), row(4, "e", 1)], at=DAY[20])
    assert item.current() == never.current()


@pytest.mark.nightly
def test_history_switched_on_later_contains_the_versions_of_all_events(spark, tmp_path):
    item = load_batches(make_dataset(spark, tmp_path / "a"), BATCHES[:2])
    always = load_batches(make_dataset(spark, tmp_path / "b", historize=True), BATCHES)
    item.historize = True
    for n, rows in enumerate(BATCHES[2:]):
        status, event = item.load(rows, at=DAY[12 + n])
        assert status == "succeeded", event
    assert item.versions() == always.versions()
    assert rawcore(item) == rawcore(always)


@pytest.mark.nightly
def test_upserts_continue_after_the_history_is_switched_off(spark, tmp_path):
    item = load_batches(make_dataset(spark, tmp_path / "a", historize=True), BATCHES[:2])
    always = load_batches(make_dataset(spark, tmp_path / "b", historize=True), BATCHES)
    item.historize = False
    for n, rows in enumerate(BATCHES[2:]):
        status, event = item.load(rows, at=DAY[12 + n])
        assert status == "succeeded", event
    assert rawcore(item) == rawcore(always)


@pytest.mark.nightly
def test_upsert_refuses_a_table_with_rows_but_no_event_log(spark, tmp_path):
    item = load_batches(make_dataset(spark, tmp_path, policy={"input": "delta"}), [[row(1, "a", 0)]])
    item.policy = EFFECTIVE
    status, event = item.load([row(1, "b", 3)], at=DAY[11])
    assert (status, event["error"]["code"]) == ("failed", "EVENT_LOG_MISSING")
    assert "the table has 1 rows" in event["error"]["message"]


@pytest.mark.nightly
def test_another_time_column_is_refused(spark, tmp_path):
    item = replace(make_dataset(spark, tmp_path), columns=COLUMNS | {"s": "timestamp"}, policy=EFFECTIVE)
    load_batches(item, [[row(1, "a", 1) | {"s": DAY[1]}]])
    item.policy = EFFECTIVE | {"time": "s"}
    status, event = item.load([row(1, "b", 2) | {"s": DAY[3]}], at=DAY[11])
    assert (status, event["error"]["code"]) == ("failed", "HISTORY_POLICY_CHANGED")


def test_tombstones_without_a_history_are_refused_before_reading_the_source(spark, tmp_path):
    item = make_dataset(spark, tmp_path, policy=FEED | {"deletes": "tombstone"})
    item.prepare()
    item.sequence += 1
    manifest = item.manifest(tmp_path / "nowhere.jsonl", at=DAY[10], run_id="run-1")
    _, events = item.attempt(manifest, threading.Event())
    assert finished(events, item.state.key)["error"]["code"] == "LOAD_TYPE"


@pytest.mark.nightly
def test_a_prune_removes_events_and_older_rows_are_refused(spark, tmp_path):
    item = load_batches(make_dataset(spark, tmp_path), BATCHES)
    event_log = item.table(event_log_table(item.state))
    before, events = rawcore(item), event_log.rows()
    status, event = item.perform_run(PRUNE, item.prune_manifest(DAY[7]))
    assert (status, event.get("error")) == ("succeeded", None)
    assert event["counts"]["forgotten"] == events - event_log.rows() > 0
    assert rawcore(item) == before
    status, event = item.load([row(1, "too old", 2), row(3, "new", 20)], at=DAY[20])
    assert (status, event["counts"]["beyond_horizon"]) == ("succeeded", 1)
    assert [(entry["id"], entry["v"]) for entry in item.current() if entry["id"] in (1, 3)] == [(3, "new")]
