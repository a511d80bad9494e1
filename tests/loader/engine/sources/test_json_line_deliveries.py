"""Accepted and refused deliveries of JSON lines."""

import json

import pytest
from pyspark.sql import functions as F

from loader.contract.manifest.sources import DeliveredColumn
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.formats import json_lines
from tests.loader.engine.sources.deliveries import KEY, refused, rows_of, source_of, tuples_of

pytestmark = pytest.mark.spark


@pytest.mark.core
def test_json_lines_keep_the_literal_text(spark, put):
    lines = ['{"id":"a","name":"x\\ny","n":1}', "", '{"n":1e0,"id":"b","name":null}', ' {"id":"c"} ']
    assert rows_of(spark, put("a.jsonl", "\r\n".join(lines)), format_name="jsonl") == [
        ("a", "x\ny", "1"),
        ("b", None, "1e0"),
        ("c", None, None),
    ]
    columns = [KEY, DeliveredColumn("d", "d", "decimal(10,2)"), DeliveredColumn("j", "j", "json")]
    path = put("b.jsonl", '\ufeff{"id":"a","d":1.10,"j":{"x":1.50,"y":[true]}}\n{"id":"","d":1.00,"j":[]}\n')
    assert rows_of(spark, path, columns, format_name="jsonl") == [
        ("", "1.00", "[]"),
        ("a", "1.10", '{"x":1.50,"y":[true]}'),
    ]


def test_value_that_begins_with_a_byte_order_mark_is_no_sign_of_joined_files(spark, put):
    delivery = read_delivery(spark, source_of(put("a.jsonl", '{"id": "\ufeffa"}\n'), (KEY,), "jsonl"))
    delivery.release()
    assert delivery.warnings == ()


def test_json_lines_options_read_empty_texts_and_markers_as_null(spark, put):
    path = put("a.jsonl", '{"id":"a","name":"","n":"-"}\n')
    assert rows_of(spark, path, format_name="jsonl", empty_is_null=True, null_string="-") == [("a", None, None)]


def test_unknown_json_keys_are_described(spark, put):
    path = put("a.jsonl", '{"id":"a","name":"x","n":1,"f":1.5}\n{"id":"b","zip":"12345","ID":2,"o":{"x":1}}\n')
    delivery = read_delivery(spark, source_of(path, format_name="jsonl"))
    assert {c["name"]: c["type"] for c in delivery.unknown}.keys() == {"f", "zip", "ID", "o"}
    delivery.release()
    path = put("b.jsonl", '{"id":"a","name":"x","n":1,"f":1.5}\n{"id":"b","zip":"12345","o":{"x":1}}\n')
    delivery = read_delivery(spark, source_of(path, format_name="jsonl"))
    assert {c["name"]: c["type"] for c in delivery.unknown} == {"f": "float", "zip": "string", "o": "json"}
    delivery.release()


def test_an_empty_json_file_is_a_delivery_without_rows(spark, put):
    assert rows_of(spark, put("a.jsonl", ""), format_name="jsonl") == []


JSON_LINES = [
    b'{"id": "a", "name": "x", "n": 1.0}',
    b'{"id": "b"} {"id": "c"}',
    b"[1]",
    b'{"id": "d", "n": 1, "n": 2}',
    b'{"id": "e", "name": "\xff"}',
    b"",
    b'{"id": "f", "n": "much"}',
    b'{"id": ',
    b'{"n": 3}',
    b'{"id": "g", "name": {"p":  1.10}, "n": 4}',
]


def test_malformed_json_lines_are_quarantined_with_their_faults(spark, put):
    path, rejected = put("a.jsonl", b"\n".join(JSON_LINES)), []
    source = source_of(path, format_name="jsonl", faulty_rows="quarantine")
    delivery = read_delivery(spark, source, reject=lambda given: rejected.extend(tuples_of(given)) or len(rejected))
    assert [(fault.code, fault.column, fault.count, fault.row) for fault in delivery.faults.faults] == [
        ("BAD_JSON", "", 3, 2),
        ("WRONG_ENCODING", "", 1, 5),
        ("DUPLICATE_COLUMN", "", 1, 4),
        ("VALUE_DOES_NOT_FIT", "n", 1, 6),
        ("NULL_KEY", "id", 1, 8),
    ]
    assert (delivery.rows, delivery.quarantined) == (9, 7)
    assert sorted(map(tuple, delivery.frame.collect())) == [("a", "x", "1.0"), ("g", '{"p":  1.10}', "4")]
    delivery.release()
    assert sorted(rejected, key=lambda row: row[0]) == [
        (2, ["BAD_JSON"], '{"id": "b"} {"id": "c"}', None, None),
        (3, ["BAD_JSON"], "[1]", None, None),
        (4, ["DUPLICATE_COLUMN"], '{"id": "d", "n": 1, "n": 2}', None, None),
        (5, ["WRONG_ENCODING"], '{"id": "e", "name": "\ufffd"}', None, None),
        (6, ["VALUE_DOES_NOT_FIT n"], None, "f", "much"),
        (7, ["BAD_JSON"], '{"id": ', None, None),
        (8, ["NULL_KEY id"], None, None, "3"),
    ]


