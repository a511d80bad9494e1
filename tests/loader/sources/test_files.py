"""Sampling of files: refusals and their messages equal those of a load."""

import bz2
import gzip
import json
import os
import threading
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from loader.contract.refusals import Refusal
from loader.sources import avro_files, file_samples, page_limits
from loader.sources.file_detection import detect_file
from loader.sources.file_samples import sample_files
from loader.sources.files import delivery_at, files_at, list_folder
from loader.sources.page_limits import within
from loader.sources.results import Sample
from loader.sources.typed_files import data_type
from metadata.domain.sources.locations import OutsideRoots, Roots
from tests.loader.readers.records.binary_workbooks import Error, ods, xls, xlsb
from tests.loader.readers.records.workbook_files import workbook


def zstd(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def roots(*folders: Path) -> Roots:
    return Roots.of(map(str, folders), folder="/")


def sampled(path: Path, content: str | bytes, kind: str = "csv", options: dict | None = None, **how: Any) -> Sample:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return sample_files(path, kind, options, roots=roots(path.parent), **how)


def types(sample: Sample) -> dict[str, str]:
    return {column.name: str(column.type) for column in sample.columns}


def refusal(path: Path, content: str | bytes, kind: str = "csv", options: dict | None = None) -> Refusal:
    with pytest.raises(Refusal) as refused:
        sampled(path, content, kind, options)
    return refused.value


# --- CSV -----------------------------------------------------------------------------------------


def test_sample_keeps_leading_zeros_as_text(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "zip,n\n01067,1\n80331,2\n")
    assert types(sample) == {"zip": "string", "n": "integer"}
    assert sample.values[0] == ("01067", "80331")


def test_sample_reads_the_first_rows_and_states_their_number(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "n\n" + "1\n" * 50 + "x\n", rows=50)
    assert (sample.rows, sample.whole, types(sample)) == (50, False, {"n": "integer"})
    assert sample.extent == "the first 50 rows of a.csv"


def test_empty_csv_fields_are_null_unless_empty_is_null_is_false(tmp_path: Path):
    content = 'a,b\n1,\n2,""\n3,x\n'
    assert [c.nulls for c in sampled(tmp_path / "a.csv", content).columns] == [0, 2]
    sample = sampled(tmp_path / "a.csv", content, options={"empty_is_null": False})
    assert [c.nulls for c in sample.columns] == [0, 1]


def test_quotes_can_be_switched_off(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", 'a,b\n"x,5"\n', options={"quote": ""})
    assert sample.values == (('"x',), ('5"',))


def test_null_string_is_counted_as_null(tmp_path: Path):
    options = {"null_string": "-", "timezone": "Europe/Berlin"}
    sample = sampled(tmp_path / "a.csv", "a,b\n1,-\n-,x\n", options=options)
    assert (types(sample), [c.nulls for c in sample.columns]) == ({"a": "integer", "b": "string"}, [1, 1])
    lines = sampled(tmp_path / "a.jsonl", '{"a": 1, "b": "-"}\n{"a": "-", "b": ""}\n', "jsonl", options)
    assert [c.nulls for c in lines.columns] == [1, 1]
    emptied = sampled(tmp_path / "b.jsonl", '{"a": 1, "b": ""}\n', "jsonl", {"empty_is_null": True})
    assert [c.nulls for c in emptied.columns] == [0, 1]


def test_quotes_delimiters_and_the_byte_order_mark_are_read(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", '\ufeffid;said\r\n1;"a ""b""\n; c"\r\n', options={"delimiter": ";"})
    assert [column.name for column in sample.columns] == ["id", "said"]
    assert sample.values[1] == ('a "b"\n; c',)


def test_quote_inside_of_an_unquoted_field_is_refused_unless_it_is_declared(tmp_path: Path):
    content = 'id,size\n1,"5"" x"\n2,7" pipe\n'
    error = refusal(tmp_path / "a.csv", content)
    assert (error.code, error.row) == ("STRAY_QUOTE", 3)
    assert "field 2" in error.message
    sample = sampled(tmp_path / "a.csv", content, options={"quotes_inside": "keep"})
    assert sample.values[1] == ('5" x', '7" pipe')


def test_control_characters_of_a_wrong_encoding_are_noted(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "id,name\n1,5 \x80\n2,€\n")
    assert sample.values[1] == ("5 \x80", "€")
    assert [note for note in sample.notes if "1 row with control characters" in note and "windows-1252" in note]


def test_byte_order_mark_within_a_joined_file_is_noted(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "\ufeffid,name\na,x\n\ufeffb,y\n")
    assert sample.values[0] == ("a", "\ufeffb")
    assert [note for note in sample.notes if "1 row with a byte order mark" in note]
    assert "byte order mark" not in " ".join(sampled(tmp_path / "b.csv", "\ufeffid,name\na,x\n").notes)


@pytest.mark.parametrize(
    ("content", "kind", "options", "is_noted"),
    [
        ("a  xx\n\ufeffb yy\n", "fixed", {"columns": "id:1-3, name:4-5"}, True),
        ('{"id": "a"}\n{"id": "\ufeffb"}\n', "jsonl", {}, False),
        ('[{"id": "a"}, {"id": "\ufeffb"}]', "json", {}, False),
        (workbook({"S": [["id"], ["a"], ["\ufeffb"]]}), "xlsx", {}, False),
    ],
)
def test_byte_order_mark_is_noted_in_formats_of_lines_only(
    tmp_path: Path, content: str | bytes, kind: str, options: dict, is_noted: bool
):
    notes = sampled(tmp_path / f"a.{kind}", content, kind, options).notes
    assert any("byte order mark" in note for note in notes) == is_noted


@pytest.mark.parametrize("content", ["id,name\na,5 \x80\n\ufeffb,y\n", '"id,name"\n"\x80"\n"y"\n', "id,name\na,x\n"])
def test_detection_has_the_notes_of_the_sample(tmp_path: Path, content: str):
    _, *notes = sampled(tmp_path / "a.csv", content, options=None).notes
    assert list(detect_file(tmp_path / "a.csv", roots(tmp_path)).notes) == notes


def test_without_a_header_columns_are_numbered(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "1,x\n2,y\n", options={"header": False})
    assert types(sample) == {"column_1": "integer", "column_2": "string"}
    assert sample.rows == 2


@pytest.mark.parametrize(
    ("ending", "pack"), [(".csv.gz", gzip.compress), (".csv.bz2", bz2.compress), (".csv.zst", zstd)]
)
def test_packed_files_are_unpacked(tmp_path: Path, ending: str, pack: Any):
    assert types(sampled(tmp_path / f"a{ending}", pack(b"n\n1\n"))) == {"n": "integer"}


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
@pytest.mark.parametrize(
    ("kind", "options"), [("csv", None), ("csv", {}), ("jsonl", {}), ("fixed", {"columns": "a:1-2"})]
)
def test_packed_file_of_0_bytes_is_refused(tmp_path: Path, kind: str, options: dict | None, ending: str):
    refused = refusal(tmp_path / f"a.{kind}.{ending}", b"", kind, options)
    assert (refused.code, "0 bytes" in refused.message) == ("UNREADABLE_FILE", True)


def test_nul_bytes_after_a_bzip2_stream_are_padding(tmp_path: Path):
    assert sampled(tmp_path / "a.csv.bz2", bz2.compress(b"n\n1\n") + bytes(512)).values == (("1",),)


@pytest.mark.parametrize(
    ("content", "options", "code"),
    [
        ("", None, "EMPTY_FILE"),
        ("\n\n", None, "EMPTY_FILE"),
        ("a,a\n", {}, "DUPLICATE_COLUMN"),
        ("a,b\0\n1,2\n", {}, "UNREADABLE_HEADER"),
        ("a,b\n1\n", None, "RAGGED_ROW"),
        ('a\n"1', None, "UNREADABLE_ROW"),
        (b"a\n\xff\n", {}, "WRONG_ENCODING"),
        ("a\n", {"encoding": "klingon"}, "BAD_OPTION"),
    ],
)
def test_a_broken_file_is_refused(tmp_path: Path, content: Any, options: dict | None, code: str):
    assert refusal(tmp_path / "a.csv", content, options=options).code == code


def test_without_options_these_are_detected_and_noted(tmp_path: Path):
    content = "Kundenliste\n\nNr;Umsatz €;Seit\n1;1,50;13.11.2026\n2;2,75;01.02.2026\n".encode("cp1252")
    sample = sampled(tmp_path / "a.csv", content)
    assert sample.options == {
        "delimiter": ";",
        "encoding": "windows-1252",
        "skip_lines": 2,
        "decimal_separator": ",",
        "date_format": "%d.%m.%Y",
    }
    assert types(sample) == {"Nr": "integer", "Umsatz €": "decimal(18,2)", "Seit": "date"}
    assert sample.notes[0] == (
        "Read as CSV in windows-1252, fields separated by semicolons. Left out: 2 lines before the header. "
        "Values: numbers like 1234,56, dates like 31.12.2026."
    )


def test_options_that_the_values_leave_open_are_questions(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "id;seit\n1;01.02.2026\n2;03.04.2026\n")
    assert [(question.option, question.candidates) for question in sample.questions] == [
        ("date_format", ("%d.%m.%Y", "%m.%d.%Y"))
    ]


def test_detected_column_without_name_and_values_is_left_out_and_noted(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "id;name;\n1;a;\n2;b;\n")
    assert (types(sample), sample.options["ignored_columns"]) == ({"id": "integer", "name": "string"}, "(column 3)")
    assert "column 3, which has no name" in sample.notes[0]


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [
        ("a.csv", "csv", b"id,day,ok\n1,20240101,yes\n2,20241231,no\n"),
        ("a.csv", "csv", b"id;amount;KundenNr\n1;1,50;a\n2;2,75;b\n"),
        ("a.xlsx", "xlsx", workbook({"A": [["id", "day"], ["1", "31.12.2024"], ["2", "13.01.2024"]]})),
        ("a.jsonl", "jsonl", b'{"id": 1, "day": "20240101"}\n{"id": 2, "day": "20241231"}\n'),
    ],
)
def test_sample_and_detection_agree_on_options_and_types(tmp_path: Path, name: str, kind: str, content: bytes):
    sample = sampled(tmp_path / name, content, kind)
    detected = detect_file(tmp_path / name, roots(tmp_path))
    assert types(sample) == {column.name: str(column.type) for column in detected.columns}
    assert sample.options == detected.options


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("a,b,\n1,2,3\na,b,\n", {}),
        ("a,a\n1,2\na,a\n", {"repeated_names": "number"}),
        ("x,,y\na,b,c\n1,2,3\nx,,y\na,b,c\n1,2,3\n", {"header_lines": 2}),
        ('a,"b\nc"\n1,2\na,"b\nc"\n', {}),
        ("a,NA,b\n1,2,3\na,NA,b\n", {"null_string": "NA"}),
    ],
)
def test_record_that_repeats_the_header_is_refused(tmp_path: Path, content: str, options: dict):
    assert refusal(tmp_path / "a.csv", content, options=options).code == "REPEATED_HEADER"


