"""Columns of lists: shown, hidden, and in the CSV file."""

import pytest

from elevata.lists.columns import Column, csv_columns, shown_labels

COLUMNS = (
    Column("Name", {"name": "name", "active": "active"}),
    Column("Layer", {"layer": "layer"}),
    Column("Rows"),
    Column("Owner", {"owner": "owner"}, shown=False),
)


@pytest.mark.parametrize(
    ("chosen", "visible"),
    [
        (None, ["Name", "Layer", "Rows"]),
        (["Owner", "Rows"], ["Name", "Rows", "Owner"]),
        ([], ["Name"]),
        (["Former"], ["Name"]),
    ],
)
def test_the_first_column_and_the_chosen_ones_are_shown(chosen: list[str] | None, visible: list[str]):
    assert shown_labels(COLUMNS, chosen) == visible


def test_the_file_has_all_columns_unless_some_are_chosen():
    assert list(csv_columns(COLUMNS, None)) == ["name", "active", "layer", "owner"]
    assert list(csv_columns(COLUMNS, ["Owner"])) == ["name", "active", "owner"]
