"""Names in DuckDB files of copies: quoted, and found without regard to case."""

from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from loader.contract.manifest.copies import CopyColumn, CopyTarget
from loader.contract.refusals import Refusal
from loader.domain.copies import create_register
from loader.engine.copies.duckdb_files import DuckDbCopy
from metadata.domain.copies import DUCKDB, REPLACE

NAMES = ("select", 'say "x"', "Ärger", "x" * 128)
KEY = "8e0f3c1e-62fb-4d1c-9d7a-3a0c5a9f0c11"


@dataclass
class Rows:
    """Rows of a table at a version, already written as Parquet."""

    name: str = "rawcore.rc_t_item"
    version: int = 3
    row_count: int = 3

    def columns(self, target: CopyTarget) -> list[CopyColumn]:
        return list(target.columns)


def copy_of(file: Path, table: str, former: str = "") -> DuckDbCopy:
    columns = tuple(CopyColumn(name, "integer", "INTEGER", "include") for name in NAMES)
    target = CopyTarget(
        *(KEY, "bi", DUCKDB, table, REPLACE, columns, "shape"),
        owners=("rawcore.rc_t_item",),
        environment="dev",
        location=str(file),
        former_table=former,
    )
    return DuckDbCopy(None, target, Rows(), lambda phase: None)


def write_copy(folder: Path, copy: DuckDbCopy) -> None:
    """Write the new file and put it in the place of the former one."""
    parquet, beside = folder / "parquet", folder / "beside.duckdb"
    parquet.mkdir(exist_ok=True)
    columns = ", ".join('i AS "{}"'.format(name.replace('"', '""')) for name in NAMES)
    duckdb.sql(f"SELECT {columns} FROM range(3) AS r(i)").write_parquet(str(parquet / "a.parquet"))
    copy._write(beside, parquet, "r1")
    beside.replace(copy.file)


def test_names_that_need_quotes_are_kept(tmp_path):
    table = f'mart.order "{"t" * 120}"'
    copy = copy_of(tmp_path / "b 'i.duckdb", table)
    write_copy(tmp_path, copy)
    assert copy_of(copy.file, table).check().message.endswith("has other columns than described")  # it has no shape yet
    with duckdb.connect(str(copy.file)) as connection:
        result = connection.execute(f'SELECT * FROM mart."order ""{"t" * 120}""" ORDER BY 1 DESC LIMIT 1')
        assert ([column[0] for column in result.description], result.fetchall()) == ([*NAMES], [(2, 2, 2, 2)])


def test_table_of_others_whose_name_differs_in_case_is_not_touched(tmp_path):
    file = tmp_path / "bi.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute(create_register("elevata_copies"))
        connection.execute("CREATE SCHEMA mart; CREATE TABLE mart.Mine AS SELECT 7 AS x")
    with pytest.raises(Refusal) as refused:
        copy_of(file, "Mart.mine").check()
    assert refused.value.code == "COPY_FOREIGN"


def test_names_that_differ_in_the_case_of_other_letters_than_ascii_are_of_two_tables(tmp_path):
    file = tmp_path / "bi.duckdb"
    write_copy(tmp_path, copy_of(file, "mart.Ärger"))
    with duckdb.connect(str(file)) as connection:
        connection.execute('CREATE TABLE mart."ÖL" AS SELECT 7 AS x')
    assert copy_of(file, "mart.öl").check().code == "COPY_BEHIND"
    for name in ("mart.öl", "mart.ärger", "mart.ÄrGER"):
        write_copy(tmp_path, copy_of(file, name))
    with duckdb.connect(str(file)) as connection:
        assert connection.execute('SELECT x FROM mart."ÖL"').fetchall() == [(7,)]
        names = connection.execute("SELECT table_name FROM elevata_copies").fetchall()
        assert {name for (name,) in names} == {"mart.öl", "mart.ärger", "mart.ÄrGER"}


def test_copy_whose_name_changes_in_case_only_has_one_table_and_row(tmp_path):
    file = tmp_path / "bi.duckdb"
    write_copy(tmp_path, copy_of(file, "mart.item"))
    renamed = copy_of(file, "mart.Item", former="mart.item")
    assert renamed.check().code == "COPY_BEHIND"
    write_copy(tmp_path, renamed)
    with duckdb.connect(str(file)) as connection:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'mart'"
        assert connection.execute(tables).fetchall() == [("Item",)]
        assert connection.execute("SELECT table_name FROM elevata_copies").fetchall() == [("mart.Item",)]


def test_table_of_the_former_name_that_is_no_copy_of_the_dataset_stays(tmp_path):
    file = tmp_path / "bi.duckdb"
    write_copy(tmp_path, copy_of(file, "mart.first"))
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE mart.mine AS SELECT 7 AS x")
        connection.execute("CREATE TABLE mart.other AS SELECT 8 AS x")
        facts = "version, run_id, row_count, checksum, copied_at FROM elevata_copies"
        other = f"SELECT 'mart.other', environment, 'rawcore.rc_t_other', {facts}"
        connection.execute(f"INSERT INTO elevata_copies {other}")
    for former in ("mart.mine", "mart.other"):
        write_copy(tmp_path, copy_of(file, "mart.second", former=former))
    with duckdb.connect(str(file)) as connection:
        assert connection.execute("SELECT x FROM mart.mine UNION ALL SELECT x FROM mart.other").fetchall() == [
            (7,),
            (8,),
        ]
        names = connection.execute("SELECT table_name FROM elevata_copies ORDER BY 1").fetchall()
        assert names == [("mart.first",), ("mart.other",), ("mart.second",)]
    write_copy(tmp_path, copy_of(file, "mart.third", former="mart.first"))
    with duckdb.connect(str(file)) as connection:
        names = connection.execute("SELECT table_name FROM elevata_copies ORDER BY 1").fetchall()
        assert names == [("mart.other",), ("mart.second",), ("mart.third",)]