def test_record_that_repeats_the_header_is_a_row_if_the_source_keeps_it(tmp_path: Path):
    content = "source,target\nsource,target\n"
    sample = sampled(tmp_path / "a.csv", content, options={"repeated_headers": "keep"})
    assert [tuple(values) for values in sample.values] == [("source",), ("target",)]


def test_uncompressed_file_with_a_gz_ending_is_refused(tmp_path: Path):
    assert refusal(tmp_path / "a.csv.gz", "n\n1\n").code == "UNREADABLE_FILE"


def test_field_of_several_megabytes_is_sampled(tmp_path: Path):
    text = "x" * 3_000_000
    assert sampled(tmp_path / "a.csv", f"a,b\n1,{text}\n").values[1] == (text,)


def test_a_header_alone_has_columns_without_rows(tmp_path: Path):
    sample = sampled(tmp_path / "a.csv", "a,b\n")
    assert types(sample) == {"a": "string", "b": "string"}
    assert sample.rows == 0


# --- JSON lines ------------------------------------------------------------------------------------


def test_json_lines_sample_takes_types_from_the_json_values(tmp_path: Path):
    rows = ['{"n": 1, "text": "1", "amount": 1.10, "deep": {"a": [1]}}', '{"n": 2, "text": "2", "late": true}']
    sample = sampled(tmp_path / "a.jsonl", "\n".join(rows), "jsonl")
    assert types(sample) == {
        "n": "integer",
        "text": "string",
        "amount": "decimal(18,2)",
        "deep": "json",
        "late": "boolean",
    }
    assert sample.values[2] == ("1.10", None)


