"""Accepted and refused deliveries of CSV: records, options, quotes, control characters."""

import bz2
import gzip

import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.engine.sources.deliveries import read_delivery
from tests.loader.engine.sources.deliveries import KEY, refused, rows_of, source_of

pytestmark = pytest.mark.spark


@pytest.mark.core
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("id,name,n\na,x,1\n", [("a", "x", "1")]),
        ("id,name,n\na,x,1", [("a", "x", "1")]),
        ("id,name,n\r\na,x,1\r\nb,,\r\n", [("a", "x", "1"), ("b", None, None)]),
        ('id,name,n\r\na,"x\r\ny\nz","1"\r\n', [("a", "x\r\ny\nz", "1")]),
        ("id,name,n\ra,x,1\rb,,\r", [("a", "x", "1"), ("b", None, None)]),
        ("id,name,n\na,x,1\r\nb,y,2\n", [("a", "x", "1"), ("b", "y", "2")]),
        ("id,name,n\r\na,x,1\nb,y,2\r\n", [("a", "x", "1"), ("b", "y", "2")]),
        ('id,name,n\na,"line 1\nline 2",1\nb,"q""q, z",2\n', [("a", "line 1\nline 2", "1"), ("b", 'q"q, z', "2")]),
        ("\ufeffid,name,n\na,x,1\n", [("a", "x", "1")]),
        ('\ufeff"id","name","n"\r\n"a","x",1\r\n', [("a", "x", "1")]),
        ("id,name,n\n\na,x,1\n\n\nb,y,2\n\n", [("a", "x", "1"), ("b", "y", "2")]),
        ("id,name,n\r\n\r\na,x,1\r\n\r\n", [("a", "x", "1")]),
        ("\r\n\r\nid,name,n\r\na,x,1\r\n", [("a", "x", "1")]),
        ('id,name,n\na,"",\n', [("a", None, None)]),
        ("id, name ,n\na, x ,1\n", [("a", " x ", "1")]),
        ('"id","na\nme","n",name\na,?,1,x\n', [("a", "x", "1")]),
        ("n,id,name\n1,a,x\n", [("a", "x", "1")]),
        ("id,name,n\na,\ufffd genuine,1\n", [("a", "\ufffd genuine", "1")]),
        ("id,name,n\n", []),
    ],
)
def test_csv_files_are_read_with_any_line_ends_quotes_and_blank_lines(spark, put, content, expected):
    assert rows_of(spark, put("a.csv", content)) == expected


@pytest.mark.parametrize(
    ("options", "content", "expected"),
    [
        ({"delimiter": ";"}, "id;name;n\na;x,y;1\n", [("a", "x,y", "1")]),
        ({"delimiter": "\t"}, "id\tname\tn\na\tx\t1\n", [("a", "x", "1")]),
        ({"quote": "'"}, "id,name,n\na,'x, ''y''',1\n", [("a", "x, 'y'", "1")]),
        ({"escape": "\\"}, 'id,name,n\na,"x \\"y\\"",1\n', [("a", 'x "y"', "1")]),
        ({"quote": ""}, 'id,name,n\na,"x,1\n', [("a", '"x', "1")]),
        ({"quote": ""}, "id,name,n\na,\0x,1\nb,y\0,2\n", [("a", "\0x", "1"), ("b", "y\0", "2")]),
        ({"escape": ""}, 'id,name,n\na,"x\0",1\nb,"\0y",2\n', [("a", "x\0", "1"), ("b", "\0y", "2")]),
        ({"escape": ""}, 'id,name,n\na,"x,\\",1\n', [("a", "x,\\", "1")]),
        ({"header": False}, "a,x,1\nb,y,2\n", [("a", "x", "1"), ("b", "y", "2")]),
        ({"header": False}, '\ufeff"a",x,1\r\n', [("a", "x", "1")]),
        ({"header": False}, "", []),
        ({"empty_is_null": False}, 'id,name,n\na,"",\nb,,"1"\n', [("a", "", None), ("b", None, "1")]),
        ({"empty_is_null": False}, 'n,id,name\r\n,a,""\r\n1,b,\r\n', [("a", "", None), ("b", None, "1")]),
        ({"null_string": "NULL"}, 'id,name,n\na,"NULL",NULL\nb,,2\n', [("a", None, None), ("b", None, "2")]),
        ({"encoding": "ISO-8859-1"}, "id,name,n\na,Zürich,1\n".encode("latin-1"), [("a", "Zürich", "1")]),
        ({"encoding": "windows-1252"}, "id,name,n\na,5 €,1\n".encode("cp1252"), [("a", "5 €", "1")]),
        ({"encoding": "UTF-16"}, "id,name,n\r\na,Zürich,1\r\n".encode("utf-16"), [("a", "Zürich", "1")]),
    ],
)
def test_csv_options_determine_how_a_file_is_read(spark, put, options, content, expected):
    assert rows_of(spark, put("a.csv", content), **options) == expected