ODD_LINES = [
    *(b"null", b"true", b"1", b'"x"', b"[1]", b"[[]]", b"[1,2", b"[", b"]", b"{", b"}", b"{}{}", b",", b"//c", b"# x"),
    *(b"/* c */", b"{'id':'q'}", b'{"id":NaN}', b'{"id":"q",}', b'{"id":"q"} x', b'{"id":"q","id":"r"}', b" \t"),
    *(b"\xff", b'\xff{"id":"q"}', b"\xc2\xa0", b"\xe2\x80\xa8", b"\xc2\x85", b"\x0b", b"\x0c", b"\x1c", b"\x7f"),
    *(b'\xef\xbb\xbf{"id":"q","name":"x","n":1}', b"\xef\xbb\xbf[1]"),
]


def test_odd_json_lines_neither_hide_good_lines_nor_load_rows(spark, put):
    """Put each good line between two odd ones; a task reads a few lines."""
    good = [f'{{"id":"g{n}","name":"x","n":{n}}}'.encode() for n in range(len(ODD_LINES))]
    path = put("a.jsonl", b"\n".join(line for pair in zip(ODD_LINES, good, strict=True) for line in pair))
    size = "spark.sql.files.maxPartitionBytes"
    before = spark.conf.get(size)
    spark.conf.set(size, "200")
    try:
        source = source_of(path, format_name="jsonl", faulty_rows="quarantine")
        delivery = read_delivery(spark, source, reject=lambda given: given.rows.count())
        loaded = sorted(row["id"] for row in delivery.frame.collect())
        delivery.release()
    finally:
        spark.conf.set(size, before)
    assert loaded == sorted(f"g{n}" for n in range(len(ODD_LINES)))


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b'{"id":"a","name":"x","n":1}\n[{"id":"b"},{"id":"c"}]\n', "BAD_JSON"),
        (b'{"id":"a","name":"x","n":1}\n[]\n', "BAD_JSON"),
        (b'{"id":"a","name":"x","n":1}\n\xef\xbb\xbf \n{"id":"b","name":"x","n":1}\n{"id": \n', "BAD_JSON"),
        ('{"id":"a","name":"x","n":1}\n'.encode("utf-16"), "WRONG_ENCODING"),
        ('{"id":"\xe4"}\n'.encode("latin-1"), "WRONG_ENCODING"),
    ],
)
def test_file_that_is_not_json_lines_is_refused_even_with_quarantine(spark, put, content, code):
    refusal = refused(spark, put("a.jsonl", content), format_name="jsonl", faulty_rows="quarantine")
    assert (refusal.code, refusal.faults) == (code, ())


@pytest.mark.parametrize("line", [b"\xef\xbb\xbf ", b"[]", b'[{"id":"b"},{"id":"c"}]'])
def test_json_lines_file_is_refused_if_spark_reads_another_number_of_rows(spark, put, monkeypatch, line):
    """Check that no row is marked in place of another one if Spark splits lines differently."""
    monkeypatch.setattr(json_lines, "_has_other_rows", lambda _: F.lit(False))
    content = b'{"id":"a","name":"x","n":1}\n' + line + b'\n{"id": \n'
    refusal = refused(spark, put("a.jsonl", content), format_name="jsonl", faulty_rows="quarantine")
    assert (refusal.code, "another number of rows" in refusal.message) == ("BAD_JSON", True)


@pytest.mark.parametrize(("cut", "rows"), [(1, None), (10, None), (0, 3)])
def test_json_lines_cut_in_the_last_line_are_refused(spark, put, cut, rows):
    text = "".join(json.dumps({"id": key, "name": "x", "n": 1}) + "\n" for key in "abc").rstrip()
    path = put("a.jsonl", text[: len(text) - cut])
    if rows:
        assert len(rows_of(spark, path, format_name="jsonl")) == rows
    else:
        refusal = refused(spark, path, format_name="jsonl")
        assert (refusal.code, refusal.row) == ("BAD_JSON", 3)
