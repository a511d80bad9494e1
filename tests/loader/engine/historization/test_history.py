"""Loads on real Spark and Delta: content of history and rawcore after successful and failed runs."""

import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loader.domain.historization.history import parse_instant
from loader.domain.reference import ReferenceEngine
from tests.fixtures.spark import by_night, held_in_memory
from tests.loader.harness import Dataset, stable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

DAY = ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z", "2024-01-04T00:00:00Z"]


@pytest.fixture
def item(spark, tmp_path):
    return Dataset(spark, tmp_path)


def versions(dataset: Dataset) -> list[tuple]:
    return [(row["id"], row["v"], row["started"], row["ended"], row["state"]) for row in dataset.history()]


@pytest.mark.core
def test_a_snapshot_opens_changes_closes_and_reopens_versions(item):
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}], DAY[0]))
    item.load([{"id": 1, "v": "A"}, {"id": 3, "v": "c"}], at=DAY[1])
    status, event = item.load([{"id": 1, "v": "A"}, {"id": 2, "v": "b"}, {"id": 4, "v": "d"}], at=DAY[2])

    assert versions(item) == [
        (1, "a", DAY[0], DAY[1], "changed"),
        (1, "A", DAY[1], None, "changed"),
        (2, "b", DAY[0], DAY[1], "deleted"),
        (2, "b", DAY[2], None, "new"),
        (3, "c", DAY[0], DAY[2], "deleted"),
        (4, "d", DAY[2], None, "new"),
    ]
    assert item.current() == [{"id": 1, "v": "A"}, {"id": 2, "v": "b"}, {"id": 4, "v": "d"}]
    assert status == "succeeded"
    assert event["counts"] == {
        "rows": 3, "duplicates": 0, "new": 1, "reappeared": 1, "changed": 0, "deleted": 1, "unchanged": 1,
        "versions": 6, "open": 3,
    }  # fmt: skip


def test_load_makes_a_single_commit_in_history_and_rawcore(item):
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]))
    history, rawcore = item.table(item.history_spec), item.table(item.rawcore_spec)
    before = history.version(), rawcore.version()
    item.load([{"id": 1, "v": "x"}, {"id": 3, "v": "c"}], at=DAY[1])
    assert (history.version(), rawcore.version()) == (before[0] + 1, before[1] + 1)


def test_load_without_changes_is_recorded_as_applied(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    item.load([{"id": 1, "v": "a"}], at=DAY[2])
    last_run = item.table(item.history_spec).newest_run_commit()
    assert (last_run.run_id, last_run.at) == ("run-2", DAY[2])
    status, event = item.load([{"id": 1, "v": "z"}], at=DAY[1])
    assert (status, event["error"]["code"]) == ("failed", "NOT_LATER")


def test_refused_run_writes_nothing_to_raw(item):
    item.given(([{"id": 1, "v": "a"}], DAY[1]))
    raw = item.table(item.tables()[0])
    before = raw.version()
    item.load([{"id": 1, "v": "z"}], at=DAY[0])
    assert raw.version() == before


@pytest.mark.core
def test_the_same_run_again_adds_no_commit(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    item.load([{"id": 1, "v": "b"}], at=DAY[1])
    manifest = item.manifest(item.deliver([{"id": 1, "v": "other"}]), at=DAY[1], run_id="run-2")
    before = item.history(), item.table(item.history_spec).version()
    status, event = item.again(manifest)
    assert status == "succeeded"
    assert event["warnings"]
    assert (item.history(), item.table(item.history_spec).version()) == before
    assert item.current() == [{"id": 1, "v": "b"}]


def test_load_with_a_sequence_number_behind_the_table_fails(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]), ([{"id": 1, "v": "b"}], DAY[1]))
    item.sequence = 0
    status, event = item.load([{"id": 1, "v": "c"}], at=DAY[2], run_id="restored")
    assert (status, event["error"]["code"]) == ("failed", "sequence_behind_table")


