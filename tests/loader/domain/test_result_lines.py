"""Answers as lines for programs: complete, and paged without gaps."""

import csv
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from loader.domain.queries.answers import next_after
from loader.domain.queries.exports import csv_lines, json_lines

VALUES = st.none() | st.text(st.characters(blacklist_characters="\x00", blacklist_categories=("Cs",)))
ROWS = st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=5)
COLUMNS = ["id", "v"]


def answer(rows: list, truncated: bool = False) -> dict:
    return {"columns": COLUMNS, "rows": rows, "truncated": truncated}


def changed(*ops: str, truncated: bool = False) -> dict:
    changes = [
        {"op": op, "key": f"k{place}", "before": None, "after": [str(place), "x"], "versions": 1}
        for place, op in enumerate(ops)
    ]
    return {"columns": COLUMNS, "changes": changes, "truncated": truncated}


@given(ROWS)
def test_json_lines_contain_every_value_with_one_row_per_line(rows: list):
    lines = list(json_lines(answer(rows)))
    assert [list(json.loads(line).values()) for line in lines] == rows
    assert all(line.count("\n") == 1 for line in lines)


@given(ROWS)
def test_csv_lines_contain_the_same_rows_below_a_header(rows: list):
    text = "".join(csv_lines(answer(rows)))
    records = list(csv.reader(io.StringIO(text, newline="")))
    assert records == [COLUMNS, *([value or "" for value in row] for row in rows)]


def test_csv_lines_distinguish_empty_text_from_null():
    assert list(csv_lines(answer([["", None]])))[1] == '"",\r\n'


def test_next_page_begins_after_the_last_row_or_change():
    assert next_after("as_of", answer([["1", "a"], ["2", "b"]], truncated=True), ["id"], {}) == {"id": "2"}
    assert next_after("changes", changed("R", "I", truncated=True), ["id"], {}) == {"id": "1"}


def test_next_page_begins_after_a_deleted_key():
    gone = changed("D", truncated=True)
    gone["changes"][0] |= {"before": ["7", "x"], "after": None}
    assert next_after("changes", gone, ["id"], {}) == {"id": "7"}


def test_complete_or_unordered_answer_has_no_next_page():
    assert next_after("as_of", answer([["1", "a"]]), ["id"], {}) is None
    assert next_after("sample", answer([["1", "a"]], truncated=True), ["id"], {}) is None
    assert next_after("as_of", answer([["1", "a"]], truncated=True), ["renamed"], {}) is None


def test_answer_sorted_by_a_column_or_with_an_offset_has_no_next_key():
    part = answer([["1", "a"]], truncated=True)
    assert next_after("as_of", part, ["id"], {"sort": "v"}) is None
    assert next_after("as_of", part, ["id"], {"offset": 100}) is None
