"""Row hashes in a real history match the values beside them after every change of columns."""

import pytest

from loader.contract.manifest.reads import CheckManifest
from loader.domain.historization.stage import entity_key_components, row_hash_components
from loader.engine.historization import invariants
from tests.loader.harness import Dataset

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

DAY = ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00Z", "2024-01-03T00:00:00Z", "2024-01-04T00:00:00Z"]
DATED = {"input": "effective", "time": "t"}


@pytest.fixture
def item(spark, tmp_path):
    def make(policy: dict | None = None, **columns: str) -> Dataset:
        return Dataset(spark, tmp_path, columns=columns, policy=policy or {})

    return make


def findings(item: Dataset) -> dict[str, int]:
    state = item.state
    manifest = CheckManifest(
        state.qualified_name,
        item.history_spec,
        item.rawcore_spec,
        entity_key_components(state),
        row_hash_components(state),
        item.policy,
    )
    finding_rows = invariants.check(item.spark, item.warehouse, manifest, "check")["findings"]
    return {finding["code"]: finding["count"] for finding in finding_rows}


def test_a_version_keeps_the_hash_over_the_columns_it_was_written_with(item):
    dated = item(DATED, id="integer", v="string", w="string", t="timestamp")
    dated.load([{"id": 1, "v": "a", "w": "p", "t": DAY[0]}, {"id": 2, "v": "a", "w": "p", "t": DAY[0]}], at=DAY[0])
    del dated.columns["w"]
    dated.policy = DATED | {"track": ["v"]}
    dated.columns["x"] = "string"
    dated.load([{"id": 2, "v": "b", "t": DAY[1]}, {"id": 3, "v": "a", "x": "q", "t": DAY[2]}], at=DAY[2])
    assert findings(dated) == {}
    history = dated.table(dated.history_spec)
    dated.spark.sql(f"UPDATE {history.sql_name} SET row_hash = repeat('0', 64) WHERE id = 1")
    assert findings(dated) == {"ROW_HASH": 1, "RAWCORE_DIFFERS": 1}


@pytest.mark.nightly
@pytest.mark.parametrize(
    "policy",
    [pytest.param({}, id="dated by the load"), pytest.param(DATED, id="dated by a column", marks=pytest.mark.nightly)],
)
def test_a_key_that_becomes_text_is_still_the_same_key(item, policy):
    ledger = item(policy, id="date", v="string", t="timestamp")
    rows = [{"id": "2024-03-01", "v": "a", "t": DAY[0]}, {"id": "2024-03-02", "v": "b", "t": DAY[0]}]
    ledger.load(rows, at=DAY[0])
    ledger.columns["id"] = "string"
    status, event = ledger.load([*rows, {"id": "later", "v": "c", "t": DAY[0]}], at=DAY[1])
    assert (status, event["counts"]["new"], event["counts"]["unchanged"]) == ("succeeded", 1, 2)
    assert [row["id"] for row in ledger.history()] == ["2024-03-01", "2024-03-02", "later"]
    assert [row["id"] for row in ledger.current()] == ["2024-03-01", "2024-03-02", "later"]
    assert findings(ledger) == {}
