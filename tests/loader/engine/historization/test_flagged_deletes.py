"""Deltas whose rows flag deletes, on real tables."""

import pytest

from loader.domain.reference import ReferenceEngine
from loader.engine.historization import batches, difference
from tests.fixtures.spark import by_night
from tests.loader.harness import finished
from tests.loader.histories import Kept

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path"), pytest.mark.takes(seconds=12)]

DAY = [f"2024-01-{n:02d}T00:00:00Z" for n in range(1, 29)]
COLUMNS = {"id": "integer", "v": "string", "gone": "boolean"}
FLAGGED = {"input": "delta", "delete_flag": "gone"}


def row(id_: int, v: str | None = None, gone: bool | None = None) -> dict:
    return {"id": id_, "v": v, "gone": gone}


# A delete, one of an unknown key, one repeated, and a return.
BATCHES = [
    [row(1, "a"), row(2, "b"), row(3, "c", gone=False)],
    [row(1, gone=True), row(2, "B"), row(9, gone=True)],
    [row(1, gone=True), row(3, "c"), row(4, "d")],
    [row(1, "again"), row(2, "B"), row(4, gone=True)],
]


def reference(policy: dict) -> ReferenceEngine:
    table = ReferenceEngine({"keys": ["id"], "columns": COLUMNS, "policy": policy})
    for n, rows in enumerate(BATCHES):
        table.apply({"at": DAY[n], "run_id": f"run-{n + 1}", "rows": rows})
    return table


def load_all(item: Kept) -> list[dict]:
    counts = []
    for n, rows in enumerate(BATCHES):
        status, event = item.load(rows, at=DAY[n])
        assert status == "succeeded", event
        counts.append(event["counts"])
    return counts


def values(rows: list[dict]) -> list[tuple]:
    return sorted(((row["id"], row["v"]) for row in rows), key=str)


@pytest.fixture(params=["rewritten", "marked"])
def size(request, monkeypatch):
    """Treat the tables as small ones, which are rewritten, or as large ones, whose rows get deletion vectors."""
    if request.param == "marked":
        for module in (batches, difference):
            monkeypatch.setattr(module, "REWRITE_UP_TO_ROWS", 0)
        monkeypatch.setattr(batches, "ONE_TASK_UP_TO_ROWS", 0)


@pytest.mark.parametrize(
    ("size", "more"),
    [
        by_night("rewritten", {}),
        ("marked", {"deletes": "tombstone"}),
        by_night("rewritten", {"deletes": "tombstone"}),
        by_night("marked", {}),
    ],
    indirect=["size"],
)
@pytest.mark.usefixtures("size")
def test_a_flagged_row_ends_its_key_and_opens_no_version(spark, tmp_path, more):
    policy = FLAGGED | more
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=policy)
    counts = load_all(item)
    expected = reference(policy)
    expected_versions = [(r["id"], r["v"], r["state"], r["opened_by"], r["closed_by"]) for r in expected.rows()]
    versions = [(r["id"], r["v"], r["state"], r["opened_by"], r["closed_by"]) for r in item.history()]
    assert sorted(versions, key=str) == sorted(expected_versions, key=str)
    assert values(item.current()) == values(expected.current())
    assert [entry["deleted"] for entry in counts] == [0, 1, 0, 1]
    assert [entry["unchanged"] for entry in counts] == [0, 1, 2, 1]
    assert [entry["missing"] for entry in counts] == [0, 1, 1, 1]


@pytest.mark.nightly
def test_flagged_delete_removes_the_row_of_a_dataset_without_history(spark, tmp_path):
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=FLAGGED, historize=False)
    load_all(item)
    assert values(item.current()) == values(reference(FLAGGED).current())


@pytest.mark.nightly
def test_flagged_deletes_are_skipped_and_counted_if_the_policy_ignores_deletes(spark, tmp_path):
    policy = FLAGGED | {"deletes": "ignore"}
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=policy, historize=False)
    counts = load_all(item)
    assert values(item.current()) == values(reference(policy).current())
    assert [entry.get("skipped_deletes", 0) for entry in counts] == [0, 2, 1, 1]


def test_a_delete_and_a_value_of_one_key_conflict(spark, tmp_path):
    item = Kept(spark, tmp_path, columns=COLUMNS, policy=FLAGGED)
    status, event = item.load([row(1, "a"), row(1, "a", gone=True)], at=DAY[0])
    refused = finished(item.events, item.raw_state.key)["error"]["code"]
    assert (status, refused, event["status"]) == ("failed", "CONFLICTING_ROWS", "skipped")