@pytest.mark.parametrize("point", ["before history", "between history and rawcore"])
def test_run_killed_before_a_commit_and_repeated_gives_the_correct_tables(item, monkeypatch, point):
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]))
    target = {
        "before history": "loader.engine.historization.history.write_history",
        "between history and rawcore": "loader.engine.historization.rawcore.write_rawcore",
    }

    def killed(*_args, **_kwargs):
        raise SystemError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(target[point], killed)
        status, _ = item.load([{"id": 1, "v": "x"}, {"id": 3, "v": "c"}], at=DAY[1])
        assert status == "failed"
    manifest = item.manifest(item.deliver([{"id": 1, "v": "x"}, {"id": 3, "v": "c"}]), at=DAY[1], run_id="run-2")
    assert item.again(manifest)[0] == "succeeded"
    assert [row[:4] for row in versions(item)] == [
        (1, "a", DAY[0], DAY[1]),
        (1, "x", DAY[1], None),
        (2, "b", DAY[0], DAY[1]),
        (3, "c", DAY[1], None),
    ]
    assert item.current() == [{"id": 1, "v": "x"}, {"id": 3, "v": "c"}]


def test_rawcore_catches_up_with_a_history_that_an_abandoned_run_left_ahead(item, monkeypatch):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))

    def killed(*_args, **_kwargs):
        raise SystemError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("loader.engine.historization.rawcore.write_rawcore", killed)
        item.load([{"id": 1, "v": "b"}, {"id": 2, "v": "n"}], at=DAY[1])
    item.load([{"id": 1, "v": "b"}, {"id": 2, "v": "n"}], at=DAY[2])
    assert item.current() == [{"id": 1, "v": "b"}, {"id": 2, "v": "n"}]


