"""Texts of differences, for a terminal."""

import pytest

from loader.domain.queries.differences import difference_text, is_file_cut, part_shown

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


@pytest.mark.parametrize(
    ("exported", "in_file", "is_cut"),
    [
        ({}, "", True),
        ({"exported": 17_803}, " The CSV file has all of them.", False),
        ({"exported": 5_000}, " The CSV file has the first 5,000.", True),
    ],
)
def test_difference_text_states_how_many_differing_rows_it_shows(exported: dict, in_file: str, is_cut: bool):
    rows = {"added": 1, "changed": 17_802, "gone": 0, "same": 9}
    difference = DIFFERENCE | exported | {"rows": rows}
    sentence = f"Shown are 2 of 17,803 rows that differ, the first of each kind.{in_file}"
    assert (part_shown(difference), is_file_cut(difference)) == (sentence, is_cut)
    assert difference_text(difference).endswith(f"\n{sentence}\n")
    assert part_shown(DIFFERENCE) == ""


def test_difference_without_sample_rows_has_no_table():
    nothing = {"added": [], "changed": [], "gone": []}
    same = DIFFERENCE | {"samples": {"columns": ["customer"], **nothing}}
    assert "---" not in difference_text(same)