@pytest.mark.parametrize(
    ("content", "code"),
    [("", "EMPTY_FILE"), ("[1]", "BAD_JSON"), ("{", "BAD_JSON"), ('{"a": 1, "a": 2}', "BAD_JSON")],
)
def test_empty_or_broken_json_lines_are_refused(tmp_path: Path, content: str, code: str):
    assert refusal(tmp_path / "a.jsonl", content, "jsonl").code == code


# --- Parquet ---------------------------------------------------------------------------------------


def test_parquet_sample_takes_types_from_the_file(tmp_path: Path):
    table = pa.table(
        {
            "id": pa.array([1, 2], pa.int64()),
            "amount": pa.array([Decimal("1.50"), None], pa.decimal128(10, 2)),
            "tags": pa.array([["a"], []], pa.list_(pa.string())),
            "took": pa.array([1, 2], pa.duration("s")),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    sample = sample_files(tmp_path / "a.parquet", "parquet", {}, roots=roots(tmp_path))
    assert types(sample) == {"id": "bigint", "amount": "decimal(10,2)", "tags": "json", "took": "string"}
    assert sample.columns[0].evidence == "the file says int64"
    assert sample.columns[0].key_ordinal == 1
    assert sample.columns[1].nulls == 1
    assert "cannot be held" in sample.columns[3].problem
    assert (sample.typed, sample.whole, json.loads(sample.values[2][0])) == (True, True, ["a"])


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pa.uint16(), "integer"),
        (pa.uint32(), "bigint"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.dictionary(pa.int8(), pa.string()), "string"),
        (pa.decimal256(60, 2), "None"),
    ],
)
def test_parquet_types_map_to_types_that_hold_every_value(kind: pa.DataType, expected: str):
    assert str(data_type(kind)) == expected