def test_an_empty_snapshot_is_refused_and_closes_nothing(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    before = item.table(item.history_spec).version()
    status, event = item.load([], at=DAY[1])
    assert (status, event["error"]["code"]) == ("failed", "EMPTY_SNAPSHOT")
    assert item.table(item.history_spec).version() == before


def test_an_empty_snapshot_that_the_run_allows_closes_everything(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    status, event = item.load([], at=DAY[1], allow_empty=True)
    assert (status, event["counts"]["deleted"], event["counts"]["open"]) == ("succeeded", 1, 0)


GUARDED = {"deletes_share": 0.2, "deletes_keys": 2}
TEN = [{"id": place, "v": "a"} for place in range(10)]


@pytest.mark.parametrize("historize", [by_night(True), False])
def test_a_snapshot_that_lacks_many_keys_stops_until_the_run_allows_it(spark, tmp_path, historize):
    item = Dataset(spark, tmp_path, historize=historize).given((TEN, DAY[0]))
    before = item.current()
    status, event = item.load(TEN[:7], at=DAY[1], run_id="short", **GUARDED)
    assert (status, event["error"]["code"], event["error"]["count"]) == ("failed", "TOO_MANY_DELETES", 3)
    assert item.current() == before
    status, event = item.load(TEN[:7], at=DAY[1], run_id="short", allow_deletes=True, **GUARDED)
    assert (status, event["counts"]["deleted"]) == ("succeeded", 3)


@pytest.mark.nightly
def test_a_snapshot_of_dated_rows_that_lacks_many_keys_stops_until_the_run_allows_it(spark, tmp_path):
    columns = {"id": "integer", "v": "string", "t": "timestamp"}
    item = Dataset(spark, tmp_path, columns=columns, policy={"input": "snapshot", "time": "t"})
    rows = [row | {"t": DAY[0]} for row in TEN]
    item.load(rows, at=DAY[0])
    status, event = item.load(rows[:7], at=DAY[1], run_id="short", **GUARDED)
    assert (status, event["error"]["code"], event["error"]["count"]) == ("failed", "TOO_MANY_DELETES", 3)
    status, event = item.load(rows[:7], at=DAY[1], run_id="short", allow_deletes=True, **GUARDED)
    assert (status, event["counts"]["deleted"]) == ("succeeded", 3)


@pytest.mark.core
def test_refused_delivery_writes_nothing_and_skips_dependent_datasets(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    before = [item.table(table).version() for table in item.tables()]
    status, event = item.load([{"id": 1, "v": "a"}, {"id": 1, "v": "b"}], at=DAY[1])
    assert (status, event["status"]) == ("failed", "skipped")
    assert event["skipped_because"] == "raw.raw_t_item"
    assert [item.table(table).version() for table in item.tables()] == before


def test_a_canceled_run_writes_nothing(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    before = [item.table(table).version() for table in item.tables()]
    has_asked = threading.Event()
    has_asked.set()
    item.sequence += 1
    manifest = item.manifest(item.deliver([{"id": 2, "v": "b"}]), at=DAY[1], run_id="run-2")
    status, events = item.attempt(manifest, canceled=has_asked)
    assert status == "canceled"
    assert {e["status"] for e in events if e["event"] == "dataset_finished"} == {"canceled"}
    assert [item.table(table).version() for table in item.tables()] == before


@pytest.mark.nightly
def test_an_added_column_opens_versions_only_where_it_has_a_value(item):
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]))
    item.columns = {"id": "integer", "v": "string", "extra": "string"}
    status, event = item.load([{"id": 1, "v": "a", "extra": None}, {"id": 2, "v": "b", "extra": "e"}], at=DAY[1])
    assert status == "succeeded"
    assert (event["counts"]["unchanged"], event["counts"]["changed"]) == (1, 1)


def test_adding_a_column_is_one_operation_per_table(item):
    item.given()
    item.columns = {"id": "integer", "v": "string", "extra": "decimal(10,2)"}
    assert item.evolve() == [
        "add_column raw.raw_t_item.extra string",
        "add_column rawcore.rc_t_item.extra decimal(10,2)",
        "add_column rawcore.rc_t_item_hist.extra decimal(10,2)",
    ]
    assert item.evolve() == []


def test_a_table_knows_the_stable_keys_of_its_columns(item):
    item.given()
    observed = item.table(item.history_spec).observe()
    assert {c.name: c.key for c in observed.columns} == {c.name: c.key for c in item.history_spec.columns}


def test_rawcore_without_history_equals_the_newest_snapshot(spark, tmp_path):
    item = Dataset(spark, tmp_path, historize=False)
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]))
    status, event = item.load([{"id": 1, "v": "x"}, {"id": 3, "v": "c"}], at=DAY[1])
    assert status == "succeeded"
    assert item.current() == [{"id": 1, "v": "x"}, {"id": 3, "v": "c"}]
    assert {name: event["counts"][name] for name in ("new", "changed", "deleted")} == {
        "new": 1, "changed": 1, "deleted": 1,
    }  # fmt: skip


@pytest.mark.nightly
def test_column_names_that_need_quotes_are_loaded(spark, tmp_path):
    item = Dataset(spark, tmp_path, columns={"id": "integer", "größe `x`": "float", "select": "string"})
    status, event = item.load([{"id": 1, "größe `x`": 1.5, "select": "s"}], at=DAY[0])
    assert status == "succeeded", event
    item.load([{"id": 1, "größe `x`": 2.5, "select": "s"}], at=DAY[1])
    assert [row["größe `x`"] for row in item.history()] == [1.5, 2.5]


