"""Changes of a Delta table by version as a change feed.

The selection of versions is tested without Spark (tests/loader/domain/sources/test_version_feeds.py).
"""

import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from loader.contract.manifest.loads import LoadManifest
from loader.engine.loads import load, raw_loads, rawcore_loads
from metadata.domain.state import DatasetState
from tests.fixtures.spark import by_night
from tests.loader.harness import Dataset, finished
from tests.loader.histories import Kept
from tests.loader.lakes import DAY

pytestmark = pytest.mark.spark

COLUMNS = {"id": "integer", "v": "string", "_op": "string", "_sequence": "bigint"}
POLICY = {"input": "cdc", "op": "_op", "time": "_sequence"}


@dataclass
class Changing(Kept):
    """Dataset over the changes of a Delta table, which statements write. ``runs`` are the results of its runs."""

    runs: list[str] = field(default_factory=list)
    read_options: dict[str, Any] = field(default_factory=dict)

    @property
    def raw_state(self) -> DatasetState:
        return replace(super().raw_state, columns=Dataset._columns(self, typed=True))

    @property
    def source(self) -> str:
        return f"delta.`{self.folder}/lake`"

    def sql(self, *statements: str) -> None:
        for statement in statements:
            self.spark.sql(statement.replace("LAKE", self.source))

    def create(self, *, feed: bool = True) -> None:
        enabled = f"TBLPROPERTIES (delta.enableChangeDataFeed = {str(feed).lower()})"
        self.sql(f"CREATE TABLE LAKE (id INT, v STRING) USING delta {enabled}")
        self.sql("INSERT INTO LAKE VALUES (1, 'a'), (2, 'b'), (3, 'c')")

    def deliver(self, rows: list[dict]) -> Path:
        return self.folder / "lake"

    def manifest(self, path: Path, **options: Any) -> LoadManifest:
        self.options = {"changes": True} | self.read_options
        return super().manifest(path, **options)

    def run(self, day: int, **options: Any) -> dict:
        """Load the table, and return raw's finishing event."""
        self.status, _ = self.load([], at=DAY[day], run_id=f"run-{len(self.runs)}", **options)
        self.runs.append(self.status)
        if self.status != "succeeded":
            self.sequence -= 1
        return finished(self.events, self.raw_state.key)

    def current_values(self) -> list[tuple]:
        return [(row["id"], row["v"]) for row in self.current()]

    def stored_versions(self) -> list[tuple]:
        """Return id, value, first and last version, and state of each version of a row."""
        return [(id_, v, start, end, state) for id_, v, start, end, state in self.versions()]


@pytest.fixture
def item(spark, tmp_path) -> Changing:
    made = Changing(spark, tmp_path, columns=COLUMNS, policy=POLICY, format="delta")
    made.create()
    return made


def test_each_version_is_read_once_and_its_operations_make_the_history(item):
    assert item.run(1)["counts"]["rows"] == 3
    item.sql(
        "UPDATE LAKE SET v = 'B' WHERE id = 2", "DELETE FROM LAKE WHERE id = 3", "INSERT INTO LAKE VALUES (4, 'd')"
    )
    event = item.run(2)
    assert (item.status, event["counts"]["rows"]) == ("succeeded", 3)
    assert item.current_values() == [(1, "a"), (2, "B"), (4, "d")]
    assert item.stored_versions() == [
        (1, "a", "1", None, "new"),
        (2, "B", "2", None, "changed"),
        (2, "b", "1", "2", "changed"),
        (3, "c", "1", "3", "deleted"),
        (4, "d", "4", None, "new"),
    ]
    event = item.run(3)
    assert (event["counts"]["rows"], "No new versions" in event["warnings"][0]) == (0, True)


def test_an_update_of_the_business_key_ends_the_old_key(item):
    item.run(1)
    item.sql("UPDATE LAKE SET id = 9 WHERE id = 2")
    item.sql("UPDATE LAKE SET id = CASE id WHEN 1 THEN 3 ELSE 1 END WHERE id < 4")
    assert item.run(2)["counts"]["rows"] == 4
    assert item.current_values() == [(1, "c"), (3, "a"), (9, "b")]
    assert item.stored_versions() == [
        *((1, "a", "1", "3", "changed"), (1, "c", "3", None, "changed"), (2, "b", "1", "2", "deleted")),
        *((3, "a", "3", None, "changed"), (3, "c", "1", "3", "changed"), (9, "b", "2", None, "new")),
    ]
    item.sql("UPDATE LAKE SET id = 2 WHERE id = 9")
    item.run(3)
    assert item.current_values() == [(1, "c"), (2, "b"), (3, "a")]


