"""Feed loads: each file is loaded once, regardless of the control database.

The selection of files is tested without Spark (tests/loader/domain/sources/test_feeds.py): tests of the selection alone
run at night.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from loader.contract.manifest.loads import LoadManifest
from loader.engine.loads import load, raw_loads
from metadata.domain.state import DatasetState
from tests.loader.harness import Dataset, finished, stable

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("commit_path")]

DAY = [f"2024-01-0{number}T00:00:00Z" for number in range(1, 8)]


class Folder(Dataset):
    """Feed whose files are in one folder."""

    @property
    def place(self) -> Path:
        place = self.folder / "in"
        place.mkdir(exist_ok=True)
        return place

    def put(self, name: str, *rows: tuple[int, str, int]) -> None:
        lines = [json.dumps({"id": id_, "v": v, "at": DAY[day], "op": "I"}) for id_, v, day in rows]
        (self.place / name).write_text("".join(line + "\n" for line in lines))

    def run(self, run_id: str, day: int, location: Path | None = None) -> tuple[str, dict, dict]:
        """Load the folder; return the attempt's status, and the finishing events of raw and the dataset."""
        self.prepare()
        self.sequence += 1
        return self.repeat(self.manifest(location or self.place, at=DAY[day], run_id=run_id))

    def repeat(self, manifest: LoadManifest) -> tuple[str, dict, dict]:
        status, events = self.attempt(manifest)
        return status, finished(events, self.raw_state.key), finished(events, self.state.key)

    def raw(self) -> list[tuple[str, str]]:
        frame = self.table(self.tables()[0]).frame()
        return sorted((row["v"], row["load_run_id"]) for row in frame.collect())

    def values(self) -> list[tuple]:
        return [(row["id"], row["v"]) for row in self.history()]


@pytest.fixture
def feed(spark, tmp_path) -> Folder:
    columns = {"id": "integer", "v": "string", "at": "timestamp", "op": "string"}
    return Folder(spark, tmp_path, columns=columns, policy={"input": "cdc", "time": "at", "op": "op"})


@pytest.mark.core
def test_each_file_is_loaded_once_and_a_run_without_new_files_warns(feed):
    feed.put("a.jsonl", (1, "a", 0))
    assert feed.run("r1", 0)[1]["counts"] == {"rows": 1, "duplicates": 0, "files": 1}
    feed.put("b.jsonl", (2, "b", 1), (3, "c", 1))
    assert feed.run("r2", 1)[1]["counts"] == {"rows": 2, "duplicates": 0, "files": 1}
    status, raw, history = feed.run("r3", 2)
    assert (status, raw["counts"], history["counts"]["rows"]) == (
        "succeeded",
        {"rows": 0, "duplicates": 0, "files": 0},
        0,
    )
    assert raw["warnings"][0].startswith("No new files: each of the 2 at ")
    assert feed.raw() == [("a", "r1"), ("b", "r2"), ("c", "r2")]
    assert feed.values() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.nightly
def test_file_changed_after_its_load_is_refused_and_no_table_changes(feed):
    feed.put("a.jsonl", (1, "a", 0))
    feed.run("r1", 0)
    feed.put("a.jsonl", (1, "a", 0), (1, "longer", 1))
    status, raw, _ = feed.run("r2", 1)
    assert (status, raw["error"]["code"]) == ("failed", "CHANGED_SINCE_LOADED")
    assert (feed.raw(), feed.values()) == ([("a", "r1")], [(1, "a")])


@pytest.mark.nightly
def test_a_location_that_names_one_file_is_read_again_when_it_was_replaced(feed):
    feed.put("a.jsonl", (1, "a", 0))
    feed.run("r1", 0, feed.place / "a.jsonl")
    feed.put("a.jsonl", (1, "later", 1))
    feed.run("r2", 1, feed.place / "a.jsonl")
    feed.run("r3", 2, feed.place / "a.jsonl")
    assert feed.raw() == [("a", "r1"), ("later", "r2")]
    assert feed.values() == [(1, "a"), (1, "later")]


