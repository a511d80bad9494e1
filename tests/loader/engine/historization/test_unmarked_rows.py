"""Loads of tables without deletion vectors: files with changed rows are rewritten, with the same result."""

from functools import partial

import pytest

from architecture.domain.steps.features import OPEN
from architecture.domain.steps.report_steps import plan_steps
from loader.contract.run_states import PRUNE
from loader.engine import replay
from loader.engine.tables.direct_commits import DirectFiles
from tests.loader.engine.historization.test_policies import CONTRACT, OWN
from tests.loader.histories import Kept

pytestmark = pytest.mark.spark

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
BATCHES = "loader.engine.historization.batches.REWRITE_UP_TO_ROWS"
FILE_BATCHES = "loader.engine.historization.history_batches.file_batches.REWRITE_UP_TO_ROWS"
# A snapshot with tombstones, a late row and batch files: each is written in another way.
EACH_WAY = {
    "snap-dbt-tombstone-delete-rerun-reinsert-delete",
    "eff-late-event-splits-history",
    "fivetran-doc-diagram-mixed-files",
}


@pytest.fixture(scope="module")
def outcomes(spark, tmp_path_factory):
    """Run the cases of the contract on tables without deletion vectors, each table treated as a large one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "plan_steps", partial(plan_steps, readers=OPEN))
        patch.setattr(BATCHES, -1)
        patch.setattr(FILE_BATCHES, -4)
        chosen = [case for case in CONTRACT if case.id in EACH_WAY]
        results = replay.replay(spark, str(tmp_path_factory.mktemp("unmarked")), chosen)
    return {outcome.id: outcome for outcome in results}


@pytest.mark.nightly
@pytest.mark.parametrize("case", sorted(EACH_WAY))
def test_contract_case_gives_the_expected_history_without_deletion_vectors(outcomes, case):
    assert outcomes[case].message == ""


@pytest.mark.nightly
def test_every_case_gives_the_expected_history_without_deletion_vectors(spark, tmp_path, monkeypatch):
    monkeypatch.setattr(replay, "plan_steps", partial(plan_steps, readers=OPEN))
    monkeypatch.setattr(BATCHES, -1)
    monkeypatch.setattr(FILE_BATCHES, -4)
    results = replay.replay(spark, str(tmp_path), [*CONTRACT, *OWN])
    assert {outcome.id: outcome.message for outcome in results if not outcome.passed} == {}


def test_only_files_with_changed_rows_are_written_anew(spark, tmp_path, monkeypatch):
    item = Kept(spark, tmp_path, readers=OPEN)
    item.given(([{"id": n, "v": "a"} for n in range(3)], DAY[0]), ([{"id": n, "v": "a"} for n in range(6)], DAY[1]))
    monkeypatch.setattr(BATCHES, -1)
    history = item.table(item.history_spec)
    before = paths(spark, history)
    status, event = item.load([{"id": n, "v": "b" if n == 5 else "a"} for n in range(6)], at=DAY[2])
    assert status == "succeeded", event
    assert len(before) == 2
    assert len(before & paths(spark, history)) == 1
    ended = [(key, value, end is not None) for key, value, _, end, _ in item.versions()]
    assert ended == [*((n, "a", False) for n in range(5)), (5, "a", True), (5, "b", False)]
    assert [row["v"] for row in item.current()] == ["a", "a", "a", "a", "a", "b"]


def test_a_load_that_changes_nothing_writes_no_file(spark, tmp_path, monkeypatch):
    item = Kept(spark, tmp_path, readers=OPEN)
    item.given(([{"id": n, "v": "a"} for n in range(3)], DAY[0]))
    monkeypatch.setattr(BATCHES, -1)
    history = item.table(item.history_spec)
    before = paths(spark, history)
    assert item.load([{"id": n, "v": "a"} for n in range(3)], at=DAY[1])[0] == "succeeded"
    assert paths(spark, history) == before


@pytest.mark.nightly
def test_a_pruned_history_has_no_deletion_vectors(spark, tmp_path):
    item = Kept(spark, tmp_path, readers=OPEN)
    first, second = ([{"id": 1, "v": v}, {"id": 2, "v": "b"}] for v in ("a", "A"))
    item.given((first, DAY[0]), (second, DAY[4]))
    item.load([{"id": 1, "v": "AA"}, {"id": 2, "v": "b"}], at=DAY[9])
    status, event = item.perform_run(PRUNE, item.prune_manifest(DAY[5]))
    assert (status, event["counts"]) == ("succeeded", {"versions": 3, "open": 2, "removed": 1})
    history = item.table(item.history_spec)
    assert sum(file.numLogicalRecords().get() for file in DirectFiles(spark, history).all) == 3
    features = history.snapshot().protocol().readerAndWriterFeatureNames()
    assert not features.contains("deletionVectors")


def paths(spark, table) -> set[str]:
    return {file.path() for file in DirectFiles(spark, table).all}
