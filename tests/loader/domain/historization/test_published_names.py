"""Queries over published tables, with their table names replaced."""

import pytest

from loader.domain.catalogs.table_names import query_of, renamed_schemas, with_other_names

NAMES = renamed_schemas(["core.item", "core.Item_Hist"], "x_")


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM core.item", "SELECT a FROM `x_core`.`item`"),
        ("SELECT a FROM `core`.`item` i", "SELECT a FROM `x_core`.`item` i"),
        ("SELECT a FROM CORE . item_hist", "SELECT a FROM `x_core`.`Item_Hist`"),
        ("SELECT 'core.item' FROM core.other", "SELECT 'core.item' FROM core.other"),
        ("SELECT core.item.a FROM core.item", "SELECT `x_core`.`item`.a FROM `x_core`.`item`"),
        ("SELECT a FROM catalog.core.item", "SELECT a FROM catalog.core.item"),
    ],
)
def test_only_table_names_are_replaced_in_a_query(sql, expected):
    assert with_other_names(sql, NAMES) == expected


@pytest.mark.parametrize(
    ("sql", "query"),
    [
        ("SELECT 1", "SELECT 1"),
        (
            "CREATE OR REPLACE VIEW a.b\nCOMMENT 'as select'\nWITH SCHEMA TYPE EVOLUTION\nAS SELECT c AS d",
            "SELECT c AS d",
        ),
        ("CREATE VIEW v AS WITH x AS (SELECT 1) SELECT * FROM x", "WITH x AS (SELECT 1) SELECT * FROM x"),
        ("CREATE OR REPLACE FUNCTION f(at TIMESTAMP) RETURNS TABLE RETURN SELECT 1", ""),
    ],
)
def test_query_of_returns_the_query_of_a_view_statement(sql, query):
    assert query_of(sql) == query