def test_first_record_with_a_long_field_is_read(spark, put):
    text = "x" * 200_000
    assert rows_of(spark, put("a.csv", f"a,{text},1\n"), header=False) == [("a", text, "1")]


KEPT = {"quotes_inside": "keep"}
GOOD_QUOTES = [
    (KEPT, 'id,name,n\na,5" pipe,1\nb,a "b" c,2\n', [("a", '5" pipe', "1"), ("b", 'a "b" c', "2")]),
    (KEPT, 'id,name,n\na, "x",1\n', [("a", ' "x"', "1")]),
    ({}, 'id,name,n\na,"x" ,1\n', [("a", "x", "1")]),
    ({}, 'id,name,n\na,"""","1"', [("a", '"', "1")]),
    ({}, 'n,id,name\r\n1,a,"x\r\n"\r\n', [("a", "x\r\n", "1")]),
    ({"escape": "\\"}, 'id,name,n\na,"\\"x\\\\",1\n', [("a", '"x\\', "1")]),
    ({"quote": "'"}, 'id,name,n\na,"x,1\n', [("a", '"x', "1")]),
    ({"encoding": "UTF-16"}, 'id,name,n\r\na,"Zü\r\nrich",1\r\n'.encode("utf-16"), [("a", "Zü\r\nrich", "1")]),
]


@pytest.mark.parametrize(("options", "content", "expected"), GOOD_QUOTES)
def test_csv_quotes_that_are_closed_or_kept_by_the_option_are_read(spark, put, options, content, expected):
    assert rows_of(spark, put("a.csv", content), **options) == expected


UNCLOSED = 'id,n,name\na,1,x\nb,2,"y\nc,3,z\n'


@pytest.mark.parametrize(
    ("name", "options", "content"),
    [
        ("a.csv", {}, UNCLOSED),
        ("a.csv", {}, UNCLOSED.removesuffix("\n")),
        ("a.csv", {}, UNCLOSED.replace("n,name", "name,n").replace('2,"y', '"y,2')),
        ("a.csv", {}, UNCLOSED.replace("\n", "\r\n")),
        ("a.csv", {}, UNCLOSED.replace("\n", "\r")),
        ("a.csv", {}, UNCLOSED.replace('"y', '"y""')),
        ("a.csv", {"escape": "\\"}, UNCLOSED.replace('"y', '"y\\"')),
        ("a.csv", {"quote": "'", "delimiter": ";"}, UNCLOSED.replace('"', "'").replace(",", ";")),
        ("a.csv", {"encoding": "UTF-16"}, UNCLOSED.encode("utf-16")),
        ("a.csv", {"encoding": "windows-1252"}, UNCLOSED.replace("x", "€").encode("cp1252")),
        ("a.csv.gz", {}, gzip.compress(UNCLOSED.encode())),
        ("a.csv.bz2", {}, bz2.compress(UNCLOSED.encode())),
    ],
)
def test_unclosed_quote_is_refused_with_its_line(spark, put, name, options, content):
    refusal = refused(spark, put(name, content), **options)
    assert (refusal.code, refusal.row) == ("UNCLOSED_QUOTE", 3)
    assert refusal.file.endswith(name)