def test_a_file_that_is_no_parquet_is_refused(tmp_path: Path):
    assert refusal(tmp_path / "a.parquet", "id\n1\n", "parquet").code == "UNREADABLE_FILE"


def test_text_of_avro_that_is_not_utf_8_is_a_problem_of_its_column(tmp_path: Path):
    fields = [{"name": "id", "type": "int"}, {"name": "v", "type": "string"}]
    path = tmp_path / "a.avro"
    with path.open("wb") as file:
        rows = [{"id": 1, "v": "a"}, {"id": 2, "v": "text"}]
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, rows)
    path.write_bytes(path.read_bytes().replace(b"\x08text", b"\x08te\xfft"))
    sample = sample_files(path, "avro", None, roots=Roots.of([str(tmp_path)], folder="/"))
    assert [column.problem for column in sample.columns] == ["", "row 2 has a text that is not UTF-8"]
    assert sample.values == (("1", "2"), ("a", None))


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_blocks_of_avro_are_unpacked_up_to_the_limit_of_pages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codec: str
):
    with (tmp_path / "a.avro").open("wb") as file:
        fields = [{"name": "t", "type": "string"}]
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, [{"t": "a" * 5_000}], codec=codec)
    assert sample_files(tmp_path / "a.avro", "avro", None, roots=roots(tmp_path)).columns[0].name == "t"
    for module in (file_samples, avro_files):
        monkeypatch.setattr(module, "LARGEST_READ", 4_000)
    with pytest.raises(Refusal) as refused:
        sample_files(tmp_path / "a.avro", "avro", None, roots=roots(tmp_path))
    assert (refused.value.code, refused.value.count) == ("TOO_LARGE", 4_000)
    assert "the limit of these pages" in refused.value.message


