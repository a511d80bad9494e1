"""Copies in DuckDB files and in folders of Delta tables."""

import os
from pathlib import Path

import duckdb
import pytest
from py4j.protocol import Py4JJavaError

from loader.contract.refusals import Refusal
from loader.engine.copies.delta_folders import DeltaCopy
from metadata.domain.copies import DELTA, DUCKDB
from tests.loader.engine.copies.copied_dataset import Copied

pytestmark = pytest.mark.spark

DAY = [f"2024-01-0{n}T00:00:00Z" for n in range(1, 8)]


def rows_of(count: int, value: str = "a") -> list[dict]:
    return [{"id": n, "v": value} for n in range(count)]


def query_rows(file: Path, query: str) -> list[tuple]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(query).fetchall()


@pytest.mark.core
def test_duckdb_file_is_replaced_and_keeps_other_tables(spark, tmp_path):
    file = tmp_path / "copies" / "bi.duckdb"
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    to_file = {"kind": DUCKDB, "location": str(file)}
    assert item.copy(item.target(**to_file))["status"] == "copied"
    version = item.table(item.rawcore_spec).version()
    assert query_rows(file, "SELECT id, v FROM mart.item ORDER BY id") == [(0, "a"), (1, "a"), (2, "a")]
    registered = "SELECT table_name, environment, dataset, version, row_count FROM elevata_copies"
    assert query_rows(file, registered) == [("mart.item", "dev", item.state.qualified_name, version, 3)]
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 7 AS x; CREATE VIEW over AS SELECT count(*) FROM mart.item")
    item.load(rows_of(4, "b"), at=DAY[1])
    assert item.copy(item.target(**to_file), check=True)["error"]["code"] == "COPY_BEHIND"
    reader = duckdb.connect(str(file), read_only=True)
    assert item.copy(item.target(**to_file))["row_count"] == 4
    assert reader.execute("SELECT count(*) FROM mart.item").fetchall() == [(3,)]
    reader.close()
    assert query_rows(file, "SELECT x FROM mine") == [(7,)]
    assert query_rows(file, "FROM over") == [(4,)]
    assert item.copy(item.target(**to_file), verify=True)["status"] == "unchanged"
    with duckdb.connect(str(file)) as connection:
        connection.execute("DELETE FROM mart.item WHERE id = 0")
    assert item.copy(item.target(**to_file), check=True)["error"]["code"] == "COPY_DIFFERS"
    renamed = item.target(**to_file, table="bi.things")
    assert item.copy(renamed)["status"] == "copied"
    tables = query_rows(file, "SELECT table_schema || '.' || table_name FROM information_schema.tables ORDER BY 1")
    assert [name for (name,) in tables] == ["bi.things", "main.elevata_copies", "main.mine", "main.over"]
    assert [each.name for each in file.parent.iterdir()] == ["bi.duckdb"]


