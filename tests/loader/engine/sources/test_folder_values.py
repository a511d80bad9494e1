"""Columns whose values are in the names of folders, in loads and in samples."""

import datetime as dt

import pyarrow as pa
import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.engine.sources.deliveries import read_delivery
from loader.sources.file_samples import sample_files
from loader.sources.files import list_folder
from metadata.domain.sources.locations import Roots
from tests.loader.engine.sources.deliveries import KEY, refused, source_of
from tests.loader.parquet_bytes import written

CITY, DAY = DeliveredColumn("k-city", "city", "string"), DeliveredColumn("k-day", "day", "date")
FOLDERS = ("city=K%C3%B6ln+%25/day=2024-01-31", "city=Bonn/day=__HIVE_DEFAULT_PARTITION__")
CONTENTS = {
    "csv": lambda key: f"id\n{key}\n".encode(),
    "jsonl": lambda key: f'{{"id": "{key}"}}\n'.encode(),
    "json": lambda key: f'[{{"id": "{key}"}}]'.encode(),
    "parquet": lambda key: written(pa.table({"id": [key]})),
}


def put_folders(folder, kind, content=None):
    for key, name in zip("ab", FOLDERS, strict=True):
        path = folder / "sales" / name / f"x {key}.{kind}"
        path.parent.mkdir(parents=True)
        path.write_bytes((content or CONTENTS[kind])(key))
    return folder / "sales"


def load_rows(spark, source):
    delivery = read_delivery(spark, source)
    rows = sorted((tuple(row) for row in delivery.frame.collect()), key=repr)
    delivery.release()
    return rows


@pytest.mark.spark
@pytest.mark.parametrize("kind", CONTENTS)
def test_folder_names_provide_column_values(spark, tmp_path, kind):
    folder = put_folders(tmp_path, kind)
    day = dt.date(2024, 1, 31) if kind == "parquet" else "2024-01-31"
    rows = load_rows(spark, source_of(folder, (KEY, CITY, DAY), kind))
    assert rows == [("a", "Köln+%", day), ("b", "Bonn", None)]
    assert load_rows(spark, source_of(folder, (KEY,), kind)) == [("a",), ("b",)]
    assert load_rows(spark, source_of(folder / FOLDERS[1], (KEY,), kind)) == [("b",)]
    assert refused(spark, folder / FOLDERS[1], (KEY, CITY), kind).code == "MISSING_COLUMN"


@pytest.mark.spark
def test_folder_name_that_writers_spell_in_different_ways_is_one_column(spark, tmp_path):
    for key, name in {"a": "order%20day=1%2F2", "b": "order day=2", "c": "order%20day=x"}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.csv").write_text(f"id\n{key}\n")
    columns = (KEY, DeliveredColumn("k-day", "order day", "string"))
    assert load_rows(spark, source_of(tmp_path, columns, "csv")) == [("a", "1/2"), ("b", "2"), ("c", "x")]


@pytest.mark.spark
def test_headerless_files_provide_the_columns_missing_from_folder_names(spark, tmp_path):
    folder = put_folders(tmp_path, "csv", lambda key: f"{key}\n".encode())
    source = source_of(folder, (KEY, CITY, DAY), "csv", header=False)
    assert load_rows(spark, source) == [("a", "Köln+%", "2024-01-31"), ("b", "Bonn", None)]


@pytest.mark.spark
def test_file_column_takes_precedence_over_a_folder_value(spark, tmp_path):
    folder = put_folders(tmp_path, "csv", lambda key: f"id,city\n{key},here\n".encode())
    assert load_rows(spark, source_of(folder, (KEY, CITY))) == [("a", "here"), ("b", "here")]


@pytest.mark.spark
def test_a_value_of_a_folder_that_does_not_fit_is_refused(spark, tmp_path):
    folder = put_folders(tmp_path, "csv")
    refusal = refused(spark, folder, (KEY, DeliveredColumn("k-city", "city", "date")))
    assert (refusal.code, refusal.column) == ("VALUE_DOES_NOT_FIT", "city")


def test_sample_includes_columns_of_folder_names(tmp_path):
    folder, roots = put_folders(tmp_path, "csv"), Roots.of([str(tmp_path)], folder="/")
    sample = sample_files(folder, "csv", None, roots=roots)
    assert [(column.name, str(column.type)) for column in sample.columns] == [
        ("id", "string"),
        ("city", "string"),
        ("day", "date"),
    ]
    assert sample.values[1:] == (("Bonn",), (None,))
    assert [(item.location, item.files) for item in list_folder(tmp_path, roots).items] == [("sales", 2)]