def test_uuid_of_avro_is_shown_as_it_is_written(tmp_path: Path):
    fields = [{"name": "u", "type": {"type": "string", "logicalType": "uuid"}}]
    texts = ["00010203-0405-0607-0809-0A0B0C0D0E0F", "no UUID"]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, [{"u": text} for text in texts])
    sample = sample_files(tmp_path / "a.avro", "avro", None, roots=roots(tmp_path))
    assert (sample.values, types(sample)) == ((tuple(texts),), {"u": "string"})


def test_orc_and_avro_samples_take_types_from_the_file(tmp_path: Path):
    table = pa.table({"id": ["a", "b"], "n": pa.array([1, None], pa.int32()), "tags": [["x"], []]})
    orc.write_table(table, tmp_path / "a.orc")
    fields = [
        {"name": "id", "type": "string"},
        {"name": "n", "type": ["null", "int"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ]
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "row", "fields": fields}, table.to_pylist())
    for kind in ("orc", "avro"):
        sample = sample_files(tmp_path / f"a.{kind}", kind, None, roots=roots(tmp_path))
        assert types(sample) == {"id": "string", "n": "integer", "tags": "json"}
        assert sample.values == (("a", "b"), ("1", None), ('["x"]', "[]"))
        assert (sample.typed, sample.whole) == (True, True)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("content", [b"", b"PAR1", b"ORC", b"Obj\x01", b"id,n\na,1\n"])
def test_a_file_of_another_format_is_refused(tmp_path: Path, kind: str, content: bytes):
    assert refusal(tmp_path / f"a.{kind}", content, kind).code == "UNREADABLE_FILE"


# --- JSON documents, XML, workbooks (their own tests are in tests/loader/readers/records) --------------------


@pytest.mark.parametrize(
    ("kind", "content", "options"),
    [
        (
            "json",
            '{"items": [{"id": "a", "n": 1.10}, {"id": "", "n": null}]}',
            {"path": "items", "empty_is_null": True},
        ),
        ("xml", "<r><i><id>a</id><n>1.10</n></i><i><id/></i></r>", {}),
        ("xlsx", workbook({"Other": [], "S": [["id", "n"], ["a", 1.1], [None, None], ["", None]]}), {"sheet": "S"}),
    ],
)
def test_sample_reads_records_of_json_xml_and_workbooks(tmp_path: Path, kind: str, content: Any, options: dict):
    sample = sampled(tmp_path / f"a.{kind}", content, kind, options)
    assert [column.name for column in sample.columns] == ["id", "n"]
    assert [column.nulls for column in sample.columns] == ([0, 0] if kind == "xlsx" else [1, 1])
    assert sample.whole
    assert sample.options == options


@pytest.mark.parametrize("write", [xls, xlsb, ods])
def test_workbook_with_an_error_is_refused_as_by_a_load(tmp_path: Path, write: Any):
    content = write([["id", "n"], ["a", 1], ["b", Error("#N/A")]])
    error = refusal(tmp_path / "a.xls", content, "xlsx")
    assert (error.code, error.row, error.column) == ("UNREADABLE_CELL", 3, "n")
    sample = sampled(tmp_path / "b.xls", content, "xlsx", {"null_string": "#N/A"})
    assert [column.nulls for column in sample.columns] == [0, 1]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("0001abcde\n0002fg   ".encode("cp500"), "IBM500"),
        ("0001abcde\x850002fg   \x85".encode("cp500"), "IBM500"),
        (b"0001abcde\r\n0002fg     \r\n", "UTF-8"),
    ],
)
def test_lines_of_fixed_width_are_sampled(tmp_path: Path, content: bytes, encoding: str):
    sample = sampled(tmp_path / "a.dat", content, "fixed", {"columns": "id:1-4, v:5-9", "encoding": encoding})
    assert list(zip(*sample.values, strict=True)) == [("0001", "abcde"), ("0002", "fg")]


