"""Deltas whose run also finds the keys that the source deleted, from the source to the history.

test_policies.py compares the engine with the reference; tests/loader/reference/test_detection.py has the rules.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from loader.domain.historization.detection import key_list_source
from loader.domain.sources.marks import Window
from loader.engine.historization import difference
from loader.engine.historization.detection import window_start
from loader.engine.loads import load, raw_loads, rawcore_loads
from tests.fixtures.spark import by_night
from tests.loader.harness import finished
from tests.loader.histories import Kept
from tests.loader.lakes import COLUMNS, DAY, Lake

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark, tmp_path):
    """Return a function that makes a dataset over a Delta table, with a watermark."""

    def make(detects: str, look_back: int = 2, **more: Any) -> Lake:
        policy = {"input": "delta", "delete_detection": detects} | more.pop("policy", {})
        intake = {"watermark": ["n"], "look_back": look_back}
        return Lake(spark, tmp_path, columns=COLUMNS, policy=policy, format="delta", intake=intake, **more)

    return make


def deleted_versions(item: Lake) -> list[tuple]:
    return [(row["id"], row["ended"], row["closed_by"]) for row in item.history() if row["state"] == "deleted"]


def key_lists(item: Kept) -> list[Path]:
    folder = Path(item.table(item.tables()[0]).location) / "_key_lists"
    return sorted(folder.iterdir()) if folder.exists() else []


@pytest.mark.parametrize("whole", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_window_detection_closes_absent_keys_of_the_window_and_keeps_older_keys(lake, monkeypatch, whole):
    if not whole:
        monkeypatch.setattr(difference, "REWRITE_UP_TO_ROWS", 0)
        for name in ("REWRITE_UP_TO_ROWS", "ONE_TASK_UP_TO_ROWS"):
            monkeypatch.setattr(f"loader.engine.historization.batches.{name}", 0)
    item = lake("window")
    item.run(1, (1, "a", 1), (2, "b", 7), (3, "c", 8), (4, "d", 9))
    item.delete(1, 2, 3)
    item.run(2, (5, "e", 10))
    assert item.status == "succeeded", item.events
    assert (item.current_values(), deleted_versions(item)) == (
        [(1, "a"), (4, "d"), (5, "e")],
        [(2, DAY[2], "run-2"), (3, DAY[2], "run-2")],
    )
    counts = item.of_rawcore()["counts"]
    assert [counts[name] for name in ("rows", "new", "unchanged", "deleted", "absent", "missing", "open")] == [
        *(2, 1, 1, 2, 2, 1, 3),
    ]
    item.run(3, (2, "B", 11), full=True)
    assert (item.current_values(), item.of_rawcore()["counts"]["reappeared"]) == ([(2, "B"), (4, "d"), (5, "e")], 1)


@pytest.mark.nightly
def test_window_detection_deletes_rows_of_a_dataset_without_history(lake):
    item = lake("window", historize=False)
    item.run(1, (1, "a", 1), (2, "b", 8), (3, "c", 9))
    item.delete(2)
    item.run(2, (3, "C", 10))
    assert item.current_values() == [(1, "a"), (3, "C")]


@pytest.mark.nightly
def test_a_key_list_closes_keys_of_any_age_in_the_commit_of_the_delta(lake):
    item = lake("key_list", look_back=1)
    item.run(1, (1, "a", 1), (2, "b", 7), (3, "c", 9))
    before = item.table(item.history_spec).version()
    item.delete(1)
    event = item.run(2, (3, "C", 10))
    assert (event["counts"]["rows"], event["counts"]["keys"]) == (1, 2)
    assert (item.current_values(), deleted_versions(item)) == ([(2, "b"), (3, "C")], [(1, DAY[2], "run-2")])
    assert item.table(item.history_spec).version() == before + 1
    assert (item.mark(), len(key_lists(item))) == ("10", 1)


@pytest.mark.nightly
def test_empty_key_list_is_refused_unless_the_run_allows_it(lake):
    item = lake("key_list")
    item.run(1, (1, "a", 1))
    item.delete(1)
    item.run(2)
    error = item.of_rawcore()["error"]
    assert (item.status, error["code"], item.current_values(), item.mark()) == (
        "failed",
        "EMPTY_SNAPSHOT",
        [(1, "a")],
        "1",
    )
    assert "the key list is empty" in error["message"]
    item.run(3, allow_empty=True)
    assert (item.status, item.current_values()) == ("succeeded", [])


BOUNDARIES = {
    "before the key list": (raw_loads, "write_key_list"),
    "between key list and raw": (raw_loads, "_write_raw"),
    "between raw and history": (load, "load_rawcore"),
    "before the commit of the history": (rawcore_loads, "historize"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("boundary", [*map(by_night, list(BOUNDARIES)[:-1]), list(BOUNDARIES)[-1]])
def test_a_run_that_dies_moves_no_mark_and_closes_no_key(lake, monkeypatch, boundary):
    item = lake("key_list")
    item.run(1, (1, "a", 1), (2, "b", 2))
    item.delete(1)
    with monkeypatch.context() as broken:
        broken.setattr(*BOUNDARIES[boundary], lambda *_, **__: (_ for _ in ()).throw(RuntimeError("killed")))
        item.run(2, (2, "B", 3))
    assert (item.status, item.mark(), item.current_values()) == ("failed", "2", [(1, "a"), (2, "b")])
    item.run(3)
    assert (item.mark(), item.current_values(), len(key_lists(item))) == ("3", [(2, "B")], 1)


@pytest.mark.parametrize(
    ("bound", "type_text", "zone", "inside", "outside"),
    [
        ("7", "bigint", "UTC", "7", "6"),
        ("7.50", "decimal(9,2)", "UTC", "7.50", "7.49"),
        ("2024-07-01", "date", "UTC", "2024-07-01", "2024-06-30"),
        ("2024-07-01 10:00:00", "date", "UTC", "2024-07-02", "2024-07-01"),
        (
            "2024-07-01 10:00:00+00:00",
            "timestamp",
            "Europe/Berlin",
            "2024-07-01 10:00:00",
            "2024-07-01 09:59:59.999999",
        ),
        ("2024-07-01 10:00:00", "timestamp", "Europe/Berlin", "2024-07-01 08:00:00", "2024-07-01 07:59:59.999999"),
        ("2024-07-01 10:00:00", "timestamp", "+02:00", "2024-07-01 08:00:00", "2024-07-01 07:59:59.999999"),
    ],
)
def test_window_start_converts_the_bound_by_type_and_time_zone(spark, bound, type_text, zone, inside, outside):
    start = window_start(bound, type_text, zone)
    values = [F.lit(value).cast(type_text) >= start for value in (inside, outside)]
    assert tuple(spark.range(1).select(*values).first()) == (True, False)


def test_window_detection_refuses_rows_whose_window_is_unknown(lake, monkeypatch):
    item = lake("window")
    with monkeypatch.context() as older:
        older.setattr(Window, "as_note", lambda _: {})
        item.run(1, (1, "a", 1))
    assert item.of_rawcore()["error"]["code"] == "NO_EVIDENCE"


class Files(Kept):
    """Dataset of files, with the key list in a file of its own."""

    def manifest(self, path: Path, **options: Any):
        made = super().manifest(path, **options)
        (raw,), place = made.raw, str(self.folder / "keys.json")
        key_list = key_list_source(raw.source)
        key_list = type(key_list)(**vars(key_list) | {"location": place})
        raw = type(raw)(**vars(raw) | {"key_list": key_list})
        return type(made)(**vars(made) | {"raw": (raw,)})

    def run(self, day: int, rows: list[dict], keys: list[dict], **options: Any) -> dict:
        (self.folder / "keys.json").write_text("".join(json.dumps(key) + "\n" for key in keys))
        self.status, event = self.load(rows, at=DAY[day], **options)
        return event


@pytest.mark.nightly
def test_file_source_reads_its_key_list_from_a_separate_location(spark, tmp_path):
    item = Files(spark, tmp_path, policy={"input": "delta", "delete_detection": "key_list", "deletes": "tombstone"})
    item.run(1, [{"id": n, "v": "a"} for n in (1, 2, 3)], [{"id": n} for n in (1, 2, 3)])
    event = item.run(2, [{"id": 3, "v": "b"}], [{"id": 2, "more": "x"}, {"id": 3}, {"id": 3}])
    assert item.status == "succeeded", item.events
    raw = finished(item.events, item.raw_state.key)
    assert (raw["counts"]["keys"], raw["counts"]["repeated_keys"]) == (3, 1)
    assert "the key list repeats 1 key" in raw["warnings"][0]
    assert (event["counts"]["absent"], [row["id"] for row in item.current()]) == (1, [2, 3])
    assert [row["id"] for row in item.history() if row["segment"] == "deleted"] == [1]
    item.run(3, [{"id": 3, "v": "c"}], [{"id": None}, {"id": 3}])
    refusal = finished(item.events, item.raw_state.key)["error"]
    assert (item.status, refusal["code"], [row["id"] for row in item.current()]) == ("failed", "NULL_KEY", [2, 3])
