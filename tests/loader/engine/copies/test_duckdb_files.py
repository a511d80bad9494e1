"""DuckDB files of copies in which another program defined views: these read no file and no address."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

from loader.contract.manifest.copies import CopyColumn, CopyTarget
from loader.contract.refusals import Refusal
from loader.domain.copies import Content, create_register
from loader.engine.copies.duckdb_files import DuckDbCopy
from metadata.domain.copies import DUCKDB, INCLUDE, REPLACE
from tests.loader.harness import stable


@dataclass
class Rows:
    """One row of a table."""

    name: str = "rawcore.item"
    version: int = 2
    row_count: int = 1

    def columns(self, target: CopyTarget) -> list[CopyColumn]:
        return [CopyColumn("id", "integer", "INTEGER", INCLUDE)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """File with the copy of a table, as the product makes it."""
    place = tmp_path / "copies" / "bi.duckdb"
    place.parent.mkdir()
    with duckdb.connect(str(place)) as connection:
        connection.execute(create_register("elevata_copies"))
        connection.execute("CREATE SCHEMA mart; CREATE TABLE mart.item AS SELECT 7 AS id")
        connection.execute(
            "INSERT INTO elevata_copies VALUES ('mart.item', 'dev', 'rawcore.item', 1, 'r', 1, '0', now())"
        )
    return place


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    place = tmp_path / "secret.csv"
    place.write_text("id\n1\n")
    return place


def copy_of(file: Path) -> DuckDbCopy:
    target = CopyTarget(
        stable("copy", "bi"),
        "bi",
        DUCKDB,
        "mart.item",
        REPLACE,
        (),
        "",
        owners=("rawcore.item",),
        environment="dev",
        location=str(file),
    )
    nothing: Any = None
    rows: Any = Rows()
    return DuckDbCopy(nothing, target, rows, lambda _: None)


def change(file: Path, statements: str) -> None:
    with duckdb.connect(str(file)) as connection:
        connection.execute(statements)


def write_copy(copy: DuckDbCopy) -> Content:
    """Write the new file from a folder of Parquet files, as Spark writes one, and put it in place."""
    beside, parquet = (copy.file.with_name(f".beside.{kind}") for kind in ("duckdb", "parquet"))
    parquet.mkdir()
    duckdb.sql("SELECT 1::INTEGER AS id").write_parquet(str(parquet / "part-0.parquet"))
    content = copy._write(beside, parquet, "run")
    beside.replace(copy.file)
    return content


def test_view_in_place_of_a_copy_is_not_read(file: Path, secret: Path):
    change(file, f"DROP TABLE mart.item; CREATE VIEW mart.item AS FROM read_csv('{secret}')")
    for act in (copy_of(file).check, lambda: copy_of(file).make(verify=True, run_id="run")):
        with pytest.raises(Refusal) as refused:
            act()
        assert refused.value.code == "COPY_FOREIGN"


def test_register_that_is_a_view_is_not_read(file: Path, secret: Path):
    change(file, f"DROP TABLE elevata_copies; CREATE VIEW elevata_copies AS FROM read_csv('{secret}')")
    with pytest.raises(Refusal) as refused:
        copy_of(file).check()
    assert refused.value.code == "COPY_FOREIGN"


def test_file_of_a_copy_reads_no_other_file(file: Path, secret: Path):
    change(file, f"CREATE VIEW other AS FROM read_csv('{secret}')")
    with copy_of(file)._reading() as connection:
        with pytest.raises(duckdb.PermissionException):
            connection.execute("FROM other")
        with pytest.raises(duckdb.InvalidInputException):
            connection.execute("SET enable_external_access = true")


@pytest.mark.parametrize("exists", [True, False])
def test_file_inside_of_a_delta_table_is_refused(file: Path, exists: bool):
    (file.parent.parent / "_delta_log").mkdir()
    if not exists:
        file.unlink()
    for act in (copy_of(file).check, lambda: copy_of(file).make(verify=True, run_id="run")):
        with pytest.raises(Refusal, match=f"is inside of the Delta table {file.parent.parent}$") as refused:
            act()
        assert refused.value.code == "COPY_FOREIGN"


def test_views_of_others_are_carried_over(file: Path, secret: Path):
    change(file, f"CREATE VIEW other AS FROM read_csv('{secret}'); CREATE VIEW own AS FROM mart.item")
    assert write_copy(copy_of(file)).row_count == 1
    with duckdb.connect(str(file), read_only=True) as connection:
        assert connection.execute("FROM own").fetchall() == [(1,)]
        assert connection.execute("FROM other").fetchall() == [(1,)]
        assert connection.execute("SELECT version, run_id FROM elevata_copies").fetchall() == [(2, "run")]
