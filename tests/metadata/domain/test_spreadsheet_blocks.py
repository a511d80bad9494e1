"""Tests of pasted spreadsheet blocks: parsing, and mapping to the column grid."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metadata.domain import paste
from metadata.domain.paste import PasteProblem, lay_out, read_block

NAMES = ["id", "name", "size"]
CELL = st.text(st.sampled_from('ab"\t\n, '), max_size=6)


def as_spreadsheets_write(block: list[list[str]]) -> str:
    """Return a block as clipboard text: cells with tabs, line ends or quotes are quoted, quotes doubled."""

    def cell(text: str) -> str:
        quoted = any(character in text for character in '\t\n"')
        return '"' + text.replace('"', '""') + '"' if quoted else text

    return "\r\n".join("\t".join(cell(text) for text in line) for line in block) + "\r\n"


@given(st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=1, max_size=4))
def test_spreadsheet_block_round_trips_through_the_clipboard_format(block: list[list[str]]) -> None:
    assert read_block(as_spreadsheets_write(block)) == block


@given(st.text(st.sampled_from('a"\t\r\n'), max_size=30))
def test_any_text_is_read_as_a_block_without_empty_lines(text: str) -> None:
    assert all(line for line in read_block(text))


def test_unclosed_quote_is_an_ordinary_character() -> None:
    assert read_block('5" pipe\t"quoted\nnext') == [['5" pipe', '"quoted'], ["next"]]


def test_a_text_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paste, "MAX_CHARACTERS", 3)
    with pytest.raises(PasteProblem, match="longer than 3 characters"):
        read_block("abcd")


def laid(text: str, *, row: int = 0, cell: str = "type") -> list[tuple]:
    lines = lay_out(read_block(text), names=NAMES, row=row, cell=cell)
    return [(line.number, line.name, line.row, line.cells) for line in lines]


def test_block_fills_cells_to_the_right_and_down_from_the_current_cell() -> None:
    assert laid("Kim\tred\nLou\tblue", row=1, cell="owner") == [
        (1, "name", 1, {"owner": "Kim", "tags": "red"}),
        (2, "size", 2, {"owner": "Lou", "tags": "blue"}),
    ]


def test_headings_of_a_block_select_the_cells() -> None:
    assert laid("Description\tTYPE\nwho\tstring") == [(2, "id", 0, {"description": "who", "type": "string"})]


def test_names_in_a_block_select_existing_columns_and_add_new_ones() -> None:
    assert laid("Name\tType\nsize\tinteger\nheight\tfloat\nID\tstring", row=2) == [
        (2, "size", 2, {"type": "integer"}),
        (3, "height", None, {"type": "float"}),
        (4, "ID", 0, {"type": "string"}),
    ]


def test_block_pasted_into_the_name_cell_selects_columns_by_name() -> None:
    assert laid("size\tinteger", cell="name") == [(1, "size", 2, {"type": "integer"})]


def test_empty_lines_are_passed_over_and_still_counted() -> None:
    assert [line[0] for line in laid("string\n\t\nfloat")] == [1, 3]


@pytest.mark.parametrize(
    ("text", "cell", "message"),
    [
        ("", "type", "there is nothing to paste"),
        ("Name\tType", "type", "there is nothing to paste"),
        ("a\nb\nc\nd\ne", "owner", "line 4: 2 lines more than there are columns"),
        ("a\tb\tc\td\te", "owner", r"line 1: has more cells than the grid has columns to the right \(4\)"),
        ("Name\tName\na\tb", "type", "line 1: a heading stands there twice"),
        ("Name\tType\n\tstring", "type", "line 2: says no column's name"),
        ("Name\tType\nid\tstring\nID\tstring", "type", "line 3: column 'ID' stands there twice"),
        ("a", "reads", "there is no cell 'reads'"),
    ],
)
def test_blocks_that_do_not_fit_are_refused_with_their_line(text: str, cell: str, message: str) -> None:
    with pytest.raises(PasteProblem, match=message):
        laid(text, cell=cell)


def test_a_block_of_too_many_lines_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paste, "MAX_LINES", 1)
    with pytest.raises(PasteProblem, match="more than 1 lines"):
        laid("string\nfloat")