def test_refusal_of_an_unclosed_quote_names_its_file(spark, put, tmp_path):
    put("day/1.csv", "id,name,n\na,x,1\n")
    put("day/2.csv", 'n,id,name\n1,b,"x\ny"\n2,c,"z\n3,d,w\n')
    refusal = refused(spark, tmp_path / "day")
    assert (refusal.code, refusal.row, refusal.file[-9:]) == ("UNCLOSED_QUOTE", 4, "day/2.csv")


@pytest.mark.parametrize(
    ("options", "content", "line"),
    [
        ({}, 'id,name,n\na,"x"y,1\n', 2),
        # The quote that opens in line 3 is closed by the next row's first.
        ({}, 'id,n,name\na,1,x\nb,2,"y\nc,3,"z"\nd,4,w\n', 3),
        ({"escape": "\\"}, 'id,name,n\na,"x ""y""",1\n', 2),
    ],
)
def test_text_after_a_closing_quote_is_refused_with_its_line(spark, put, options, content, line):
    refusal = refused(spark, put("a.csv", content), **options)
    assert (refusal.code, refusal.row) == ("STRAY_QUOTE", line)


@pytest.mark.parametrize(
    ("options", "content", "line", "column"),
    [
        ({}, 'id,name,n\na,"x, y",1\nb,2.00"x, y",2\n', 3, "name"),
        ({}, 'id,name,n\n"a\n,",x,1\nb,5" pipe,2\n', 4, "name"),
        ({}, 'id,name,n\r\na,x,1\r\nb, "y",2\r\n', 3, "name"),
        ({}, 'id,name,n\ra,x,1\rb"",y,2\r', 3, "id"),
        ({"escape": "\\"}, 'id,name,n\na,"x \\"y\\", ",1\nb,y"2",2\n', 3, "name"),
        ({"quote": "'", "delimiter": ";"}, "id;name;n\na;it's;1\n", 2, "name"),
        ({"encoding": "UTF-16"}, 'id,name,n\na,5" pipe,1\n'.encode("utf-16"), 2, "name"),
    ],
)
def test_quote_inside_of_an_unquoted_field_is_refused_with_line_and_field(spark, put, options, content, line, column):
    refusal = refused(spark, put("a.csv", content), **options)
    assert (refusal.code, refusal.row, refusal.column) == ("STRAY_QUOTE", line, column)
    assert "quotes_inside" in refusal.hint


@pytest.mark.parametrize(
    ("options", "content"),
    [
        ({"quote": ""}, "id,name,n\na,x,1\nb,\uffffy,2\nc,z,3\n"),
        ({"quote": "", "encoding": "UTF-16"}, "id,name,n\r\na,x,1\r\nb,\uffffy,2\r\n".encode("utf-16")),
        ({"escape": ""}, 'id,name,n\na,x,1\nb,"y\uffff",2\nc,"z",3\n'),
    ],
)
def test_noncharacter_that_stands_for_a_missing_quote_or_escape_is_refused(spark, put, options, content):
    refusal = refused(spark, put("a.csv", content), **options)
    assert (refusal.code, refusal.row) == ("UNREADABLE_ROW", 3)


def test_quotes_that_a_source_keeps_are_named_by_a_warning(spark, put):
    delivery = read_delivery(spark, source_of(put("a.csv", 'id,name,n\na,x,1\nb,5" pipe,2\nc,7" pipe,3\n'), **KEPT))
    delivery.release()
    (warning,) = delivery.warnings
    assert "a.csv, line 3, field 2 (name): the first quote inside of a field" in warning
    assert "pipe" not in warning


