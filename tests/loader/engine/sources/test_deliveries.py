"""Accepted deliveries, and the refusal of each invalid one."""

import bz2
import gzip
import json

import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.discovery import discover
from tests.fixtures.spark import held_in_memory
from tests.loader.engine.sources.deliveries import CONTRACT, KEY, refused, rows_of, source_of, tuples_of

pytestmark = pytest.mark.spark

# Local times, where summer time begins and ends

IN_BERLIN = (KEY, DeliveredColumn("k-at", "at", "timestamp"))


def test_a_time_that_summer_time_skips_is_refused_with_its_row(spark, put):
    path = put("a.csv", "id,at\na,2024-03-31 01:30\nb,2024-03-31 02:30\n")
    refusal = refused(spark, path, IN_BERLIN, timezone="Europe/Berlin")
    assert (refusal.code, refusal.row, refusal.samples) == ("VALUE_DOES_NOT_FIT", 3, ("line 3: 2024-03-31 02:30",))
    assert "Europe/Berlin" in refusal.hint


def test_ambiguous_local_times_are_counted(spark, put):
    texts = ["2024-10-27", "2024-10-27 01:59", "2024-10-27 02:00", "2024-10-27 02:59", "2024-10-27 02:30Z"]
    path = put("a.csv", "id,at\n" + "".join(f"{key},{text}\n" for key, text in zip("abcde", texts, strict=True)))
    delivery = read_delivery(spark, source_of(path, IN_BERLIN, timezone="Europe/Berlin"))
    delivery.release()
    (warning,) = delivery.warnings
    assert warning.startswith("2 values of at are ambiguous local times in Europe/Berlin")


MANY = b"id,name,n\n" + b"".join(b"%d,name %d,1\n" % (n, n * 7919 % 1_000_003) for n in range(30_000))


def bzip2_cut_after(block):
    """Return the file cut after a block; blocks begin at any bit."""
    packed = bz2.compress(MANY, 1)
    bits = "".join(f"{byte:08b}" for byte in packed)
    start = -1
    for _ in range(block + 1):
        start = bits.index(f"{0x314159265359:048b}", start + 1)
    return packed[: start // 8 + 1]


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("a.csv.bz2", bzip2_cut_after(1), "TRUNCATED_FILE"),
        ("a.csv.bz2", bz2.compress(MANY)[:-10], "TRUNCATED_FILE"),
        ("a.csv.bz2", bz2.compress(MANY)[:-4], "TRUNCATED_FILE"),
        ("a.csv.gz", gzip.compress(MANY)[:-8], "UNREADABLE_FILE"),
        ("a.csv.gz", gzip.compress(MANY)[:-4], "UNREADABLE_FILE"),
        ("a.csv.gz", gzip.compress(MANY)[:-10_000], "UNREADABLE_FILE"),
        ("a.csv.zst", b"\x28\xb5\x2f\xfd", "UNREADABLE_FILE"),
        ("a.csv.gz", b"", "UNREADABLE_FILE"),
        ("a.csv.bz2", b"", "UNREADABLE_FILE"),
        ("a.csv.zst", b"", "UNREADABLE_FILE"),
        ("a.csv.bz2", bz2.compress(MANY)[:-10] + bytes(512), "TRUNCATED_FILE"),
    ],
)
def test_a_packed_file_that_was_cut_is_refused(spark, put, name, content, code):
    refusal = refused(spark, put(name, content))
    assert (refusal.code, refusal.file[-len(name) :]) == (code, name)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (bz2.compress(MANY), 30_000),
        (bz2.compress(MANY, 1), 30_000),
        (bz2.compress(MANY) + bz2.compress(b"a,x,1\n" * 30_000), 60_000),
        (bz2.compress(MANY) + bytes(512), 30_000),
    ],
    ids=["one stream", "small blocks", "two streams", "padded with NUL bytes"],
)
def test_complete_bzip2_file_is_read_regardless_of_its_final_bit(spark, put, content, rows):
    contract = (DeliveredColumn("k-name", "name", "string"),)
    delivery = read_delivery(spark, source_of(put("a.csv.bz2", content), contract))
    assert delivery.rows == rows
    delivery.release()


