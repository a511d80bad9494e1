"""JSON documents, XML and workbooks on Spark: deliveries of several files, drift, and places of errors."""

import pyarrow as pa
import pytest

from loader.contract.manifest.sources import DeliveredColumn
from loader.engine.sources.deliveries import read_delivery
from loader.engine.sources.discovery import discover
from loader.engine.sources.formats import record_files
from tests.loader.engine.sources.deliveries import CONTRACT, KEY, refused, rows_of, source_of
from tests.loader.readers.records.binary_workbooks import Error, Formula, ods, xls, xlsb
from tests.loader.readers.records.workbook_files import workbook

pytestmark = pytest.mark.spark

NUMBER = DeliveredColumn("k-n", "n", "integer")
# The same two rows, then one whose n is no integer and one without a key.
FILES = {
    "json": (
        '[{"id": "a", "name": "x", "n": 1}, {"id": "b", "n": 2, "more": {"p": 1.50}}]',
        '[{"id": "c", "n": 1},\n{"id": "d", "n": "x"}]',
        '[{"id": "c", "n": 1},\n{"id": null, "n": 1}]',
    ),
    "xml": (
        '<r><i id="a"><name>x</name><n>1</n></i><i id="b"><n>2</n><more><p>1.50</p></more></i></r>',
        '<r>\n<i id="c"><n>1</n></i>\n<i id="d">\n<n>x</n></i>\n</r>',
        '<r>\n<i id="c"><n>1</n></i>\n<i><n>1</n></i></r>',
    ),
    "xlsx": (
        workbook({"S": [["id", "name", "n", "more"], ["a", "x", 1], ["b", None, 2, "1.5"]]}),
        workbook({"S": {2: ["id", "n"], 3: ["c", 1], 7: ["d", "x"]}}),
        workbook({"S": {2: ["id", "n"], 3: ["c", 1], 7: [None, 1]}}),
    ),
}
EMPTY = {"json": "[]", "xml": "<r/>", "xlsx": workbook({"S": [["id", "name", "n"]]})}
PLACES = {"json": ("record", 2), "xml": ("line", 3), "xlsx": ("row", 7)}
formats = pytest.mark.parametrize("kind", list(FILES))


@pytest.mark.core
@formats
def test_rows_of_several_files_are_read_and_unknown_columns_reported(spark, put, tmp_path, kind):
    put(f"day/ü %20 1.{kind}", FILES[kind][0])
    put(f"day/2.{kind}", EMPTY[kind])
    delivery = read_delivery(spark, source_of(tmp_path / "day", CONTRACT, kind))
    rows = sorted(map(tuple, delivery.frame.collect()))
    delivery.release()
    assert rows == [("a", "x", "1"), ("b", None, "2")]
    assert [column["name"] for column in delivery.unknown] == ["more"]


@formats
def test_discover_infers_the_types_of_record_files(spark, put, kind):
    discovery = discover(spark, put(f"a.{kind}", FILES[kind][0]), kind)
    assert {column["name"]: column["type"] for column in discovery["columns"]} == {
        "id": "string",
        "name": "string",
        "n": "integer",
        "more": "float" if kind == "xlsx" else "string",
    }


@formats
def test_faulty_rows_are_refused_with_file_and_place(spark, put, tmp_path, kind):
    word, number = PLACES[kind]
    put(f"day/1.{kind}", FILES[kind][0])
    put(f"day/2 %.{kind}", FILES[kind][1])
    refusal = refused(spark, tmp_path / "day", (KEY, NUMBER), format_name=kind)
    assert (refusal.code, refusal.row, refusal.column) == ("VALUE_DOES_NOT_FIT", number, "n")
    assert refusal.file.endswith(f"day/2 %.{kind}")
    assert refusal.samples == (f"{word} {number}: x",)
    refusal = refused(spark, put(f"b.{kind}", FILES[kind][2]), (KEY, NUMBER), format_name=kind)
    assert (refusal.code, refusal.row) == ("NULL_KEY", number)


@formats
def test_a_broken_file_is_refused_with_its_name(spark, put, tmp_path, kind):
    put(f"day/1.{kind}", FILES[kind][0])
    put(f"day/2.{kind}", FILES[kind][0][:-5])
    refusal = refused(spark, tmp_path / "day", CONTRACT, format_name=kind)
    assert refusal.code in ("BAD_JSON", "BAD_XML", "UNREADABLE_FILE")
    assert refusal.file.endswith(f"day/2.{kind}")


@formats
def test_names_that_differ_by_case_are_refused(spark, put, kind):
    contract = (DeliveredColumn("k-id", "ID", "string", nullable=False, business_key=True),)
    refusal = refused(spark, put(f"a.{kind}", FILES[kind][0]), contract, format_name=kind)
    assert (refusal.code, refusal.column) == ("MISSING_COLUMN", "ID")
    assert "id is delivered instead of ID" in refusal.hint


@formats
def test_a_folder_without_files_is_refused(spark, tmp_path, kind):
    (tmp_path / "day").mkdir()
    assert refused(spark, tmp_path / "day", CONTRACT, format_name=kind).code == "MISSING_FILE"