def test_quote_inside_of_an_unquoted_field_of_a_packed_file_is_refused(spark, put):
    refusal = refused(spark, put("a.csv.gz", gzip.compress(b'id,name,n\na,5" pipe,1\n')))
    assert (refusal.code, refusal.row) == ("STRAY_QUOTE", 2)


@pytest.mark.parametrize(
    ("content", "options", "rows"),
    [
        ("id,name,n\na,5 \x80,1\nb,\u20ac,2\nc,\x9f,\n", {}, "2 rows"),
        ("id,name,n\na,5 €,1\n".encode("cp1252"), {"encoding": "ISO-8859-1"}, "1 row"),
    ],
)
def test_control_characters_of_a_wrong_encoding_are_loaded_with_a_warning(spark, put, content, options, rows):
    delivery = read_delivery(spark, source_of(put("a.csv", content), **options))
    names = {row["name"] for row in delivery.frame.collect()}
    delivery.release()
    assert "5 \x80" in names
    (warning,) = delivery.warnings
    assert warning.startswith(f"{rows} with control characters")
    assert "windows-1252" in warning
    delivery = read_delivery(spark, source_of(put("b.csv", "id,name,n\na,Zürich €,1\n")))
    delivery.release()
    assert delivery.warnings == ()


def test_byte_order_mark_within_a_joined_file_is_loaded_with_a_warning(spark, put):
    """Check that a mark at the beginning of a file is not part of a value."""
    first, joined = "\ufeffid,name,n\na,x,1\n", "\ufeffid,name,n\nb,\ufeffy,1\n\ufeffc,z,2\n"
    put("day/1.csv", first)
    delivery = read_delivery(spark, source_of(put("day/2.csv", joined).replace("2.csv", "*.csv")))
    keys = {row["id"] for row in delivery.frame.collect()}
    delivery.release()
    assert keys == {"a", "b", "\ufeffc"}
    (warning,) = delivery.warnings
    assert warning.startswith("1 row with a byte order mark")


@pytest.mark.parametrize("header", ["id,name,n", "id, name,n ", "\ufeffid,name,n"])
def test_record_that_repeats_the_header_is_refused_with_its_line(spark, put, header):
    contract = (KEY, DeliveredColumn("k-name", "name", "string"))
    refusal = refused(spark, put("a.csv", f"\ufeffid,name,n\na,x,1\n{header}\nb,y,2\n"), contract)
    assert (refusal.code, refusal.row, refusal.count) == ("REPEATED_HEADER", 3, 1)


def test_record_that_repeats_a_header_with_the_null_text_and_a_folded_key_is_refused(spark, put):
    put("day/1.csv", "id,NA,n\na,x,1\nid,NA,n\n")
    put("day/2.csv", "id,NA,n,extra\na,x,1,2\n")
    day = put("day/3.csv", "n,id\n1,b\n").rpartition("/")[0]
    refusal = refused(spark, day, (KEY,), null_string="NA", fold_keys="upper")
    assert (refusal.code, refusal.row, refusal.count) == ("REPEATED_HEADER", 3, 1)


@pytest.mark.parametrize("before", ["", "Names of systems\n"])
def test_record_that_repeats_the_header_is_a_row_if_the_source_keeps_it(spark, put, before):
    contract = (KEY, DeliveredColumn("k-name", "name", "string"))
    place = put("a.csv", f"{before}id,name\nid,name\n")
    options = {"skip_lines": 1} if before else {}
    assert rows_of(spark, place, contract, repeated_headers="keep", **options) == [("id", "name")]


def test_values_like_names_of_columns_are_no_header(spark, put):
    contract = (KEY, DeliveredColumn("k-name", "name", "string"))
    assert rows_of(spark, put("a.csv", "id,name,n\nid,name,\nid2,name,n\n"), contract) == [
        ("id", "name"),
        ("id2", "name"),
    ]
    assert rows_of(spark, put("b.csv", "id\nid\n"), (KEY,)) == [("id",)]
