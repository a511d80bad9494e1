"""Selections of rows: used columns, and refusals before a table is read."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.queries.row_selection import MOST_OFFSET, RowSelection


def test_selection_survives_a_round_trip_through_read_arguments():
    selection = RowSelection("ulm", "city", "starts", "U", "name", True, 50)
    assert RowSelection.from_arguments({"limit": 20} | selection.as_arguments()) == selection


def test_selection_of_all_rows_has_no_arguments():
    assert RowSelection(comparison="equals", value="without a column").as_arguments() == {}


@pytest.mark.parametrize(
    ("selection", "code"),
    [
        (RowSelection(sort="gone"), "NO_COLUMN"),
        (RowSelection(column="gone"), "NO_COLUMN"),
        (RowSelection(column="city", comparison="like"), "BAD_SELECTION"),
        (RowSelection(offset=MOST_OFFSET + 1), "BAD_SELECTION"),
    ],
)
def test_invalid_row_selection_is_refused(selection: RowSelection, code: str):
    with pytest.raises(Refusal) as refused:
        selection.check(["city", "name"])
    assert refused.value.code == code