@pytest.mark.parametrize(
    ("content", "encoding", "row"),
    [
        (b"0001abcde0002fghij", "UTF-8", 1),
        (b"0001abcde\n0002fghij rest\n", "UTF-8", 2),
        ("0001abcde0002fghij".encode("cp500"), "IBM500", 1),
        ("0001abcde\n0002fgh\x85j\n".encode("cp500"), "IBM500", 2),
    ],
)
def test_text_after_the_last_column_of_fixed_width_is_refused(tmp_path: Path, content: bytes, encoding: str, row: int):
    error = refusal(tmp_path / "a.dat", content, "fixed", {"columns": "id:1-4, v:5-9", "encoding": encoding})
    assert (error.code, error.row) == ("RAGGED_ROW", row)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.json", b'[{"a": [' + b"[]," * 100_000 + b"1]}]"),
        ("a.xml", b"<r><i><a>" + b"<b/>" * 100_000 + b"</a></i></r>"),
        ("late.xml", b"<r>" + b"<!-- -->" * 50_000 + b"</r>"),
        ("a.xlsx", workbook({"S": [["id"], *([str(n)] for n in range(20_000))]})),
    ],
)
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_sample_refuses_a_file_over_the_size_limit_after_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, content: bytes, ending: str
):
    limit = 1 << 15
    monkeypatch.setattr(file_samples, "LARGEST_READ", limit)
    packed = gzip.compress(content) if ending else content
    error = refusal(tmp_path / (name + ending), packed, name.rpartition(".")[2])
    assert (error.code, error.count) == ("TOO_LARGE", limit)
    assert "the limit of these pages" in error.message


def test_large_xml_is_sampled_by_its_first_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(file_samples, "LARGEST_READ", 1 << 19)
    content = gzip.compress(b"<r>" + b"<i><a>1</a></i>" * 100_000 + b"</r>")
    sample = sampled(tmp_path / "a.xml.gz", content, "xml", rows=10)
    assert (sample.rows, sample.whole) == (10, False)


# --- folders ---------------------------------------------------------------------------------------


def test_folder_of_part_files_is_listed_as_a_single_delivery(tmp_path: Path):
    for number in range(3):
        part = tmp_path / "orders" / f"part-{number}.csv"
        part.parent.mkdir(exist_ok=True)
        part.write_text("id\n1\n")
    (tmp_path / "orders" / "_SUCCESS").touch()
    (tmp_path / ".hidden.csv").touch()
    (tmp_path / "readme.pdf").touch()
    (tmp_path / "b" / "c.jsonl").parent.mkdir()
    (tmp_path / "b" / "c.jsonl").touch()
    items = list_folder(tmp_path, roots(tmp_path)).items
    assert [(row.location, row.format, row.files) for row in items] == [("b/c.jsonl", "jsonl", 1), ("orders", "csv", 3)]
    note = sample_files(tmp_path / "orders", "csv", None, roots=roots(tmp_path)).notes[-1]
    assert note == "Only the first of 3 files was read; a load reads all."


def test_link_to_outside_of_the_roots_is_not_listed(tmp_path: Path):
    (tmp_path / "secret.csv").write_text("key\nx\n")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.csv").symlink_to(tmp_path / "secret.csv")
    assert list_folder(folder, roots(folder)).items == ()
    with pytest.raises(Refusal, match="holds no file"):
        sample_files(folder, "csv", None, roots=roots(folder))


def test_link_within_the_roots_is_listed_with_the_folder(tmp_path: Path):
    (tmp_path / "stored.csv").write_text("key\nx\n")
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "link.csv").symlink_to(tmp_path / "stored.csv")
    assert [item.location for item in list_folder(folder, roots(tmp_path)).items] == ["link.csv"]
    assert sample_files(folder, "csv", None, roots=roots(tmp_path)).rows == 1


