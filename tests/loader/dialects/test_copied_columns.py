"""Columns of a copy: types in the target, and columns that are left out, hashed or refused."""

import pytest

from architecture.domain.tables import rawcore_table
from loader.contract.refusals import Refusal
from loader.dialects.copied_columns import copied_columns, shape_of
from metadata.domain.copies import DELTA, DUCKDB, HASH, INCLUDE, JDBC, LEAVE_OUT
from metadata.domain.state import ColumnState, DatasetState
from tests.loader.harness import stable


def table(**types: str):
    columns = tuple(
        ColumnState(stable("column", name), name, type_, role="business_key" if name == "id" else "attribute")
        for name, type_ in types.items()
    )
    return rawcore_table(DatasetState(stable("dataset"), "rawcore", "rawcore", "rc_t_item", columns))


@pytest.mark.parametrize(
    ("type_", "on_postgres", "on_duckdb"),
    [
        ("time", "TEXT", "VARCHAR"),
        ("uuid", "TEXT", "VARCHAR"),
        ("json", "TEXT", "VARCHAR"),
        ("binary", "BYTEA", "BLOB"),
        ("decimal(38,10)", "NUMERIC(38,10)", "DECIMAL(38,10)"),
        ("timestamp", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP WITH TIME ZONE"),
    ],
)
def test_type_that_a_target_does_not_have_is_kept_as_text(type_, on_postgres, on_duckdb):
    for kind, physical in ((JDBC, on_postgres), (DUCKDB, on_duckdb), (DELTA, "")):
        columns = copied_columns(table(id="integer", v=type_), kind, sensitive=(), treatment=LEAVE_OUT)
        assert {column.name: column.physical for column in columns}["v"] == physical


@pytest.mark.parametrize(("kind", "name"), [(JDBC, "x" * 64), (JDBC, "ä" * 32), (DUCKDB, "a\nb")])
def test_column_name_that_the_target_does_not_take_is_refused(kind, name):
    with pytest.raises(Refusal, match="cannot be copied") as refused:
        copied_columns(table(id="integer", **{name: "string"}), kind, sensitive=(), treatment=LEAVE_OUT)
    assert refused.value.code == "NOT_RENDERED"


def test_sensitive_columns_have_their_treatment_in_the_shape():
    item = table(id="integer", v="integer")
    treated = {
        chosen: copied_columns(item, JDBC, sensitive=("v",), treatment=chosen) for chosen in (LEAVE_OUT, HASH, INCLUDE)
    }
    types = {
        chosen: {column.name: column.physical for column in columns}.get("v") for chosen, columns in treated.items()
    }
    assert types == {LEAVE_OUT: None, HASH: "TEXT", INCLUDE: "INTEGER"}
    assert len({shape_of(columns) for columns in treated.values()}) == 3
