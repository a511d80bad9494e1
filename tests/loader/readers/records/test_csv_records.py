"""Records of CSV texts: lines around them, names, values."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.contract.refusals import Refusal
from loader.domain.sources.headers import joined_names
from loader.readers.records.csv_reading import CsvReading
from loader.readers.records.csv_records import CsvTable, table_lines
from loader.readers.records.headers import header_names
from metadata.domain.sources.reading_options import ReadingOptions

REPORT = "Export of 2026-11-28,,\nClient 17,,\nid,amount,amount\n1,10,11\n,,\n2,20,21\n,,\nRecords: 2,,\n"


def table(text: str, contract: tuple[str, ...] = (), **options) -> CsvTable:
    lines = io.StringIO(text, newline="")
    return CsvTable(lines, "a.csv", ReadingOptions.of("csv", options), contract)


def rows(text: str, **options) -> list[tuple]:
    return [record.fields for record in table(text, **options) if not record.is_empty]


# --- lines before and after


def test_lines_before_the_header_and_after_the_records_are_left_out():
    read = table(REPORT, skip_lines=2, footer_lines=1, repeated_names="number")
    assert read.names == ("id", "amount", "amount_2")
    records = list(read)
    assert [record.fields for record in records if not record.is_empty] == [("1", "10", "11"), ("2", "20", "21")]
    assert [record.line for record in records if record.is_empty] == [5, 7]


def test_blank_lines_at_the_end_are_no_footer_lines():
    assert rows("a,b\n1,2\nsum,3\n\n \r\n", footer_lines=1) == [("1", "2")]
    assert list(table_lines(["1\n", "\n", "2\n", "\n"], 0, 1)) == ["1\n", "\n"]


def test_footer_line_with_an_open_quote_is_not_parsed():
    assert rows('a,b\n1,2\n"never closed\n', footer_lines=1) == [("1", "2")]


def test_skipped_line_with_an_open_quote_is_not_parsed():
    assert rows('5" pipes\na,b\n1,2\n', skip_lines=1) == [("1", "2")]


@pytest.mark.parametrize("options", [{"quote": ""}, {"escape": ""}])
def test_noncharacter_that_stands_for_a_missing_quote_or_escape_is_refused_with_its_line(options):
    with pytest.raises(Refusal) as refused:
        rows("t\na,b\n1,2\n3,\uffff4\n5,6\n", skip_lines=1, **options)
    assert (refused.value.code, refused.value.row) == ("UNREADABLE_ROW", 4)
    assert rows("a,b\n1,\uffff2\n") == [("1", "\uffff2")]


@given(st.lists(st.sampled_from(["a\n", "\n", "b\n"])), st.integers(0, 3), st.integers(0, 3))
def test_lines_of_the_table_are_those_between(lines, skip, footer):
    expected = lines[skip:]
    if footer:
        while expected and not expected[-1].strip():
            expected.pop()
        expected = expected[: len(expected) - footer] if len(expected) > footer else []
        while expected and not expected[-1].strip():
            expected.pop()
    result = list(table_lines(lines, skip, footer))
    while footer and result and not result[-1].strip():
        result.pop()
    assert result == expected


def test_line_of_a_malformed_record_counts_skipped_lines_and_line_breaks_in_values():
    (first, second) = table('title\na,b\n"x\ny",1\n1,2,3\n', skip_lines=1)
    assert (first.line, first.fields) == (3, ("x\ny", "1"))
    assert (second.line, second.malformed) == (5, "1,2,3")


# --- names


def test_names_of_two_header_lines_are_joined_and_span_columns():
    assert table("Sales,,Returns,\nNorth,South,North,South\n1,2,3,4\n", header_lines=2).names == (
        "Sales North",
        "Sales South",
        "Returns North",
        "Returns South",
    )


def test_header_of_two_lines_has_the_texts_of_its_last_record():
    read = table("Id,Sales,,Returns\n, North,South\n1,2,3,4\n", header_lines=2)
    assert (len(read.names), read.header) == (4, ("", "North", "South", ""))


def test_name_without_one_below_does_not_span():
    assert joined_names([("id", "", "Sales", ""), ("", "name", "North", "South")]) == (
        "id",
        "name",
        "Sales North",
        "Sales South",
    )


@pytest.mark.parametrize("line", ["--|----", "----|---:", "==|=====", " -- | -- "])
def test_line_drawn_below_names_is_no_part_of_them(line: str):
    assert table(f"id|name\n{line}\n1|a\n", delimiter="|", header_lines=2).names == ("id", "name")


def test_sign_below_a_name_is_a_part_of_it():
    assert joined_names([("pH", "t"), ("-", "°C")]) == ("pH -", "t °C")
    assert joined_names([("pH", "ratio"), ("-", "-")]) == ("pH -", "ratio -")


def test_repeated_names_get_free_numbers():
    names = header_names("a.csv", ["amount", "amount", "Amount", "amount_2"], numbered=True)
    assert names == ("amount", "amount_3", "Amount_4", "amount_2")


def test_repeated_names_are_refused_without_the_option():
    with pytest.raises(Refusal, match="names amount more than once"):
        table("amount,amount\n1,2\n")


def test_line_break_in_a_name_is_a_blank():
    assert table('id,"Name\nof\r\n  customer"\n1,a\n').names == ("id", "Name of customer")


# --- values


def test_delimiter_at_the_end_of_records_is_no_field():
    assert rows("id;name\n1;a;\n2;b;\n", delimiter=";") == [("1", "a"), ("2", "b")]


def test_value_after_the_last_delimiter_is_refused():
    records = list(table("id;name\n1;a;\n2;b;c\n", delimiter=";"))
    assert [record.malformed for record in records] == [None, "2;b;c"]


def test_record_without_any_value_is_empty_whatever_its_delimiters():
    records = list(table("a,b,c\n,,\n,\n1,2,3\n\n"))
    assert [record.is_empty for record in records] == [True, True, False]


def test_first_quote_inside_of_a_value_is_known_after_the_lines_before_the_header():
    content = b'Report\nid,size\n1,5\n2,6" pipe\n3,7" pipe\n'
    options = ReadingOptions.of("csv", {"skip_lines": 1, "quotes_inside": "keep"})
    assert "a.csv, line 4, field 2 (size)" in CsvReading(options, ()).names(("a.csv", content))["warning"]


def test_quoted_empty_texts_of_another_number_are_malformed():
    (record,) = table('a,b\n"","",""\n')
    assert (record.malformed, record.is_empty) == ('"","",""', False)


def test_quoted_empty_text_is_a_value_if_empty_is_not_null():
    read = table('a,b,c\n"",,"x,"",y"\n,"",1\n', empty_is_null=False)
    assert [record.fields for record in read] == [("", None, 'x,",y'), (None, "", "1")]


def test_records_without_a_header_are_named_by_the_contract():
    read = table("note\n1,2\n", ("a", "b"), skip_lines=1, header=False)
    assert (read.names, [record.fields for record in read]) == (("a", "b"), [("1", "2")])


def test_open_quote_raises_an_error_of_csv():
    with pytest.raises(csv.Error):
        list(table('a,b\n1,"2\n'))


# --- files in tasks


def reading(**options) -> CsvReading:
    return CsvReading(ReadingOptions.of("csv", options), ())


def test_task_returns_names_and_rows_with_their_lines():
    file = ("s3a://bucket/report.csv", REPORT.encode())
    tasks = reading(skip_lines=2, footer_lines=1, repeated_names="number")
    names, header = ("id", "amount", "amount_2"), ("id", "amount", "amount")
    assert tasks.names(file) == {"path": file[0], "names": names, "header": header, "warning": ""}
    assert [row[1:3] for row in tasks.rows(file)] == [
        (4, ["1", "10", "11"]),
        (5, [None, None, None]),
        (6, ["2", "20", "21"]),
        (7, [None, None, None]),
    ]


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"x\na,b\n1,\xff\n", "WRONG_ENCODING"),
        (b'x\na,b\n1,"2\n', "UNCLOSED_QUOTE"),
        (b'x\na,b\n1,"2"3\n', "STRAY_QUOTE"),
        (b'x\na,b\n1,2"3"\n', "STRAY_QUOTE"),
        (b'x\na,"b\n', "UNREADABLE_HEADER"),
        (b"x\na,a\n", "DUPLICATE_COLUMN"),
        (b"x\n", "EMPTY_FILE"),
    ],
)
def test_task_refuses_a_file_as_a_load_does(content, code):
    assert reading(skip_lines=1).names(("file:/x.csv", content))["refusal"]["code"] == code