@pytest.mark.nightly
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.integers(1, 6), st.sampled_from(["x", "y", None]), min_size=1), min_size=2, max_size=4)
)
def test_spark_history_equals_that_of_the_reference_engine(spark, tmp_path_factory, snapshots):
    item = Dataset(spark, tmp_path_factory.mktemp("property"))
    reference = ReferenceEngine(
        {"keys": ["id"], "columns": item.columns, "policy": {"input": "snapshot", "time": "load", "deletes": "close"}}
    )
    for n, snapshot in enumerate(snapshots):
        rows = [{"id": key, "v": value} for key, value in snapshot.items()]
        item.load(rows, at=DAY[n])
        reference.apply({"at": DAY[n], "run_id": f"run-{n + 1}", "rows": rows})
    columns = ("id", "v", "state", "opened_by", "closed_by")
    expected = [
        (*(row[name] for name in columns), _instant(row["valid_from"]), _instant(row["valid_to"]))
        for row in reference.rows()
    ]
    actual = [
        (*(row[name] for name in columns), _instant(row["started"]), _instant(row["ended"])) for row in item.history()
    ]
    assert sorted(actual, key=str) == sorted(expected, key=str)


def _instant(value):
    return None if value is None else parse_instant(str(value))


def test_table_folders_are_named_by_stable_keys(item):
    item.given()
    assert (item.folder / "warehouse" / stable("hist", "item") / "_delta_log").is_dir()


@pytest.mark.parametrize("historize", [True, by_night(False)])
def test_loads_of_a_large_table_with_deletion_vectors_give_the_correct_rows(spark, tmp_path, monkeypatch, historize):
    """Three loads: a file with deletion marks gets more, and a file without remaining rows is removed."""
    item = Dataset(spark, tmp_path, historize=historize)
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}], DAY[0]))
    monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", -1)
    item.load([{"id": 1, "v": "A"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}], at=DAY[1])
    status, event = item.load([{"id": 1, "v": "A"}, {"id": 3, "v": "C"}, {"id": 4, "v": "d"}], at=DAY[2])
    assert status == "succeeded", event
    assert item.current() == [{"id": 1, "v": "A"}, {"id": 3, "v": "C"}, {"id": 4, "v": "d"}]
    assert {name: event["counts"][name] for name in ("rows", "new", "changed", "deleted", "unchanged")} == {
        "rows": 3,
        "new": 1,
        "changed": 1,
        "deleted": 1,
        "unchanged": 1,
    }
    if historize:
        assert versions(item) == [
            (1, "a", DAY[0], DAY[1], "changed"),
            (1, "A", DAY[1], None, "changed"),
            (2, "b", DAY[0], DAY[2], "deleted"),
            (3, "c", DAY[0], DAY[2], "changed"),
            (3, "C", DAY[2], None, "changed"),
            (4, "d", DAY[2], None, "new"),
        ]


@pytest.mark.parametrize("policy", [{"input": "delta"}, by_night({"deletes": "ignore"})])
def test_absent_keys_are_kept_by_deltas_and_by_ignored_deletes(spark, tmp_path, policy):
    item = Dataset(spark, tmp_path, policy=policy)
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], DAY[0]))
    status, event = item.load([{"id": 1, "v": "A"}], at=DAY[1])
    assert status == "succeeded", event
    assert item.current() == [{"id": 1, "v": "A"}, {"id": 2, "v": "b"}]
    assert (event["counts"]["changed"], event["counts"]["versions"], event["counts"]["open"]) == (1, 3, 2)


@pytest.mark.parametrize("large", [by_night(False), True])
def test_tombstones_and_in_place_updates_give_the_expected_versions(spark, tmp_path, monkeypatch, large):
    columns = {"id": "integer", "v": "string", "note": "string"}
    item = Dataset(spark, tmp_path, columns=columns, policy={"deletes": "tombstone", "track": ["v"]})
    item.given(([{"id": 1, "v": "a", "note": "x"}, {"id": 2, "v": "b", "note": "x"}], DAY[0]))
    if large:
        monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", -1)
    item.load([{"id": 1, "v": "a", "note": "y"}], at=DAY[1])
    status, event = item.load([{"id": 1, "v": "A", "note": "y"}, {"id": 2, "v": "b", "note": "z"}], at=DAY[2])
    assert status == "succeeded", event
    assert [(*row[:4], row[4]) for row in versions(item)] == [
        (1, "a", DAY[0], DAY[2], "live"),
        (1, "A", DAY[2], None, "live"),
        (2, "b", DAY[0], DAY[1], "live"),
        (2, "b", DAY[1], DAY[2], "deleted"),
        (2, "b", DAY[2], None, "live"),
    ]
    assert [row["note"] for row in item.history()] == ["y", "y", "x", "x", "z"]
    assert [row["note"] for row in item.current()] == ["y", "z"]
    assert event["counts"]["reappeared"] == 1