@formats
def test_files_read_through_the_jvm_give_the_rows_of_local_files(spark, put, tmp_path, monkeypatch, kind):
    monkeypatch.setattr(record_files, "LOCAL", "other:")  # as those of an object store
    put(f"day/ü %20 1.{kind}", FILES[kind][0])
    assert rows_of(spark, tmp_path / "day", (KEY, NUMBER), kind) == [("a", "1"), ("b", "2")]
    put(f"day/2 %.{kind}", FILES[kind][1])
    refusal = refused(spark, tmp_path / "day", (KEY, NUMBER), format_name=kind)
    assert (refusal.code, refusal.file.endswith(f"day/2 %.{kind}")) == ("VALUE_DOES_NOT_FIT", True)
    monkeypatch.setattr(record_files, "_LARGEST_REMOTE", 10)
    assert refused(spark, tmp_path / "day", (KEY,), format_name=kind).code == "TOO_LARGE"


def test_column_path_reads_a_nested_json_value(spark, put):
    contract = (KEY, DeliveredColumn("k-p", "more.p", "decimal(10,2)"))
    path = put("a.json", FILES["json"][0])
    delivery = read_delivery(spark, source_of(path, contract, "json"))
    assert sorted(map(tuple, delivery.frame.collect()), key=str) == [("a", None), ("b", "1.50")]
    assert [column["name"] for column in delivery.unknown] == ["name", "n"]
    delivery.release()


def test_xml_with_a_document_type_is_refused(spark, put):
    path = put("a.xml", '<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]><r><i id="&x;"/></r>')
    assert refused(spark, path, (KEY,), format_name="xml").code == "FORBIDDEN_XML"


# zstd, which Spark unpacks itself


@pytest.mark.parametrize(
    ("name", "kind", "content"),
    [
        ("a.csv.zst", "csv", 'id,name,n\na,"x\ny",1\n'),
        ("a.jsonl.zst", "jsonl", '{"id": "a", "name": "x\\ny", "n": 1}\n'),
        ("a.json.zst", "json", '[{"id": "a", "name": "x\\ny", "n": 1}]'),
    ],
)
def test_zstd_files_are_read_and_cut_or_uncompressed_files_refused(spark, put, name, kind, content):
    packed = pa.compress(content.encode(), codec="zstd", asbytes=True)
    assert rows_of(spark, put(name, packed), format_name=kind) == [("a", "x\ny", "1")]
    assert refused(spark, put(f"cut {name}", packed[:-2]), format_name=kind).code == "UNREADABLE_FILE"
    assert refused(spark, put(f"plain {name}", content), format_name=kind).code == "UNREADABLE_FILE"


def test_a_refused_line_of_a_zstd_file_has_its_number(spark, put):
    packed = pa.compress(b'id,name,n\na,"x\ny",1\nb,,z\n', codec="zstd", asbytes=True)
    refusal = refused(spark, put("a.csv.zst", packed))
    assert (refusal.code, refusal.row) == ("VALUE_DOES_NOT_FIT", 4)


@pytest.mark.parametrize("write", [xls, xlsb, ods])
def test_xls_xlsb_and_ods_workbooks_are_read_and_their_error_cells_refused(spark, put, write):
    path = put("a.any", write([["id", "name", "n", "more"], ["a", "x", 1, Error("#N/A")], ["b", None, Formula(2.0)]]))
    assert rows_of(spark, path, CONTRACT, "xlsx") == [("a", "x", "1"), ("b", None, "2")]
    path = put("b.any", write([["id", "name", "n"], ["a", "x", 1], ["b", None, Error("#N/A")]]))
    refusal = refused(spark, path, CONTRACT, "xlsx")
    assert (refusal.code, refusal.row, refusal.column) == ("UNREADABLE_CELL", 3, "n")
    assert rows_of(spark, path, CONTRACT, "xlsx", null_string="#N/A") == [("a", "x", "1"), ("b", None, None)]


def test_element_that_has_attributes_in_some_files_only_is_refused(spark, put, tmp_path):
    put("day/1.xml", '<r><i id="a"><name>x</name></i></r>')
    put("day/2.xml", '<r><i id="b"><name lang="de">y</name></i></r>')
    refusal = refused(spark, tmp_path / "day", CONTRACT[:2], "xml")
    assert (refusal.code, refusal.column) == ("BAD_XML", "name")
    by_path = DeliveredColumn("k-name", "name.#text", "string")
    assert rows_of(spark, tmp_path / "day", (KEY, by_path), "xml") == [("a", "x"), ("b", "y")]


def test_xml_file_without_its_row_element_is_read_with_a_warning(spark, put):
    path = put("a.xml", "<r><head/><position id='a'/></r>")
    delivery = read_delivery(spark, source_of(path, CONTRACT, "xml", row_tag="order"))
    delivery.release()
    (warning,) = delivery.warnings
    assert delivery.rows == 0
    assert "a.xml has no element order" in warning
    refusal = refused(spark, put("b.xml", "<r><Order id='a'/></r>"), CONTRACT, "xml", row_tag="order")
    assert (refusal.code, refusal.file[-5:]) == ("NO_SUCH_PATH", "b.xml")
