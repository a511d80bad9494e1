"""Prune and compaction on real tables: the remaining content is unchanged."""

import random

import pytest

from loader.contract.run_states import COMPACT, PRUNE
from loader.engine.maintenance import compaction
from loader.engine.tables import fragmentation
from loader.engine.tables.direct_commits import DirectFiles
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path"), pytest.mark.takes(seconds=15)]

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
FEED = {"input": "effective", "time": "t"}
COLUMNS = {"id": "integer", "v": "string", "t": "bigint"}


def kept_of(versions: list[tuple], horizon: int) -> list[tuple]:
    return [v for v in versions if v[3] is None or int(v[3]) >= horizon]


def rows(draw: random.Random, count: int, low: int, high: int) -> list[dict]:
    drawn_rows = {}
    for _ in range(count):
        id_, t = draw.randint(1, 30), draw.randint(low, high)
        drawn_rows[id_, t] = {"id": id_, "v": draw.choice("abc"), "t": t}
    return list(drawn_rows.values())


POLICIES = {
    "feed": FEED,
    "cdc": {"input": "cdc", "time": "t", "op": "op"},
    "tombstones": {"input": "cdc", "time": "t", "op": "op", "deletes": "tombstone"},
    "tracked": {"input": "effective", "time": "t", "track": ["v"]},
}


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1, 4))
@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_late_rows_after_the_prune_horizon_give_the_history_of_an_unpruned_table(spark, tmp_path, policy, seed):
    draw, horizon = random.Random(seed), 50
    columns = (
        dict(COLUMNS) | ({"op": "string"} if "op" in policy else {}) | ({"u": "integer"} if "track" in policy else {})
    )
    (tmp_path / "whole").mkdir()
    pruned = Kept(spark, tmp_path, columns=columns, policy=policy)
    whole = Kept(spark, tmp_path / "whole", columns=columns, policy=policy, name="whole")
    later = ((1, 100), (horizon, 120), (horizon, 130))
    for n, (low, high) in enumerate(later):
        batch = rows(draw, 250 if n == 0 else 60, low, high)
        for row in batch:
            row |= {"op": draw.choice("IUUD")} if "op" in policy else {}
            row |= {"u": draw.randint(1, 3)} if "track" in policy else {}
        for dataset in (pruned, whole):
            assert dataset.load(batch, at=DAY[n])[0] == "succeeded"
        assert pruned.versions() == kept_of(whole.versions(), horizon if n else -1)
        if n == 0:
            status, event = pruned.perform_run(PRUNE, pruned.prune_manifest(str(horizon)))
            assert (status, event.get("error")) == ("succeeded", None)
            assert event["counts"]["removed"] > 20
            assert event["counts"]["forgotten"] > 10
            assert pruned.versions() == kept_of(whole.versions(), horizon)
    assert pruned.rawcore_keys() == whole.rawcore_keys()


@pytest.mark.nightly
def test_late_rows_before_the_prune_horizon_are_counted_and_restore_no_versions(spark, tmp_path):
    item = Kept(spark, tmp_path, columns=COLUMNS | {"op": "string"}, policy={"input": "cdc", "time": "t", "op": "op"})

    def row(id_, v, t, op="U"):
        return {"id": id_, "v": v, "t": t, "op": op}

    item.load([row(1, "a", 1), row(1, "b", 5), row(1, "c", 60), row(2, "x", 1), row(2, None, 9, "D")], at=DAY[0])
    archive = str(tmp_path / "archive")
    manifest = item.prune_manifest("50", archive)
    assert item.perform_run(PRUNE, manifest)[0] == "succeeded"
    expected = [(1, "b", "5", "60", "changed"), (1, "c", "60", None, "changed")]
    assert item.versions() == expected
    archived = spark.read.format("delta").load(archive)
    assert sorted((r["id"], r["v"], r["archived_by_run_id"]) for r in archived.collect()) == [
        (1, "a", "run-2"),
        (2, "x", "run-2"),
    ]
    before = item.table(item.history_spec).version()
    assert item.perform_run(PRUNE, manifest)[0] == "succeeded"  # again: nothing, and the archive stays
    assert item.table(item.history_spec).version() == before
    assert spark.read.format("delta").load(archive).count() == 2
    late = [row(1, "z", 3), row(2, "y", 4), row(2, "y", 12), row(3, "new", 2), row(1, "late", 55)]
    status, event = item.load(late, at=DAY[1])
    assert (status, event["counts"]["beyond_horizon"], event["counts"]["late"]) == ("succeeded", 2, 1)
    assert item.versions() == [
        (1, "b", "5", "55", "changed"),
        (1, "c", "60", None, "changed"),
        (1, "late", "55", "60", "changed"),
        (2, "y", "12", None, "new"),
        (3, "new", "2", None, "new"),
    ]