def test_a_folder_whose_writer_has_not_finished_is_refused(spark, put, tmp_path):
    put("day/part-00000.csv", "id,name,n\na,x,1\n")
    put("day/_temporary/0/part-00001.csv", "id,name,n\nb,x,1\n")
    assert refused(spark, tmp_path / "day").code == "UNFINISHED_FOLDER"


def test_a_parquet_file_that_was_cut_is_refused(spark, put, tmp_path):
    spark.range(100).selectExpr("cast(id AS string) id", "'x' name", "1 n").coalesce(1).write.parquet(
        str(tmp_path / "whole")
    )
    whole = next((tmp_path / "whole").glob("*.parquet")).read_bytes()
    for cut in (1, 100, len(whole) // 2):
        assert refused(spark, put("a.parquet", whole[:-cut]), format_name="parquet").code == "UNREADABLE_FILE"


def test_gzip_compressed_csv_is_read(spark, put):
    assert rows_of(spark, put("a.csv.gz", gzip.compress(b"id,name,n\na,x,1\n"))) == [("a", "x", "1")]


def test_folder_of_files_with_different_column_orders_is_read(spark, put, tmp_path):
    put("day/one.csv", "id,name,n\na,x,1\n")
    put("day/two [b], {c}.csv", "n,id,name,more\r\n2,b,y,?\r\n")
    put("day/deep/three.csv.gz", gzip.compress(b"id,name,n\nc,z,3\n"))
    put("day/_SUCCESS", "")
    delivery = read_delivery(spark, source_of(tmp_path / "day"))
    assert sorted(tuple(row) for row in delivery.frame.collect()) == [("a", "x", "1"), ("b", "y", "2"), ("c", "z", "3")]
    assert [column["name"] for column in delivery.unknown] == ["more"]
    delivery.release()


def test_location_accepts_paths_urls_and_patterns(spark, put, tmp_path):
    put("a b/one[1].csv", "id,name,n\na,x,1\n")
    put("a b/two.csv", "id,name,n\nb,y,2\n")
    folder = tmp_path / "a b"
    first, all_rows = [("a", "x", "1")], [("a", "x", "1"), ("b", "y", "2")]
    assert rows_of(spark, folder / "one[1].csv") == first
    assert rows_of(spark, f"file://{folder}/one[1].csv") == first
    assert rows_of(spark, (folder / "one[1].csv").as_uri()) == first
    assert rows_of(spark, folder / "*.csv") == all_rows


def test_identical_rows_are_counted_and_collapsed(spark, put):
    """Check that rows compare by typed value: 1, 1.0 and 01 are the same integer."""
    path = put("a.csv", "id,name,n\na,x,1\nb,y,2\na,x,1.0\na,x,01\n")
    delivery = read_delivery(spark, source_of(path))
    assert (delivery.rows, delivery.duplicates) == (4, 2)
    assert sorted(row.id for row in delivery.frame.collect()) == ["a", "b"]
    delivery.release()
    assert not held_in_memory(spark)


def test_delivery_without_a_key_keeps_identical_rows(spark, put):
    path = put("a.csv", "id,name,n\na,x,1\na,x,1\n")
    columns = [DeliveredColumn(c.key, c.name, c.type) for c in CONTRACT]
    assert len(rows_of(spark, path, columns)) == 2


def test_unknown_columns_are_left_out_and_described(spark, put):
    path = put("a.csv", "zip,id,when,name,n,\n007,a,2020-01-01,x,1,?\n,b,2020-01-02,y,2,!\n")
    delivery = read_delivery(spark, source_of(path))
    assert delivery.frame.columns == ["id", "name", "n"]
    assert delivery.unknown == [
        {"name": "zip", "type": "string", "nullable_seen": True},
        {"name": "when", "type": "date", "nullable_seen": False},
        {"name": "(column 6)", "type": "string", "nullable_seen": False},
    ]
    delivery.release()


def test_columns_with_special_characters_in_their_names_are_read(spark, put):
    columns = [DeliveredColumn("k", "a.b `c`", "string", business_key=True), DeliveredColumn("l", "größe, m", "float")]
    path = put("a.csv", 'größe nicht,"größe, m",a.b `c`\n1,2.5,x\n')
    assert rows_of(spark, path, columns) == [("x", "2.5")]


# Parquet


@pytest.mark.core
def test_parquet_delivery_is_read_with_its_types_and_unknown_columns(spark, tmp_path):
    path = str(tmp_path / "p")
    spark.sql(
        "SELECT 'a' id, 'x' name, 1L n, named_struct('y', 2) s, 1.5D extra UNION ALL SELECT 'b', NULL, NULL, NULL, 2D"
    ).write.parquet(path)
    delivery = read_delivery(
        spark, source_of(path, [*CONTRACT, DeliveredColumn("s", "s", "json")], format_name="parquet")
    )
    assert delivery.frame.dtypes == [("id", "string"), ("name", "string"), ("n", "int"), ("s", "string")]
    assert sorted(map(tuple, delivery.frame.collect())) == [("a", "x", 1, '{"y":2}'), ("b", None, None, None)]
    assert delivery.unknown == [{"name": "extra", "type": "float", "nullable_seen": True}]
    delivery.release()


# Refusals


def test_missing_or_hidden_file_is_refused(spark, tmp_path, put):
    for location in (tmp_path / "nothing.csv", tmp_path / "*.csv", tmp_path):
        refusal = refused(spark, location)
        assert (refusal.code, refusal.file) == ("MISSING_FILE", str(location))
    assert refused(spark, put("_hidden.csv", "id,name,n\n")).code == "MISSING_FILE"


def test_a_folder_without_the_declared_number_of_files_is_refused(spark, put, tmp_path):
    for name in ("a", "b"):
        put(f"day/{name}.csv", f"id,name,n\n{name},x,1\n")
    assert len(rows_of(spark, tmp_path / "day", expected_files=2)) == 2
    short = refused(spark, tmp_path / "day", expected_files=3)
    assert (short.code, short.count, short.file) == ("MISSING_FILE", 2, str(tmp_path / "day"))
    assert refused(spark, tmp_path / "day", expected_files=1).code == "EXTRA_FILE"
    assert refused(spark, tmp_path / "day", expected_files=0).code == "BAD_OPTION"


def test_unreadable_files_and_locations_are_refused(spark, put):
    packed = gzip.compress(b"id,name,n\n" + b"".join(b"%d,x,1\n" % n for n in range(200_000)))
    assert refused(spark, put("cut.csv.gz", packed[: len(packed) // 2])).code == "UNREADABLE_FILE"
    assert refused(spark, put("not.csv.gz", "id,name,n\n")).code == "UNREADABLE_FILE"
    assert refused(spark, put("not.parquet", "id,name,n\n"), format_name="parquet").code == "UNREADABLE_FILE"
    assert refused(spark, "nofs://host/a.csv").code == "BAD_LOCATION"


@pytest.mark.parametrize("content", ["", "\n\n", "\ufeff", "\r\n"])
def test_csv_file_without_a_header_is_refused_as_empty(spark, put, content):
    refusal = refused(spark, put("a.csv", content))
    assert refusal.code == "EMPTY_FILE"
    assert refusal.file.endswith("a.csv")


def test_csv_header_with_an_unclosed_quote_is_refused(spark, put):
    assert refused(spark, put("a.csv", 'id,"name,n\na,x,1\n')).code in ("UNREADABLE_HEADER", "MISSING_COLUMN")


def test_missing_columns_are_refused_with_their_names(spark, put):
    refusal = refused(spark, put("a.csv", "ID,n\na,1\n"))
    assert (refusal.code, refusal.column, refusal.count) == ("MISSING_COLUMN", "id", 2)
    assert "id, name" in refusal.message
    assert "ID is delivered instead of id" in refusal.hint
    refusal = refused(spark, put("a.jsonl", '{"id":"a","n":1}\n'), format_name="jsonl")
    assert (refusal.code, refusal.samples) == ("MISSING_COLUMN", ("name",))


def test_column_missing_in_one_of_several_files_is_refused_with_the_file(spark, put, tmp_path):
    put("d/one.csv", "id,name,n\na,x,1\n")
    put("d/two.csv", "id,name\nb,y\n")
    refusal = refused(spark, tmp_path / "d")
    assert (refusal.code, refusal.column) == ("MISSING_COLUMN", "n")
    assert refusal.file.endswith("two.csv")


def test_accepted_delivery_returns_its_schema(spark, put):
    delivery = read_delivery(spark, source_of(put("a.csv", "id,name,n,vip\na,x,1,true\n")))
    delivery.release()
    known = ({"name": "id", "type": "string"}, {"name": "name", "type": "string"}, {"name": "n", "type": "integer"})
    assert delivery.schema == (*known, {"name": "vip", "type": "boolean"})


def test_refusal_of_a_delivery_lists_its_columns(spark, put):
    refusal = refused(spark, put("a.csv", "id,full_name,n\na,x,1\n"))
    assert refusal.code == "MISSING_COLUMN"
    assert refusal.schema == ({"name": "id"}, {"name": "n"}, {"name": "full_name", "type": "string"})
    assert "schema" not in refusal.as_json()


def test_refusal_lists_the_type_of_a_column_if_most_values_do_not_fit(spark, put):
    most = refused(spark, put("a.csv", "id,name,n\na,x,1.5\nb,y,2.5\nc,z,3\n"))
    assert most.schema == ({"name": "id"}, {"name": "name"}, {"name": "n", "type": "float"})
    few = refused(spark, put("b.csv", "id,name,n\na,x,1.5\nb,y,2\nc,z,3\n"))
    assert few.schema == ({"name": "id"}, {"name": "name"}, {"name": "n"})


def test_typed_delivery_returns_its_declared_types(spark, put, tmp_path):
    path = str(tmp_path / "typed")
    spark.createDataFrame([("a", "x", 1, True)], "id string, name string, n bigint, vip boolean").write.parquet(path)
    delivery = read_delivery(spark, source_of(path, format_name="parquet"))
    delivery.release()
    declared = {column["name"]: column["type"] for column in delivery.schema if column.get("declared")}
    assert declared == {"id": "string", "name": "string", "n": "bigint", "vip": "boolean"}


def test_duplicate_columns_are_refused(spark, put):
    refusal = refused(spark, put("a.csv", "id,name,n,name\na,x,1,y\n"))
    assert (refusal.code, refusal.column, refusal.row) == ("DUPLICATE_COLUMN", "name", 1)
    refusal = refused(
        spark, put("a.jsonl", '{"id":"a","name":"x"}\n{"id":"a","n":1,"n":2}\n{"n":1}'), format_name="jsonl"
    )
    assert (refusal.code, refusal.row) == ("DUPLICATE_COLUMN", 2)


@pytest.mark.core
@pytest.mark.parametrize(
    ("content", "count", "row", "sample"),
    [
        ("id,name,n\na,x,1\nb,y\nc,z,3,4\n", 2, 3, "line 3: b,y"),
        ("id,name,n\r\na,x,1\r\nb,y\r\n", 1, 3, "line 3: b,y"),
        ('id,name,n\na,"1\n2\n3",1\nb,y,2,?\n', 1, 5, "line 5: b,y,2,?"),
        ("id,name,n\n\na,x,1\nb,y\n", 1, 2, "record 2: b,y"),
    ],
)
def test_ragged_rows_are_refused_with_their_lines(spark, put, content, count, row, sample):
    refusal = refused(spark, put("a.csv", content))
    assert (refusal.code, refusal.count, refusal.row) == ("RAGGED_ROW", count, row)
    assert refusal.samples[0] == sample
    assert refusal.file.endswith("a.csv")
    assert f"{sample.count(',') + 1} fields, expected 3" in refusal.message


def test_ragged_row_of_a_second_file_is_refused_with_file_and_line(spark, put, tmp_path):
    put("d/one.csv", "id,name,n\na,x,1\n")
    put("d/two.csv", "id,name,n\nb,y,2\nc,z,3\nd\n")
    refusal = refused(spark, tmp_path / "d")
    assert (refusal.code, refusal.row) == ("RAGGED_ROW", 4)
    assert refusal.file.endswith("two.csv")


def test_ragged_row_without_a_header_is_refused(spark, put):
    refusal = refused(spark, put("a.csv", "a,x,1\nb,y,2,3\n"), header=False)
    assert (refusal.code, refusal.row) == ("RAGGED_ROW", 2)


def test_csv_field_too_large_for_memory_is_refused_as_an_unclosed_quote(spark, put):
    content = b'id,name,n\na,"' + (b"x" * 999 + b"\n") * 17_000
    refusal = refused(spark, put("a.csv", content))
    assert (refusal.code, refusal.row) == ("UNCLOSED_QUOTE", 2)


@pytest.mark.parametrize("format_name", ["csv", "jsonl"])
def test_wrong_encoding_is_refused_with_its_lines(spark, put, format_name):
    if format_name == "csv":
        content = "id,name,n\na,Zürich \ufffd,1\nb,".encode() + "Zürich".encode("latin-1") + b",2\nc,z,\xff\n"
    else:
        content = (
            b'{"id":"a","name":"x"}\n{"id":"a","name":"x"}\n{"id":"b","name":"Z\xfcrich"}\n{"id":"c","n":"\xff"}\n'
        )
    refusal = refused(spark, put("a", content), format_name=format_name)
    assert (refusal.code, refusal.row, refusal.count) == ("WRONG_ENCODING", 3, 2)
    assert refusal.samples[0].startswith("line 3: ")


def test_wrong_encoding_in_the_header_is_refused(spark, put):
    assert refused(spark, put("a.csv", "id,größe,n\n".encode("latin-1"))).code == "WRONG_ENCODING"
    assert refused(spark, put("b.csv", "id,name,n\na,x,1\n".encode("utf-16"))).code == "WRONG_ENCODING"


def test_bytes_outside_of_a_declared_encoding_are_refused_with_their_line(spark, put):
    refusal = refused(spark, put("a.csv", b"id,name,n\na,Z\xfcrich,1\n"), encoding="US-ASCII")
    assert (refusal.code, refusal.row) == ("WRONG_ENCODING", 2)


@pytest.mark.parametrize(
    "line",
    ['{"id":"a"', "[1]", '"a"', "null", "{'id':'a'}", '{"id":"a"} {"id":"b"}', '{"id":"a"}, {"id":"b"}', "x",
     '{"id":"a"}x', '{"id":NaN}'],
)  # fmt: skip
def test_malformed_json_line_is_refused(spark, put, line):
    path = put("a.jsonl", '{"id":"a","name":"x","n":1}\n\n' + line + "\n")
    refusal = refused(spark, path, format_name="jsonl")
    assert (refusal.code, refusal.count) == ("BAD_JSON", 1)
    assert refusal.row in (2, 3)


@pytest.mark.core
def test_values_that_do_not_fit_are_refused_with_lines_and_samples(spark, put):
    columns = [*CONTRACT, DeliveredColumn("d", "d", "decimal(4,2)"), DeliveredColumn("s", "s", "string(2)")]
    rows = ["a,x,1,1.10,ab", "b,y,1.5,1.105,abc", "c,z,9999999999,99.99,", "d,z,zero,100,ab"]
    refusal = refused(spark, put("a.csv", "id,name,n,d,s\n" + "\n".join(rows)), columns)
    assert (refusal.code, refusal.column, refusal.count, refusal.row) == ("VALUE_DOES_NOT_FIT", "n", 3, 3)
    assert refusal.samples == ("line 3: 1.5", "line 4: 9999999999", "line 5: zero")
    assert "; besides: 2 values in d (decimal(4,2)), 1 value in s (string(2))" in refusal.message


def test_parquet_values_that_do_not_fit_are_refused_with_their_records(spark, tmp_path):
    path = str(tmp_path / "p")
    spark.sql("SELECT 'a' id, 'x' name, 1L n UNION ALL SELECT 'b', 'y', 4294967296L").coalesce(1).write.parquet(path)
    refusal = refused(spark, path, format_name="parquet")
    assert (refusal.code, refusal.column, refusal.count) == ("VALUE_DOES_NOT_FIT", "n", 1)
    assert refusal.samples == ("record 2: 4294967296",)


def test_null_keys_are_refused_with_their_lines(spark, put):
    refusal = refused(spark, put("a.csv", 'id,name,n\na,x,1\n,y,2\n"",z,3\n'))
    assert (refusal.code, refusal.column, refusal.count, refusal.row) == ("NULL_KEY", "id", 2, 3)
    assert refusal.samples[0] == "line 3: id=NULL, name=y, n=2"


def test_null_in_a_not_null_column_is_refused_with_its_line(spark, put):
    columns = [KEY, DeliveredColumn("k", "name", "string", nullable=False)]
    refusal = refused(spark, put("a.csv", "id,name\na,x\nb,\n"), columns)
    assert (refusal.code, refusal.column, refusal.count, refusal.row) == ("NULL_VALUE", "name", 1, 3)


@pytest.mark.core
def test_conflicting_rows_of_a_key_are_refused(spark, put):
    refusal = refused(spark, put("a.csv", "id,name,n\na,x,1\nb,y,2\na,x,2\nc,z,3\nc,z,3\na,x,1\n"))
    assert (refusal.code, refusal.count, refusal.samples) == ("CONFLICTING_ROWS", 1, ("id=a (3 rows)",))


def test_delivery_faults_are_all_reported_together(spark, put):
    columns = [KEY, DeliveredColumn("k", "name", "string", nullable=False), *CONTRACT[2:]]
    columns.append(DeliveredColumn("d", "d", "date"))
    lines = ["a,x,1,2024-01-01", "b", ",y,z,", "c,,2,tomorrow", "e,x,1,", "e,x,2,", "f,x,7,", "f,x,7,"]
    path, rejected = put("a.csv", "\n".join(["id,name,n,d", *lines])), []
    with pytest.raises(Refusal) as caught:
        read_delivery(spark, source_of(path, columns), reject=lambda given: rejected.extend(tuples_of(given)) or 0)
    assert [(fault.code, fault.column, fault.count, fault.row) for fault in caught.value.faults] == [
        ("RAGGED_ROW", "", 1, 3),
        ("VALUE_DOES_NOT_FIT", "n", 1, 4),
        ("VALUE_DOES_NOT_FIT", "d", 1, 5),
        ("NULL_KEY", "id", 1, 4),
        ("NULL_VALUE", "name", 1, 5),
        ("CONFLICTING_ROWS", "id", 1, None),
    ]
    assert (caught.value.code, caught.value.row) == ("RAGGED_ROW", 3)
    assert (
        "; besides: 1 value in n (integer), 1 value in d (date), 1 row without a business key" in caught.value.message
    )
    assert sorted(rejected, key=lambda row: row[0]) == [
        (2, ["RAGGED_ROW"], "b", None, None),
        (3, ["VALUE_DOES_NOT_FIT n", "NULL_KEY id"], None, None, "z"),
        (4, ["VALUE_DOES_NOT_FIT d", "NULL_VALUE name"], None, "c", "2"),
        (5, ["CONFLICTING_ROWS"], None, "e", "1"),
        (6, ["CONFLICTING_ROWS"], None, "e", "2"),
    ]


def test_a_value_that_moved_to_the_next_column_is_a_conflict(spark, put):
    """Check that (x, NULL) and (NULL, x) differ, although NULL adds nothing to a hash."""
    columns = [KEY, DeliveredColumn("l", "l", "string"), DeliveredColumn("m", "m", "string")]
    assert refused(spark, put("a.csv", "id,l,m\na,x,\na,,x\n"), columns).code == "CONFLICTING_ROWS"


@pytest.mark.parametrize(
    ("code", "format_name", "options"),
    [
        ("UNKNOWN_FORMAT", "pdf", {}),
        ("UNKNOWN_OPTION", "csv", {"separator": ";"}),
        ("UNKNOWN_OPTION", "parquet", {"delimiter": ";"}),
        ("BAD_OPTION", "csv", {"delimiter": ";;"}),
        ("BAD_OPTION", "csv", {"header": "maybe"}),
        ("BAD_OPTION", "csv", {"encoding": "klingon"}),
        ("BAD_OPTION", "csv", {"timezone": "Europe/Atlantis"}),
    ],
)
def test_unknown_formats_and_invalid_options_are_refused(spark, put, code, format_name, options):
    assert refused(spark, put("a.csv", "id,name,n\n"), format_name=format_name, **options).code == code


# Discovery


def test_discover_infers_csv_types_and_nullability(spark, put):
    columns = {
        "i": ("integer", ["1", "-20", "0"]), "big": ("bigint", ["1", "3000000000", ""]),
        "huge": ("string", ["1", "99999999999999999999", "2"]), "f": ("float", ["450.0", "3435", "-0.5"]),
        "e": ("float", ["1.5e3", "1e-07", "2"]), "zip": ("string", ["007", "123", "456"]),
        "b": ("boolean", ["true", "False", ""]), "bit": ("integer", ["0", "1", "1"]),
        "d": ("date", ["2020-01-01", "2020-02-29", ""]), "t": ("timestamp", ["2020-01-01 10:00", "2020-01-01", ""]),
        "s": ("string", ["a", "", "1"]), "none": ("string", ["", "", ""]), "id": ("string", ["1e5", "2", "3"]),
    }  # fmt: skip
    lines = [",".join(columns), *(",".join(values[n] for _, values in columns.values()) for n in range(3))]
    discovery = discover(spark, put("a.csv", "\n".join(lines)), "csv")
    assert {c["name"]: c["type"] for c in discovery["columns"]} == {name: kind for name, (kind, _) in columns.items()}
    assert discovery["rows"] == 3
    assert [c["name"] for c in discovery["columns"] if c["nullable"]] == ["big", "b", "d", "t", "s", "none"]


def test_discover_infers_json_lines_types(spark, put):
    lines = [{"i": 1, "f": 1, "s": "12", "d": "2020-01-01", "o": {"x": 1}}, {"i": 2, "f": 1.5, "b": True, "o": None}]
    discovery = discover(spark, put("a.jsonl", "\n".join(map(json.dumps, lines))), "jsonl")
    assert {c["name"]: c["type"] for c in discovery["columns"]} == {
        "b": "boolean", "d": "date", "f": "float", "i": "integer", "o": "json", "s": "string",
    }  # fmt: skip


def test_discover_returns_parquet_types(spark, tmp_path):
    path = str(tmp_path / "p")
    spark.sql(
        "SELECT 1 i, 2L l, CAST(1 AS decimal(5,1)) m, 1D f, true b, DATE'2020-01-01' d, TIMESTAMP'2020-01-01' t, "
        "CAST(1 AS smallint) small, CAST(1 AS float) single, array(1) a, X'00' x"
    ).write.parquet(path)
    discovery = discover(spark, path, "parquet")
    assert [c["type"] for c in discovery["columns"]] == [
        "integer", "bigint", "decimal(5,1)", "float", "boolean", "date", "timestamp", "integer", "float", "json",
        "binary",
    ]  # fmt: skip


def test_discover_refuses_a_ragged_csv(spark, put):
    with pytest.raises(Refusal) as caught:
        discover(spark, put("a.csv", "id,name\na\n"), "csv")
    assert caught.value.code == "RAGGED_ROW"


def test_file_whose_name_has_a_colon_is_refused_with_the_reason(spark, put):
    refusal = refused(spark, put("day/orders_2024-01-01T10:00:00.csv", "id,name,n\na,x,1\n"))
    assert (refusal.code, refusal.message[-36:]) == ("UNREADABLE_FILE", "cannot be read: its name has a colon")


def test_files_with_special_characters_in_their_names_are_read(spark, put, tmp_path):
    names = ["a b", "a%20b", "a+b", "a#b", "a?b", "a[1]", "a,b", "a=b", "a%ZZ", "a*b", "~a", " a"]
    for number, name in enumerate(names):
        put(f"day/{name}.csv", f"id,name,n\n{number},{number},1\n")
        assert rows_of(spark, tmp_path / "day" / f"{name}.csv") == [(str(number), str(number), "1")]
    put("day/a\tb.csv", "id,name,n\ntab,tab,1\n")
    assert len(rows_of(spark, tmp_path / "day")) == len(names) + 1