def test_a_folder_of_the_product_inside_a_root_is_not_listed(tmp_path: Path):
    for name in ("data/warehouse/x.parquet", "data/export.csv", "orders.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    closed = Roots.of([str(tmp_path)], [str(tmp_path / "data")], folder="/")
    assert [item.location for item in list_folder(tmp_path, closed).items] == ["orders.csv"]
    with pytest.raises(OutsideRoots):
        sample_files(tmp_path / "data" / "export.csv", "csv", None, roots=closed)


# --- deliveries ----------------------------------------------------------------------------------


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """Create a folder with two files of one pattern, a hidden one, and a folder of parts."""
    for name in ("orders_1.csv", "orders_2.csv", "_orders_3.csv", "days/orders_4/part-0.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("id\n1\n")
    os.utime(tmp_path / "orders_1.csv", (2_000_000_000, 2_000_000_000))
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders_1.csv", ["orders_1.csv"]),
        ("*orders_*.csv", ["orders_1.csv", "orders_2.csv"]),
        ("orders_[2-9].csv", ["orders_2.csv"]),
        ("days/orders_*", ["part-0.csv"]),
        ("days", ["part-0.csv"]),
    ],
)
def test_location_or_pattern_resolves_to_the_files_that_a_load_reads(exports: Path, pattern: str, names: list[str]):
    assert [file.name for file in files_at(exports / pattern, roots(exports))] == names


def test_existing_file_with_pattern_characters_in_its_name_is_found(exports: Path):
    (exports / "orders_[1].csv").write_text("id\n")
    assert [file.name for file in files_at(exports / "orders_[1].csv", roots(exports))] == ["orders_[1].csv"]


@pytest.mark.parametrize(("pattern", "message"), [("sales_*.csv", "matches no file"), ("sales.csv", "is not there")])
def test_a_location_without_files_is_refused(exports: Path, pattern: str, message: str):
    with pytest.raises(Refusal, match=message):
        files_at(exports / pattern, roots(exports))


def test_a_folder_whose_writer_has_not_finished_is_refused(exports: Path):
    (exports / "days" / "_temporary").mkdir()
    with pytest.raises(Refusal) as refused:
        files_at(exports / "days", roots(exports))
    assert refused.value.code == "UNFINISHED_FOLDER"


def test_a_pattern_that_matches_a_link_out_of_the_roots_is_refused(exports: Path):
    folder = exports / "in"
    folder.mkdir()
    (folder / "orders_9.csv").symlink_to(exports / "orders_1.csv")
    with pytest.raises(OutsideRoots):
        files_at(folder / "orders_*.csv", roots(folder))


def test_a_delivery_is_described_by_its_newest_file(exports: Path):
    delivery = delivery_at(exports / "orders_*.csv", roots(exports))
    assert (delivery.files, delivery.size, delivery.newest, delivery.format) == (2, 10, "orders_1.csv", "csv")


def test_delivery_signature_changes_if_a_file_with_a_long_name_is_rewritten(exports: Path):
    path = exports / f"{'a' * 240}.csv"
    path.write_text("order_no\n1\n")
    before = delivery_at(path, roots(exports)).signature
    path.write_text("order_no\n1\n2\n")
    assert delivery_at(path, roots(exports)).signature != before


def test_delivery_signature_changes_if_a_file_is_written_or_added(exports: Path):
    def signature() -> str:
        return delivery_at(exports / "orders_*.csv", roots(exports)).signature

    signatures = [signature(), signature()]
    (exports / "orders_2.csv").write_text("id\n1\n2\n")
    signatures.append(signature())
    (exports / "orders_5.csv").write_text("id\n1\n")
    signatures.append(signature())
    assert signatures[0] == signatures[1]
    assert len({*signatures}) == 3


def test_within_refuses_an_action_that_exceeds_its_time():
    with pytest.raises(Refusal) as refused:
        within(0.01, "the share", lambda: threading.Event().wait(1))
    assert refused.value.code == "TOO_SLOW"


def test_within_refuses_further_readings_while_many_have_not_ended(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(page_limits, "_readings", threading.BoundedSemaphore(2))
    goes_on, work = threading.Event(), threading.Event()
    for _ in range(2):
        with pytest.raises(Refusal, match="gave no answer"):
            within(0.01, "the share", lambda: goes_on.wait(10))
    with pytest.raises(Refusal, match="other readings have not ended") as refused:
        within(5, "the share", work.set)
    assert (refused.value.code, work.is_set()) == ("TOO_SLOW", False)
    goes_on.set()
    deadline = time.monotonic() + 5
    while page_limits._readings._value < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert within(5, "the share", lambda: "read") == "read"


def test_within_raises_the_error_of_its_action():
    with pytest.raises(ZeroDivisionError):
        within(5, "the share", lambda: 1 / 0)
