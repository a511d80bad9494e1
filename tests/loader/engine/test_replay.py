"""Conversion of a case's columns and rows before Spark reads them."""

import pytest

from loader.domain.reference import Header
from loader.domain.reference.batch import Columns
from loader.engine.replay import SparkEngine
from metadata.domain.types import parse

FILES = {"input": "batch_files", "time": "_fivetran_start"}


def engine(policy: dict, *columns: str, present: tuple[str, ...] | None = None) -> SparkEngine:
    types = dict.fromkeys(columns, "string")
    header = Header.from_dict({"keys": [columns[0]], "columns": types, "policy": policy})
    known = Columns({name: parse(type_) for name, type_ in types.items()}, present or columns)
    return SparkEngine(None, "/warehouse", header, known, {name: f"key of {name}" for name in columns})


@pytest.mark.parametrize("name", ["loaded_at", "ROW_HASH", "load_run_id", "version_state", "__event_at", "__key"])
def test_case_column_named_like_a_technical_column_gets_a_prefix(name):
    of_case = engine({}, "id", name)
    called = of_case._physical
    assert (called["id"], called[name]) == ("id", f"data_{name}")
    assert [column.name for column in of_case._specs()[0].of_purpose("attribute")] == [f"data_{name}"]
    assert [part.column for part in of_case._rawcore_load(1).row_hash] == [f"data_{name}"]


def test_parallel_cases_use_distinct_catalog_names():
    first, second = (engine({}, "id", "v") for _ in range(2))
    assert not {spec.qualified_name for spec in first._specs()} & {spec.qualified_name for spec in second._specs()}


def test_policy_refers_to_a_case_column_by_its_prefixed_name():
    of_case = engine({"track": ["row_hash"]}, "id", "row_hash", "v")
    assert of_case._rawcore_load(1).policy["track"] == ["data_row_hash"]


def test_case_columns_that_differ_only_by_letter_case_get_distinct_names():
    assert engine({}, "id", "Name", "name")._physical == {"id": "id", "Name": "Name", "name": "name_2"}


def test_file_rows_of_a_case_omit_columns_that_the_source_lacks():
    of_case = engine(FILES, "id", "v", "dropped", present=("id", "v"))
    row = {"id": "1", "v": "a", "dropped": "b", "_fivetran_start": "2024-01-01", "_fivetran_synced": "now"}
    assert of_case._file_rows([row]) == [{"id": "1", "v": "a", "_fivetran_start": "2024-01-01"}]
