"""Changes of a run in a history, key by key, read from the results of real loads."""

import csv

import pytest

from loader.contract.manifest.reads import ReadManifest
from loader.domain.historization.history import DELETED
from loader.engine.queries.reads import read
from metadata.domain.history.history_policy import TOMBSTONE, HistoryPolicy
from tests.fixtures.spark import by_night
from tests.loader.harness import Dataset

pytestmark = pytest.mark.spark
DAY = [f"2024-01-0{day}T00:00:00+00:00" for day in range(1, 5)]


@pytest.mark.parametrize(
    "policy", [by_night({}, id="deletes close"), pytest.param({"deletes": TOMBSTONE}, id="deletes leave a tombstone")]
)
def test_run_changes_are_inserts_updates_deletes_and_returns(spark, tmp_path, policy):
    item = Dataset(spark, tmp_path, policy=policy)
    item.load([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}], at=DAY[0])
    item.load([{"id": 1, "v": "A"}, {"id": 3, "v": "c"}], at=DAY[1])
    item.load([{"id": 1, "v": "A"}, {"id": 2, "v": "b2"}, {"id": 3, "v": "c"}, {"id": 4, "v": "d"}], at=DAY[2])

    def changes_of(run: str, **more: object) -> list[tuple]:
        known = {"tombstone": HistoryPolicy.from_dict(policy).label(DELETED)} if policy else {}
        manifest = ReadManifest("changes", item.history_spec, arguments={"run_id": run, **known, **more})
        answer = read(spark, item.warehouse, manifest, "changes")
        at = {name: place for place, name in enumerate(answer["columns"])}

        def value(row: list | None) -> str | None:
            return row[at["v"]] if row is not None else None

        changes = [(change["op"], value(change["before"]), value(change["after"])) for change in answer["changes"]]
        return [*changes, "more"] if answer["truncated"] else changes

    assert changes_of("run-1") == [("I", None, "a"), ("I", None, "b"), ("I", None, "c")]
    assert changes_of("run-2") == [("U", "a", "A"), ("D", "b", None)]
    assert changes_of("run-3") == [("R", None, "b2"), ("I", None, "d")]
    assert changes_of("run-2", op="D") == [("D", "b", None)]
    assert changes_of("run-3", op="I") == [("I", None, "d")]
    assert changes_of("run-3", op="R") == [("R", None, "b2")]
    assert changes_of("run-1", limit=2) == [("I", None, "a"), ("I", None, "b"), "more"]
    assert changes_of("run-1", limit=2, after={"id": "2"}) == [("I", None, "c")]
    assert changes_of("run-1", sort="v", descending=True, offset=1) == [("I", None, "b"), ("I", None, "a")]
    assert changes_of("run-2", sort="v", descending=True) == [("D", "b", None), ("U", "a", "A")]
    assert changes_of("run-2", column="v", comparison="equals", value="b") == [("D", "b", None)]
    assert changes_of("run-3", find="B2") == [("R", None, "b2")]
    assert changes_of("nowhere") == []

    def exported_changes(run: str, **more: object) -> list[tuple]:
        arguments = {"run_id": run, "path": str(tmp_path / "changes.csv"), **more}
        arguments |= {"tombstone": HistoryPolicy.from_dict(policy).label(DELETED)} if policy else {}
        answer = read(spark, item.warehouse, ReadManifest("export", item.history_spec, arguments=arguments), "export")
        rows = list(csv.DictReader((tmp_path / "changes.csv").open(newline="")))
        assert answer["exported"] == len(rows)
        return [(row["op"], row["before.v"] or None, row["after.v"] or None) for row in rows]

    assert [exported_changes(f"run-{run}") == changes_of(f"run-{run}") for run in (1, 2, 3)] == [True] * 3
    assert exported_changes("run-3", op="R") == [("R", None, "b2")]
    assert exported_changes("run-2", sort="v", descending=True) == [("D", "b", None), ("U", "a", "A")]
