"""Texts of differences, for a terminal."""

from loader.domain.queries.differences import difference_text

DIFFERENCE = {
    "table": "mart.totals",
    "table_version": 3,
    "key": ["customer"],
    "rows": {"added": 1, "changed": 1, "gone": 0, "same": 1200},
    "columns": {
        "added": [{"name": "dearest", "type": "int"}],
        "gone": [],
        "retyped": [{"name": "orders", "before": "int", "after": "bigint"}],
        "left_out": ["mail"],
    },
    "changed": {"orders": 1},
    "repeated_keys": 2,
    "samples": {
        "columns": ["customer", "orders"],
        "added": [["cid", 1]],
        "changed": [{"before": ["ann", None], "after": ["ann", 2]}],
        "gone": [],
    },
}


def test_a_difference_has_counts_columns_and_rows_with_signs():
    assert difference_text(DIFFERENCE).splitlines() == [
        "mart.totals, version 3, compared by customer",
        "1 added, 1 changed, 0 gone, 1,200 same",
        "column dearest (int) is added",
        "column orders becomes bigint (was int)",
        "column mail is masked for you and not compared",
        "orders differs in 1 row",
        "2 keys of the SELECT in more than one row: a load would be refused",
        "",
        "   customer  orders",
        "   --------  --------",
        "+  cid       1",
        "~  ann       NULL → 2",
    ]


def test_equal_rows_have_no_table():
    nothing = {"added": [], "changed": [], "gone": []}
    same = DIFFERENCE | {"samples": {"columns": ["customer"], **nothing}}
    assert "---" not in difference_text(same)