def test_run_killed_after_raw_is_repeated_without_duplicate_rows(feed, monkeypatch):
    feed.put("a.jsonl", (1, "a", 0))
    feed.prepare()
    feed.sequence += 1
    manifest = feed.manifest(feed.place, at=DAY[0], run_id="r1")
    with monkeypatch.context() as broken:
        broken.setattr(load, "load_rawcore", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        assert feed.repeat(manifest)[0] == "failed"
    feed.put("late.jsonl", (2, "late", 0))
    status, raw, _ = feed.repeat(replace(manifest, attempt=2))
    assert (status, raw["counts"]["rows"], feed.raw(), feed.values()) == ("succeeded", 1, [("a", "r1")], [(1, "a")])
    feed.run("r2", 1)
    assert (feed.raw(), feed.values()) == ([("a", "r1"), ("late", "r2")], [(1, "a"), (2, "late")])


@pytest.mark.nightly
def test_next_run_loads_the_files_of_a_run_that_the_history_refused(feed):
    feed.put("a.jsonl", (1, "a", 0))
    feed.run("r1", 0)
    feed.put("b.jsonl", (2, "b", 1), (2, "differs", 1))
    assert feed.run("r2", 1)[2]["error"]["code"] == "CONFLICTING_ROWS"
    feed.sequence -= 1
    feed.put("b.jsonl", (2, "corrected", 1))
    assert feed.run("r3", 2)[0] == "succeeded"
    assert feed.raw() == [("a", "r1"), ("corrected", "r3")]
    assert feed.values() == [(1, "a"), (2, "corrected")]


@pytest.mark.nightly
def test_raw_has_no_duplicates_after_a_restore_of_the_control_database(feed):
    feed.put("a.jsonl", (1, "a", 0))
    feed.run("r1", 0)
    feed.put("b.jsonl", (2, "b", 1))
    feed.run("r2", 1)
    feed.sequence = 1  # of a time before r2
    feed.put("c.jsonl", (3, "c", 2))
    _, _, refused = feed.run("r9", 2)
    assert refused["error"]["code"] == "sequence_behind_table"
    status, raw, _ = feed.run("r10", 3)
    assert (status, raw["counts"]["files"]) == ("succeeded", 1)
    assert feed.raw() == [("a", "r1"), ("b", "r2"), ("c", "r10")]
    assert feed.values() == [(1, "a"), (2, "b"), (3, "c")]


@pytest.mark.nightly
def test_loaded_files_are_known_after_log_cleanup_and_compaction(feed):
    table = feed.table(feed.tables()[0])
    for number in range(2):
        feed.put(f"{number}.jsonl", (number, f"v{number}", number))
        feed.run(f"r{number}", number)
    feed.spark.sql(f"OPTIMIZE {table.sql_name}")
    jvm = feed.spark._jvm
    log = jvm.org.apache.spark.sql.delta.DeltaLog
    log.forTable(feed.spark._jsparkSession, table.location).checkpoint()
    newest = table.version()
    for path in Path(table.location, "_delta_log").glob("*.json"):
        if int(path.stem) < newest:
            path.unlink()
    log.clearCache()
    assert feed.run("r9", 5)[1]["counts"]["files"] == 0
    assert [run for _, run in feed.raw()] == ["r0", "r1"]


class Second(Folder):
    """Another history over the same raw table."""

    @property
    def state(self) -> DatasetState:
        return replace(super().state, key=stable("second"), name="rc_t_second", history_key=stable("second history"))


@pytest.mark.nightly
def test_a_history_that_joins_later_gets_the_files_that_were_loaded_before(feed):
    feed.put("a.jsonl", (1, "a", 0))
    feed.run("r1", 0)
    second = Second(feed.spark, feed.folder, columns=feed.columns, policy=feed.policy)
    assert second.run("r2", 1)[0] == "succeeded"
    assert (second.values(), second.raw()) == ([(1, "a")], [("a", "r2")])


@pytest.mark.nightly
def test_overtaken_run_writes_no_duplicate_rows_to_raw(feed, monkeypatch):
    """Let two runners, one with a broken lease, load the same new file."""
    feed.put("a.jsonl", (1, "a", 0))
    feed.prepare()
    other = replace(feed.manifest(feed.place, at=DAY[0], run_id="other"), rawcore=())
    real, calls = raw_loads.commit, []

    def overtaken(*arguments, **named):
        calls.append(arguments)
        if len(calls) == 1:
            assert replace(feed).attempt(other)[0] == "succeeded"
        return real(*arguments, **named)

    monkeypatch.setattr(raw_loads, "commit", overtaken)
    status, raw, _ = feed.run("r1", 0)
    assert status == "succeeded"
    assert any("another writer" in warning for warning in raw["warnings"])
    assert feed.raw() == [("a", "r1")]
    assert feed.values() == [(1, "a")]
