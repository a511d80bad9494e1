"""Change of the history policy of an existing history, on real tables."""

import pytest

from loader.contract.manifest.reads import CheckManifest
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.domain.reference import ReferenceEngine
from loader.engine.historization.invariants import check
from loader.engine.replay import SparkEngine
from metadata.domain.history.history_policy import HistoryPolicy
from tests.fixtures.spark import by_night
from tests.loader.histories import Kept
from tests.loader.reference.test_properties import batch, comparable_rows

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

EFFECTIVE = {"input": "effective", "time": "t"}
COLUMNS = {"id": "integer", "a": "string", "v": "string", "t": "bigint"}
A, ALL, V = {"track": ["a"]}, {}, {"track": ["v"], "untracked": "keep"}
# Policy and rows (id, a, v, t) of each load.
STORY = (
    (A, [(1, "x", "u1", 1), (2, "x", "u1", 1), (3, "x", "u1", 1)]),
    (A, [(1, "x", "u2", 5), (2, "x", "u2", 5)]),
    (ALL, [(1, "y", "u2", 9)]),
    (ALL, [(2, "x", "u9", 3), (3, "x", "u2", 9)]),
    (V, [(1, "z", "u2", 12), (2, "x", "u9", 12)]),
    (A, [(1, "x", "late", 7), (3, "y", "u3", 12)]),
)
# One column tracked, then all with late rows, then another one only.
SHORT = (STORY[0], STORY[3], STORY[4])


@pytest.mark.parametrize("story", [pytest.param(SHORT, id="short"), by_night(STORY, id="long")])
def test_spark_history_equals_the_reference_across_changes_of_tracked_columns(spark, tmp_path, story):
    described = {"id": "changes", "keys": ["id"], "columns": COLUMNS, "policy": EFFECTIVE | A}
    reference = ReferenceEngine(described)
    engine = SparkEngine(spark, str(tmp_path), reference.table.header)
    for n, (tracked, rows) in enumerate(story):
        delivery = batch(n, [dict(zip(COLUMNS, row, strict=True)) for row in rows])
        for table in (reference, engine):
            table.change_policy(HistoryPolicy.from_dict(EFFECTIVE | tracked))
            table.apply(delivery)
        assert comparable_rows(engine, without=("segment",)) == comparable_rows(reference, without=("segment",)), n


def test_load_under_a_policy_that_changes_the_form_of_versions_is_refused_and_writes_nothing(spark, tmp_path):
    item = Kept(spark, tmp_path)
    item.given(([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], "2024-01-01"), ([{"id": 1, "v": "a"}], "2024-01-02"))
    before = item.versions()
    item.policy = {"deletes": "tombstone"}
    status, event = item.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], at="2024-01-03")
    assert (status, event["error"]["code"]) == ("failed", "HISTORY_POLICY_CHANGED")
    assert item.versions() == before
    item.policy = {}
    assert item.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}], at="2024-01-03")[0] == "succeeded"


@pytest.mark.nightly
def test_check_has_no_findings_after_a_change_of_tracked_columns(spark, tmp_path):
    feed = Kept(spark, tmp_path, columns={"id": "integer", "v": "string", "w": "string", "t": "bigint"})
    feed.policy = EFFECTIVE
    feed.load([{"id": n, "v": "a", "w": "1", "t": 1} for n in (1, 2, 3)], at="2024-01-01")
    feed.load([{"id": n, "v": "a", "w": "2", "t": 5} for n in (1, 2)], at="2024-01-02")
    feed.policy = EFFECTIVE | {"track": ["v"], "untracked": "keep"}
    feed.load([{"id": 1, "v": "b", "w": "2", "t": 9}, {"id": 4, "v": "a", "w": "1", "t": 9}], at="2024-01-03")
    state = feed.state
    manifest = CheckManifest(
        state.qualified_name,
        feed.history_spec,
        feed.rawcore_spec,
        entity_key_components(state),
        row_hash_components(state),
        feed.policy,
    )
    assert check(spark, feed.warehouse, manifest, "check")["findings"] == []