@pytest.mark.parametrize("large", [False, by_night(True)])
def test_late_feed_row_splits_its_version_and_rawcore_keeps_the_newest(spark, tmp_path, monkeypatch, large):
    columns = {"id": "integer", "v": "string", "at": "timestamp", "op": "string"}
    item = Dataset(spark, tmp_path, columns=columns, policy={"input": "cdc", "time": "at", "op": "op"})
    item.given(([{"id": 1, "v": "a", "at": DAY[0], "op": "I"}, {"id": 1, "v": "c", "at": DAY[2], "op": "U"}], DAY[2]))
    if large:
        monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", -1)
    item.load([{"id": 2, "v": "x", "at": DAY[0], "op": "I"}, {"id": 2, "at": DAY[3], "op": "D"}], at=DAY[2])
    status, event = item.load([{"id": 1, "v": "b", "at": DAY[1], "op": "U"}], at=DAY[2])
    assert status == "succeeded", event
    assert [row[:4] for row in versions(item)] == [
        (1, "a", DAY[0], DAY[1]),
        (1, "b", DAY[1], DAY[2]),
        (1, "c", DAY[2], None),
        (2, "x", DAY[0], DAY[3]),
    ]
    assert [row["v"] for row in item.current()] == ["c"]
    assert event["counts"]["late"] == 1


@pytest.mark.nightly
def test_raw_of_a_feed_stores_the_rows_of_each_run_once(spark, tmp_path):
    columns = {"id": "integer", "v": "string", "at": "timestamp", "op": "string"}
    item = Dataset(spark, tmp_path, columns=columns, policy={"input": "cdc", "time": "at", "op": "op"})
    item.given(([{"id": 1, "v": "a", "at": DAY[0], "op": "I"}], DAY[0]))
    item.load([{"id": 1, "v": "b", "at": DAY[1], "op": "U"}], at=DAY[1])
    path = item.deliver([{"id": 1, "v": "b", "at": DAY[1], "op": "U"}])
    item.again(item.manifest(path, at=DAY[1], run_id="run-2"))
    raw = item.table(item.tables()[0]).frame()
    assert sorted(row["v"] for row in raw.collect()) == ["a", "b"]


@pytest.mark.core
def test_load_leaves_nothing_cached_in_memory(item):
    item.given(([{"id": 1, "v": "a"}], DAY[0]))
    item.load([{"id": 1, "v": "b"}], at=DAY[1])
    assert held_in_memory(item.spark) == []


@pytest.mark.parametrize(
    ("policy", "rows"),
    [
        ({"input": "delta"}, [{"id": 1, "v": "a"}, {"id": 3, "v": "C"}, {"id": 5, "v": "e"}]),
        by_night(
            {"input": "snapshot", "deletes": "ignore"}, [{"id": 1, "v": "a"}, {"id": 3, "v": "C"}, {"id": 5, "v": "e"}]
        ),
    ],
)
def test_absent_keys_of_a_batch_without_deletes_are_counted_as_missing(spark, tmp_path, policy, rows):
    item = Dataset(spark, tmp_path, policy=policy)
    item.given(([{"id": n, "v": letter} for n, letter in enumerate("abcd", start=1)], DAY[0]))
    counts = item.load(rows, at=DAY[1])[1]["counts"]
    assert (counts["unchanged"], counts["changed"], counts["new"], counts["missing"]) == (1, 1, 1, 2)