@pytest.mark.nightly
def test_update_of_a_key_with_equal_folded_text_changes_its_row(spark, tmp_path):
    made = Changing(spark, tmp_path, columns=COLUMNS | {"id": "string"}, policy=POLICY, format="delta")
    made.read_options = {"fold_keys": "upper", "trim_keys": True}
    made.sql("CREATE TABLE LAKE (id STRING, v STRING) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    made.sql("INSERT INTO LAKE VALUES ('a', 'x')")
    made.run(1)
    made.sql("UPDATE LAKE SET id = ' A', v = 'y'")
    made.run(2)
    assert made.current_values() == [("A", "y")]


@pytest.mark.nightly
def test_raw_rows_name_the_version_that_made_the_change(item):
    item.run(1)
    item.sql("UPDATE LAKE SET v = 'B' WHERE id = 2", "DELETE FROM LAKE WHERE id = 3")
    item.run(2)
    raw = item.table(item.tables()[0]).frame().select("id", "_op", "source_file", "source_row").collect()
    places = [(id_, op, file.rpartition("@")[2], row) for id_, op, file, row in raw if file.startswith("lake@")]
    whole = {(id_, "I", "v1", None) for id_ in (1, 2, 3)}
    assert {*places} == whole | {(2, "U", "v2", None), (3, "D", "v3", None)}


@pytest.mark.nightly
def test_overwritten_key_is_read_as_an_update(item):
    item.run(1)
    item.sql("INSERT OVERWRITE LAKE VALUES (1, 'a'), (2, 'B')")
    assert item.run(2)["counts"]["rows"] == 3
    assert (item.current_values(), item.stored_versions()[-1]) == ([(1, "a"), (2, "B")], (3, "c", "1", "2", "deleted"))


BOUNDARIES = {
    "before raw": (raw_loads, "_write_raw"),
    "between raw and history": (load, "load_rawcore"),
    "before the commit of the history": (rawcore_loads, "historize"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("boundary", [*map(by_night, list(BOUNDARIES)[:-1]), list(BOUNDARIES)[-1]])
def test_killed_run_neither_loses_nor_repeats_a_version(item, monkeypatch, boundary):
    item.run(1)
    item.sql("UPDATE LAKE SET v = 'B' WHERE id = 2")
    with monkeypatch.context() as broken:
        broken.setattr(*BOUNDARIES[boundary], lambda *_, **__: (_ for _ in ()).throw(RuntimeError("killed")))
        item.run(2)
    assert (item.status, item.current_values()) == ("failed", [(1, "a"), (2, "b"), (3, "c")])
    item.sql("DELETE FROM LAKE WHERE id = 1")
    assert item.run(3)["counts"]["rows"] == 2
    assert item.current_values() == [(2, "B"), (3, "c")]
    assert item.table(item.tables()[0]).rows() == 5


def test_a_table_that_records_no_changes_is_refused(spark, tmp_path):
    made = Changing(spark, tmp_path, columns=COLUMNS, policy=POLICY, format="delta")
    made.create(feed=False)
    assert made.run(1)["error"]["code"] == "NO_CHANGE_FEED"
    made.sql("ALTER TABLE LAKE SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    assert made.run(1)["counts"]["rows"] == 3
    made.sql("ALTER TABLE LAKE SET TBLPROPERTIES (delta.enableChangeDataFeed = false)", "DELETE FROM LAKE WHERE id = 1")
    made.sql("ALTER TABLE LAKE SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    error = made.run(2)["error"]
    assert (error["code"], "--full" in error["hint"]) == ("NO_CHANGE_FEED", True)
    assert made.current_values() == [(1, "a"), (2, "b"), (3, "c")]


def clean_log(item: Changing) -> None:
    """Remove the commits before the newest checkpoint, as Delta does after the retention of the log."""
    for commit in sorted((item.folder / "lake" / "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()


def vacuum(item: Changing) -> None:
    shutil.rmtree(item.folder / "lake" / "_change_data")


@pytest.mark.nightly
@pytest.mark.parametrize("remove", [by_night(clean_log), vacuum])
def test_versions_that_were_removed_before_they_were_loaded_are_refused(item, remove):
    item.run(1)
    item.sql("ALTER TABLE LAKE SET TBLPROPERTIES (delta.checkpointInterval = 1)")
    item.sql(
        "UPDATE LAKE SET v = 'B' WHERE id = 2", "DELETE FROM LAKE WHERE id = 3", "UPDATE LAKE SET v = 'A' WHERE id = 1"
    )
    remove(item)
    error = item.run(2)["error"]
    assert (error["code"], "--full" in error["hint"]) == ("VERSIONS_GONE", True)
    item.run(2, full=True)
    assert (item.status, item.current_values()) == ("succeeded", [(1, "A"), (2, "B"), (3, "c")])


@pytest.mark.nightly
def test_changes_before_and_after_a_column_was_renamed_are_refused(item):
    mapped = "delta.columnMapping.mode = 'name', delta.minReaderVersion = 2, delta.minWriterVersion = 5"
    item.sql(f"ALTER TABLE LAKE SET TBLPROPERTIES ({mapped})", "ALTER TABLE LAKE ADD COLUMNS (w STRING)")
    item.run(1)
    item.sql("INSERT INTO LAKE VALUES (4, 'd', 'x')", "ALTER TABLE LAKE RENAME COLUMN w TO x")
    item.sql("INSERT INTO LAKE VALUES (5, 'e', 'y')")
    error = item.run(2)["error"]
    assert (error["code"], "--full" in error["hint"]) == ("COLUMNS_CHANGED", True)


@pytest.mark.nightly
def test_recreated_table_is_refused_until_a_full_run_reads_it(item):
    item.run(1)
    shutil.rmtree(item.folder / "lake")
    item.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    item.create()
    item.sql("UPDATE LAKE SET v = 'B' WHERE id = 2")
    error = item.run(2)["error"]
    assert (error["code"], "--full" in error["hint"]) == ("TABLE_REPLACED", True)
    item.run(2, full=True)
    assert (item.status, item.current_values()) == ("succeeded", [(1, "a"), (2, "B"), (3, "c")])
    item.sql("DELETE FROM LAKE WHERE id = 1")
    item.run(3)
    assert item.current_values() == [(2, "B"), (3, "c")]
