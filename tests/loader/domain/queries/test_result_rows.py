"""Rows of answers for display: order, NULL and empty, long values, CSV, changes of a run."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from architecture.domain.tables import ColumnSpec, TableSpec
from elevata.core.spreadsheets import csv_text
from loader.domain.queries.answers import first_rows, next_after
from loader.domain.queries.exports import csv_lines
from loader.domain.queries.query_results import BLANK, EMPTY, NULL, SHOWN, TEXT, cell, grid_of
from loader.domain.queries.run_changes import key_changes

TABLE = TableSpec(
    "t",
    "rawcore",
    "rc_air_airport",
    "history",
    (
        ColumnSpec("k0", "rc_air_airport_key", "string", "entity_key"),
        ColumnSpec("k1", "icao", "string(4)", "business_key"),
        ColumnSpec("k2", "name", "string", "attribute"),
        ColumnSpec("k3", "country_key", "string", "foreign_key"),
        ColumnSpec("k4", "load_run_id", "string", "run_id"),
    ),
)


def answer(*rows: tuple) -> dict:
    columns = ["rc_air_airport_key", "load_run_id", "country_key", "name", "icao", "odd"]
    return {"columns": columns, "rows": [list(row) for row in rows]}


# --- files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\uff1d1", "-", "+1-1"]
)
def test_csv_text_prefixes_formulas_with_an_apostrophe(value: str):
    (header, row) = csv.reader(io.StringIO(csv_text([value], [[value]]), newline=""))
    assert header == row == [f"'{value}"]


@pytest.mark.parametrize("value", ["-5", "+5", "-1.50", "-.5", "-1E+3", "a=b", "", "2026-11-23"])
def test_csv_text_keeps_numbers_and_plain_texts(value: str):
    assert csv_text([], [[value]]).endswith(f'"{value}"\r\n')


def test_csv_lines_keep_formulas_unchanged():
    assert list(csv_lines({"columns": ["a"], "rows": [["=1+1"]]})) == ['"a"\r\n', '"=1+1"\r\n']


# --- the grid ---------------------------------------------------------------------------------------


def test_grid_lists_keys_first_and_technical_columns_last():
    names = [heading.name for heading in grid_of(answer(), TABLE).headings]
    assert names == ["icao", "name", "country_key", "odd", "rc_air_airport_key", "load_run_id"]


def test_heading_shows_type_role_and_personal_data():
    icao, name, *_, run = grid_of(answer(), TABLE, {"name"}).headings
    assert (icao.type, icao.role, icao.personal) == ("string(4)", "business key", False)
    assert name.personal
    assert (run.role, run.technical) == ("load run", True)


def test_heading_marks_a_column_that_is_not_described_any_more():
    odd = grid_of(answer(), TABLE).headings[3]
    assert (odd.name, odd.role) == ("odd", "not described any more")


def test_cells_follow_their_headings():
    (row,) = grid_of(answer(("k", "run", None, "Berlin", "EDDB", "?")), TABLE).rows
    assert [field.text for field in row] == ["EDDB", "Berlin", "", "?", "k", "run"]


def test_cell_distinguishes_null_empty_and_blank_text():
    assert [cell(value).kind for value in (None, "", "  ", "x")] == [NULL, EMPTY, BLANK, TEXT]


@given(st.text(min_size=1))
def test_a_cell_keeps_the_whole_value_and_shows_a_bounded_head(value: str):
    displayed = cell(value)
    assert displayed.text == value
    if displayed.kind == TEXT:
        assert len(displayed.head) <= SHOWN
        assert displayed.is_cut == (len(value) > SHOWN)


# --- CSV --------------------------------------------------------------------------------------------


def test_in_csv_null_is_an_empty_field_and_empty_text_is_quoted():
    assert csv_text(["a", "b"], [[None, ""], ['x"y', "1,2"]]) == '"a","b"\r\n,""\r\n"x""y","1,2"\r\n'


@given(st.lists(st.lists(st.text(), min_size=2, max_size=2)))
def test_csv_round_trip_keeps_values_except_for_added_apostrophes(rows: list[list[str]]):
    exact = "".join(csv_lines({"columns": ["a", "b"], "rows": rows}))
    assert list(csv.reader(io.StringIO(exact, newline=""))) == [["a", "b"], *rows]
    read = list(csv.reader(io.StringIO(csv_text(["a", "b"], rows), newline="")))
    for row, shown in zip(rows, read[1:], strict=True):
        assert all(text in (value, f"'{value}") for value, text in zip(row, shown, strict=True))


# --- changes of a run -------------------------------------------------------------------------------


def changed(op: str, before: tuple | None, after: tuple | None) -> tuple:
    raw_change = {"op": op, "key": "k", "before": before, "after": after, "versions": 2}
    (change,) = key_changes({**answer(), "changes": [raw_change]}, TABLE)
    return change, [(field.name, field.before.text, field.after.text, field.changed) for field in change.fields]


def test_update_shows_only_the_changed_fields():
    old, new = ("k", "r1", None, "Old", "EDDB", "x"), ("k", "r2", None, "New", "EDDB", "x")
    change, fields = changed("U", old, new)
    assert (change.label, [(name, field.text) for name, field in change.key]) == ("updated", [("icao", "EDDB")])
    assert fields == [("name", "Old", "New", True)]


def test_null_and_empty_text_differ():
    _, fields = changed("U", ("k", "r1", None, "", "EDDB", "x"), ("k", "r2", None, None, "EDDB", "x"))
    assert [field[0] for field in fields] == ["name"]


def test_insert_and_delete_show_every_described_value():
    row = ("k", "r1", "c", "Berlin", "EDDB", "x")
    assert [field[0] for field in changed("I", None, row)[1]] == ["country_key", "name", "odd"]
    assert ("name", "Berlin", "", False) in changed("D", row, None)[1]


def test_next_page_of_rows_in_key_order_starts_after_the_last_key():
    answer = {"columns": ["id", "v"], "rows": [["1", "b"], ["2", "a"]], "truncated": True}
    assert next_after("as_of", answer, ["id"], {"find": "x"}) == {"id": "2"}
    assert next_after("as_of", answer, ["id"], {"sort": "v"}) is None
    assert next_after("as_of", answer, ["id"], {"offset": 2}) is None


def test_an_answer_has_the_first_rows_within_its_size():
    rows = [("ab", None), ("cd", "e"), ("f", "g")]
    assert first_rows(rows, 5) == [["ab", None], ["cd", "e"]]
    assert first_rows(rows, 1) == [["ab", None]]
