"""Deliveries of CSV with lines around the records, several header lines, repeated names and empty records."""

import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.domain.sources.provenance import SOURCE_ROW
from loader.engine.sources.deliveries import read_delivery
from tests.loader.engine.sources.deliveries import CONTRACT, KEY, refused, source_of, tuples_of

pytestmark = pytest.mark.spark

REPORT = "Export of 2026-11-28,,\nClient 17,,\nid,n,n\na,10,11\n,,\nb,20,21\n,,\nRecords: 2,,\n"
NUMBERS = (KEY, DeliveredColumn("k-n", "n", "integer"), DeliveredColumn("k-n2", "n_2", "integer"))
CASES = [
    (
        NUMBERS,
        {"skip_lines": 2, "footer_lines": 1, "repeated_names": "number"},
        REPORT,
        [("a", "10", "11"), ("b", "20", "21")],
        2,
    ),
    (CONTRACT, {"skip_lines": 1}, '5" pipes\n\nid,name,n\na,"x\ny",1\n', [("a", "x\ny", "1")], 0),
    (CONTRACT, {"footer_lines": 2}, 'id,name,n\r\na,x,1\r\nSum,1\r\n"open\r\n\r\n', [("a", "x", "1")], 0),
    (CONTRACT, {"skip_lines": 1, "header": False}, "note\na,x,1\n", [("a", "x", "1")], 0),
    (
        CONTRACT,
        {"skip_lines": 1, "encoding": "windows-1252"},
        "ä\nid,name,n\na,€,1\n".encode("cp1252"),
        [("a", "€", "1")],
        0,
    ),
    (
        CONTRACT,
        {"skip_lines": 1, "empty_is_null": False},
        'x\nid,name,n\na,"",\nb,,1\n',
        [("a", "", None), ("b", None, "1")],
        0,
    ),
    (NUMBERS, {"repeated_names": "number"}, "id,n,n\na,1,2\n", [("a", "1", "2")], 0),
    (CONTRACT, {}, "id,name,n\na,x,1,\nb,y,2,\n", [("a", "x", "1"), ("b", "y", "2")], 0),
    (CONTRACT, {}, "id,name,n\r\na,x,1,\r\n,,,\r\nb,y,,\r\n", [("a", "x", "1"), ("b", "y", None)], 1),
    (CONTRACT, {}, "id,name,n\na,x,1\n,,\n,\nb,y,2\n", [("a", "x", "1"), ("b", "y", "2")], 2),
    (CONTRACT, {"header": False}, "a,x,1,\n", [("a", "x", "1")], 0),
]


@pytest.mark.core
@pytest.mark.parametrize(("columns", "options", "content", "expected", "empty"), CASES)
def test_records_are_read_without_the_other_lines(spark, put, columns, options, content, expected, empty):
    delivery = read_delivery(spark, source_of(put("a.csv", content), columns, **options))
    rows = sorted((tuple(row) for row in delivery.frame.collect()), key=repr)
    delivery.release()
    assert (rows, delivery.rows, delivery.empty) == (expected, len(expected), empty)


def test_names_of_two_header_lines_are_joined(spark, put):
    columns = (DeliveredColumn("k-a", "Sales North", "integer"), DeliveredColumn("k-b", "Sales South", "integer"))
    place = put("a.csv", "Sales,\nNorth,South\n1,2\n")
    delivery = read_delivery(spark, source_of(place, columns, header_lines=2))
    assert [tuple(row) for row in delivery.frame.collect()] == [("1", "2")]
    delivery.release()


def test_line_break_in_a_name_is_a_blank(spark, put):
    columns = (KEY, DeliveredColumn("k-a", "name of customer", "string"))
    delivery = read_delivery(spark, source_of(put("a.csv", 'id,"name\nof customer"\na,x\n'), columns))
    assert [tuple(row) for row in delivery.frame.collect()] == [("a", "x")]
    delivery.release()


@pytest.mark.parametrize(
    ("options", "content", "code", "row"),
    [
        ({"skip_lines": 1}, "t\nid,name,n\na,x\n", "RAGGED_ROW", 3),
        ({"skip_lines": 1}, 't\nid,name,n\n"a\n1",x,1\nb,y,no\n', "VALUE_DOES_NOT_FIT", 5),
        ({"skip_lines": 1}, "t\nid,name,n\n,x,1\n", "NULL_KEY", 3),
        ({"skip_lines": 1}, b"t\nid,name,n\na,\xff,1\n", "WRONG_ENCODING", None),
        ({}, "id,name,n\na,x,1,\nb,y,2,3\n", "RAGGED_ROW", 3),
        ({}, "id,name,n\na,x,1\n,x,\n", "NULL_KEY", 3),
        ({}, "id,name,name\na,x,1\n", "DUPLICATE_COLUMN", 1),
        ({"skip_lines": 1}, "t\nid,name,n\na,x,1\nid,name,n\nb,y,2\n", "REPEATED_HEADER", 4),
    ],
)
def test_faulty_file_is_refused_with_its_line(spark, put, options, content, code, row):
    refusal = refused(spark, put("a.csv", content), **options)
    assert refusal.code == code
    assert row is None or refusal.row == row


TEXTS = tuple(DeliveredColumn(f"k-{name}", name, "string") for name in ("id", "id_2"))
PARTS = tuple(DeliveredColumn(f"k-{name}", name, "string") for name in ("Sales North", "Sales South"))


@pytest.mark.parametrize(
    ("columns", "options", "content", "row"),
    [
        (TEXTS[:1], {}, "id,n,\na,x,1\nid,n,\nb,y,2\n", 3),
        (TEXTS, {"repeated_names": "number"}, "id,id\na,x\nid,id\nb,y\n", 3),
        (TEXTS, {"repeated_names": "number", "skip_lines": 1}, "t\nid,id\na,x\nid,id\n", 4),
        (PARTS, {"header_lines": 2}, "Sales,\nNorth,South\n1,2\nSales,\nNorth,South\n3,4\n", 5),
    ],
)
def test_record_that_repeats_the_header_is_refused(spark, put, columns, options, content, row):
    refusal = refused(spark, put("a.csv", content), columns, **options)
    assert (refusal.code, refusal.row, refusal.count) == ("REPEATED_HEADER", row, 1)


def test_record_that_repeats_the_header_is_refused_beside_files_with_other_columns(spark, put):
    put("d/a.csv", "id,name\na,x\nid,name\n")
    put("d/b.csv", "id,name,n\nb,y,1\n")
    refusal = refused(spark, put("d/c.csv", "name,id\nz,c\n").rpartition("/")[0], (TEXTS[0],))
    assert (refusal.code, refusal.count) == ("REPEATED_HEADER", 1)


def test_faulty_rows_are_rejected_with_their_lines(spark, put):
    place = put("a.csv", "t\nid,name,n\na,x,no\nb,y,2,3\nc,z,3\n")
    parts = []
    source = source_of(place, skip_lines=1, faulty_rows="quarantine")
    delivery = read_delivery(spark, source, reject=lambda rejected: parts.extend(tuples_of(rejected)) or 2)
    assert delivery.rows == 3
    assert sorted(parts) == [
        (3, ["VALUE_DOES_NOT_FIT n"], None, "a", "no"),
        (4, ["RAGGED_ROW"], "b,y,2,3", None, None),
    ]
    assert [row[SOURCE_ROW] for row in delivery.rows_with_provenance.select(SOURCE_ROW).collect()] == [5]
    delivery.release()