def test_duckdb_file_of_others_or_in_use_is_not_touched(spark, tmp_path, monkeypatch):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    foreign, text, own = tmp_path / "x.duckdb", tmp_path / "y.duckdb", tmp_path / "z.duckdb"
    with duckdb.connect(str(foreign)) as connection:
        connection.execute("CREATE TABLE mine AS SELECT 7 AS x")
    text.write_text("no database")
    assert item.copy(item.target(DUCKDB, location=str(foreign)))["error"]["code"] == "COPY_FOREIGN"
    assert item.copy(item.target(DUCKDB, location=str(text)))["error"]["code"] == "COPY_FOREIGN"
    item.copy(item.target(DUCKDB, location=str(own)))
    item.load(rows_of(4), at=DAY[1])
    Path(f"{own}.wal").write_bytes(b"x")
    assert item.copy(item.target(DUCKDB, location=str(own)))["error"]["code"] == "COPY_BUSY"
    Path(f"{own}.wal").unlink()

    def full(*_):
        raise Refusal("NO_SPACE", "the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        assert item.copy(item.target(DUCKDB, location=str(own)))["error"]["code"] == "NO_SPACE"
    assert query_rows(own, "SELECT count(*) FROM mart.item") == [(3,)]
    assert item.copy(item.target(DUCKDB, location=str(own)))["row_count"] == 4


def test_delta_folder_has_a_table_without_sensitive_columns(spark, tmp_path):
    lake = tmp_path / "lake"
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    to_folder = {"kind": DELTA, "location": str(lake), "sensitive": ("v",)}
    assert item.copy(item.target(**to_folder))["status"] == "copied"
    table = spark.read.format("delta").load(str(lake / "mart" / "item"))
    assert (table.count(), "v" in table.columns) == (3, False)
    assert item.copy(item.target(**to_folder), verify=True)["status"] == "unchanged"
    item.load(rows_of(4), at=DAY[1])
    assert item.copy(item.target(**to_folder), check=True)["error"]["code"] == "COPY_BEHIND"
    assert item.copy(item.target(**to_folder))["row_count"] == 4
    spark.sql(f"DELETE FROM delta.`{lake}/mart/item` WHERE id = 1")
    assert item.copy(item.target(**to_folder), check=True)["error"]["code"] == "COPY_DIFFERS"
    item.copy(item.target(kind=DELTA, location=str(lake)))
    assert "v" in spark.read.format("delta").load(str(lake / "mart" / "item")).columns
    item.copy(item.target(**to_folder))
    history = spark.sql(f"DESCRIBE HISTORY delta.`{lake}/mart/item`").collect()
    assert [row.operation for row in history if not row.operation.startswith("VACUUM")] == ["WRITE"]
    (lake / "mart" / "other").mkdir()
    (lake / "mart" / "other" / "file").write_text("x")
    result = item.copy(item.target(kind=DELTA, location=str(lake), table="mart.other", system="other"))
    assert result["error"]["code"] == "COPY_FOREIGN"


def test_delta_table_of_a_copy_is_not_inside_of_another_and_has_no_constraint(spark, tmp_path):
    lake = tmp_path / "lake"
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    assert item.copy(item.target(DELTA, location=str(lake)))["status"] == "copied"
    inside = item.target(DELTA, location=str(lake / "mart" / "item"), table="in.side", system="inside")
    error = item.copy(inside)["error"]
    assert error["code"] == "COPY_FOREIGN"
    assert error["message"].endswith(f"is inside of the Delta table {lake}/mart/item")
    assert not (lake / "mart" / "item" / "in").exists()
    spark.sql(f"ALTER TABLE delta.`{lake}/mart/item` ADD CONSTRAINT mine CHECK (v <> 'z')")
    item.load(rows_of(4), at=DAY[1])
    assert item.copy(item.target(DELTA, location=str(lake)))["error"]["code"] == "COPY_FOREIGN"


def test_folder_above_a_copy_that_may_not_be_read_is_no_table(spark, tmp_path, monkeypatch):
    item = Copied(spark, tmp_path).given((rows_of(3), DAY[0]))
    path_of = DeltaCopy._path

    class WithRightsBelow:
        """File system that denies access to the log of a table above a folder."""

        def __init__(self, files):
            self._files = files

        def exists(self, path):
            if path.getName() == "_delta_log" and not path.toString().startswith(f"file:{tmp_path}"):
                denied = spark._jvm.java.nio.file.AccessDeniedException(path.toString())
                raise Py4JJavaError("An error occurred while calling exists.", denied)
            return self._files.exists(path)

        def __getattr__(self, name):
            return getattr(self._files, name)

    def with_rights_below(copy, location):
        path, files = path_of(copy, location)
        return path, WithRightsBelow(files)

    monkeypatch.setattr(DeltaCopy, "_path", with_rights_below)
    assert item.copy(item.target(DELTA, location=str(tmp_path / "lake")))["status"] == "copied"
