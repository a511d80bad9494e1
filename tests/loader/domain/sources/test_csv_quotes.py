"""Scanner of CSV quotes, which gives the same result for any division of the text."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.domain.sources.csv_quotes import QuoteScanner, StrayQuote

PLAIN = {"delimiter": ",", "quote": '"', "escape": '"'}


def scan(text: str, size: int = 1 << 20, **dialect: str) -> StrayQuote | None:
    scanner = QuoteScanner(**(PLAIN | dialect))
    results = [scanner.feed(text[at : at + size]) for at in range(0, len(text), size)]
    return next((result for result in results if result), None)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize(
    ("text", "dialect", "line"),
    [
        ('id,price,name\n1,10.00,"Table, 48"""\n2,12.00"Table, 48""",x\n', {}, 3),
        ('a,5" pipe\n', {}, 1),
        ('"a\nb",1\nc,x"y"\n', {}, 3),
        ('a,"x \\" y, ",1\nb,"\\\\",5\nc,3"x\n', {"escape": "\\"}, 3),
        ('a,"x ""y"" , z",1\n"","""",""\n', {}, None),
        ('a,"x" ,1\n', {}, None),
        ('a,"x \\"y\\" , z",1\n"","\\\\",5\n', {"escape": "\\"}, None),
        ('"a","b"\r"c","d"\r', {"line_end": "\r"}, None),
    ],
)
def test_first_stray_quote_is_found_in_pieces_of_any_size(
    text: str, dialect: dict[str, str], line: int | None, size: int
):
    result = scan(text, size, **dialect)
    assert (result.line if result else None) == line


def test_refusal_names_line_field_and_text():
    result = scan('id,size\n1,"a, b"\n"2",7" pipe\n')
    assert result == StrayQuote(3, 2, '"2",7" pipe')
    refusal = result.refusal("a.csv", ("id", "size"))
    assert (refusal.code, refusal.row, refusal.column) == ("STRAY_QUOTE", 3, "size")
    assert "line 3, field 2 (size)" in refusal.message


@given(
    st.lists(st.lists(st.text(alphabet='a",\n\r \\', max_size=5), min_size=1, max_size=4), min_size=1, max_size=5),
    st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    st.integers(1, 9),
)
def test_text_of_a_csv_writer_has_no_stray_quote(rows: list[list[str]], quoting: int, size: int):
    stream = io.StringIO()
    csv.writer(stream, quoting=quoting, lineterminator="\n").writerows(rows)
    assert scan(stream.getvalue(), size) is None