@pytest.mark.core
def test_a_snapshots_history_is_pruned_by_date(spark, tmp_path):
    item = Kept(spark, tmp_path)
    item.given(
        ([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}], DAY[0]),
        ([{"id": 1, "v": "A"}, {"id": 3, "v": "c"}], DAY[4]),
        ([{"id": 1, "v": "AA"}, {"id": 3, "v": "c"}], DAY[9]),
    )
    status, event = item.perform_run(PRUNE, item.prune_manifest(DAY[9]))
    assert (status, event["counts"]) == ("succeeded", {"versions": 3, "open": 2, "removed": 2})
    assert [(v[0], v[1]) for v in item.versions()] == [(1, "A"), (1, "AA"), (3, "c")]
    status, event = item.load([{"id": 1, "v": "AA"}, {"id": 2, "v": "b"}], at=DAY[12])
    assert (status, event["counts"]["versions"], event["counts"]["open"]) == ("succeeded", 4, 2)


@pytest.mark.nightly
def test_load_reports_a_crowded_table_and_compaction_removes_its_deletion_vectors(spark, tmp_path, monkeypatch):
    item = Kept(spark, tmp_path).given(([{"id": n, "v": "a"} for n in range(4)], DAY[0]))
    history = item.table(item.history_spec)
    monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", -1)
    _, event = item.load([{"id": n, "v": "b" if n == 0 else "a"} for n in range(4)], at=DAY[1])
    assert not event["crowded"]
    _, event = item.load([{"id": n, "v": "c" if n < 3 else "a"} for n in range(4)], at=DAY[2])
    assert item.history_spec.qualified_name in event["crowded"]
    before = item.versions()
    assert item.perform_run(COMPACT, item.compact_manifest())[0] == "succeeded"
    assert not any(file.deletionVector() for file in DirectFiles(spark, history).all)
    assert item.versions() == before


@pytest.mark.nightly
def test_compaction_removes_deletion_vectors_of_a_file_too_large_to_merge(spark, tmp_path, monkeypatch):
    item = Kept(spark, tmp_path).given(([{"id": n, "v": "a"} for n in range(4)], DAY[0]))
    monkeypatch.setattr("loader.engine.historization.batches.REWRITE_UP_TO_ROWS", -1)
    monkeypatch.setattr(fragmentation, "SMALL_FILE_BYTES", 1)
    monkeypatch.setattr(compaction, "COMPACTED_FILE_BYTES", 2)
    item.load([{"id": n, "v": "b"} for n in range(4)], at=DAY[1])
    before = item.versions()
    assert item.perform_run(COMPACT, item.compact_manifest())[0] == "succeeded"
    assert not any(file.deletionVector() for file in DirectFiles(spark, item.table(item.history_spec)).all)
    assert item.versions() == before


@pytest.mark.nightly
def test_compactions_limit_the_number_of_files_over_many_loads(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(fragmentation, "MOST_SMALL_FILES", 3)
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=FEED)
    most, compactions = 0, 0
    for n in range(9):
        status, event = item.load([{"id": n, "v": "x", "t": n}, {"id": 0, "v": str(n), "t": 100 + n}], at=DAY[n])
        assert status == "succeeded"
        crowded = {e["dataset"] for e in item.events if e.get("crowded")}
        tables = [item.table(spec) for spec in item.tables()]
        most = max(most, *(table.snapshot().numOfFiles() for table in tables))
        if crowded:
            before = item.versions()
            assert item.perform_run(COMPACT, item.compact_manifest())[0] == "succeeded"
            table_results = item.answer["tables"]
            assert all(table["files_after"] < table["files_before"] for table in table_results.values())
            assert all(table["version_after"] > table["version_before"] for table in table_results.values())
            assert item.versions() == before
            compactions += 1
    assert compactions
    assert most <= 3 * (3 + 2)
