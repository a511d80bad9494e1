"""JSON documents, XML and workbooks: their records, and the refusal of each broken file."""

import bz2
import datetime as dt
import gzip
import io
import multiprocessing
import resource
import zipfile
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from loader.contract.refusals import Refusal
from loader.readers.records import json_documents, memory, unpacking, workbooks, xml_documents
from loader.readers.records.headers import check_typed_names, header_names, repeated_fields
from loader.readers.records.readers import READERS, FileReading, united_warnings
from metadata.domain.sources.reading_options import ReadingOptions
from tests.loader.readers.records.workbook_files import workbook


def records(kind: str, content: str | bytes, wanted: tuple[str, ...] = (), name: str = "", **options: Any):
    stored = io.BytesIO(content if isinstance(content, bytes) else content.encode())
    read = READERS[kind](stored, name or f"a.{kind}", ReadingOptions.of(kind, options), wanted)
    return [(record.number, dict(record.values)) for record in read]


def refused(kind: str, content: str | bytes, wanted: tuple[str, ...] = (), name: str = "", **options: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        records(kind, content, wanted, name, **options)
    assert caught.value.hint
    assert caught.value.file
    return caught.value


# --- JSON documents


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('[{"id": "a", "n": 1}, {"id": "b"}]', {}, [{"id": "a", "n": "1"}, {"id": "b"}]),
        ('\ufeff [\n{"id":"a"}\n]\n', {}, [{"id": "a"}]),
        ('{"id": "a", "n": null}', {}, [{"id": "a", "n": None}]),
        ("[]", {}, []),
        ('{"x": [1, {"y": 2}], "r": {"items": [{"id": "a"}], "n": 1}}', {"path": "r.items"}, [{"id": "a"}]),
        ('{"r": {"id": "a"}}', {"path": "r"}, [{"id": "a"}]),
    ],
)
def test_json_reader_returns_the_records_of_a_document(text, options, expected):
    assert [values for _, values in records("json", text, **options)] == expected


def test_json_keeps_numbers_as_they_are_written_and_nested_values_as_json():
    text = '[{"n": 1.10, "big": 12345678901234567890.1234567890, "t": true, "o": {"x": [1.50, "ü", null]}}]'
    ((_, values),) = records("json", text)
    assert values == {
        "n": "1.10",
        "big": "12345678901234567890.1234567890",
        "t": "true",
        "o": '{"x":[1.50,"ü",null]}',
    }


def test_json_reader_decodes_surrogate_pairs_and_escaped_backslashes():
    text = r'[{"a": "\ud83d\ude00", "b": "\\ud83d", "c": "\\\ud83d\ude00"}]'
    ((_, values),) = records("json", text)
    assert values == {"a": "😀", "b": "\\ud83d", "c": "\\😀"}


def test_json_column_path_reads_a_nested_value():
    text = '[{"a": {"b": {"c": 1.0}, "d": 2}}, {"a": null}, {"a": {}}, {"a.d": 3}]'
    rows = [values for _, values in records("json", text, wanted=("a.b.c", "a.d"))]
    assert rows == [{"a.b.c": "1.0", "a.d": "2"}, {"a.b.c": None, "a.d": None}, {}, {"a.d": "3"}]
    records_with_path = records("json", '[{"a": {"d": 2}}]', wanted=("a", "a.d"))
    assert records_with_path == [(1, {"a": '{"d":2}', "a.d": "2"})]


def test_a_path_into_a_list_is_refused_with_its_record():
    refusal = refused("json", '[{"a": {"b": 1}}, {"a": [{"b": 1}]}]', wanted=("a.b",))
    assert (refusal.code, refusal.row, refusal.column) == ("NO_SUCH_PATH", 2, "a.b")


@pytest.mark.parametrize(
    ("text", "code", "row"),
    [
        ("", "BAD_JSON", 1),
        ('[{"id": "a"}, {"id": ', "BAD_JSON", 2),
        ('[{"id": "a"}', "BAD_JSON", 1),
        ('[{"id": "a"},', "BAD_JSON", 2),
        ('[{"id": "a"}] x', "BAD_JSON", 1),
        ('{"id": "a"}\n{"id": "b"}\n', "BAD_JSON", 1),
        ('[{"id": "a"}, {"id": 1, "id": 2}]', "BAD_JSON", 2),
        ('[{"id": "a"}, 1]', "BAD_JSON", 2),
        ('[{"id": NaN}]', "BAD_JSON", 1),
        ("[" * 100_000, "BAD_JSON", 1),
        ("<html></html>", "BAD_JSON", 1),
        ('[{"id": "a"}, {"id": "\\ud83d"}]', "BAD_JSON", 2),
        ('[{"id": "\\ude00\\ud83d"}]', "BAD_JSON", 1),
        ('[{"a": {"\\uD83Dx": 1}}]', "BAD_JSON", 1),
        (b'[{"id": "\xff"}]', "WRONG_ENCODING", None),
    ],
)
def test_a_broken_json_document_is_refused(text, code, row):
    refusal = refused("json", text)
    assert (refusal.code, refusal.row) == (code, row)


@pytest.mark.parametrize("text", ['{"items": [{"id": 1}]', '{"items": [{"id": 1}], "x": }', '{"items": [{"id": 1}]} x'])
def test_a_json_document_that_is_cut_after_its_records_is_refused(text):
    assert refused("json", text, path="items").code == "BAD_JSON"


@pytest.mark.parametrize("text", ['{"a": 1, "items": [], "a": 2}', '{"items": [], "items": [{"id": 1}]}'])
def test_json_document_with_a_duplicate_name_beside_the_path_is_refused(text):
    assert refused("json", text, path="items").code == "BAD_JSON"


def test_a_path_that_is_not_in_the_document_is_refused():
    assert refused("json", '{"items": []}', path="rows").code == "NO_SUCH_PATH"


# --- XML


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('<r><i id="a"><n>1</n></i><i id="b"><n/></i></r>', {}, [{"id": "a", "n": "1"}, {"id": "b", "n": ""}]),
        ("<r><x/><l><i><n>1</n></i></l><i><n>2</n></i></r>", {"row_tag": "i"}, [{"n": "1"}, {"n": "2"}]),
        ('<p:r xmlns:p="u"><p:i><p:n>1</p:n></p:i></p:r>', {"row_tag": "i"}, [{"n": "1"}]),
        ("<r><i>x</i></r>", {}, [{"#text": "x"}]),
        ("<r><i><t><![CDATA[a<b]]>&amp;&#252;</t></i></r>", {}, [{"t": "a<b&ü"}]),
        ("<r><i><t>1</t><t>2</t></i></r>", {}, [{"t": '["1","2"]'}]),
        ('<r><i><p c="EUR">5</p></i></r>', {}, [{"p": '{"c":"EUR","#text":"5"}'}]),
        ("<r><i><a><b>1</b></a></i></r>", {}, [{"a": '{"b":"1"}'}]),
        ('<r xmlns:xsi="u"><i><a xsi:nil="true"/></i></r>', {}, [{"a": None}]),
        ('<r xmlns:x="u"><i><a x:nil=" 1 "/><b x:nil="false">2</b></i></r>', {}, [{"a": None, "b": "2"}]),
        ("<r/>", {}, []),
        ('<?xml version="1.0" encoding="ISO-8859-1"?><r><i><t>ü</t></i></r>'.encode("latin-1"), {}, [{"t": "ü"}]),
    ],
)
def test_xml_reader_returns_the_records_of_a_document(text, options, expected):
    assert [values for _, values in records("xml", text, **options)] == expected


def test_a_record_of_xml_is_numbered_by_its_line():
    assert [line for line, _ in records("xml", "<r>\n<i>\n<a/></i>\n<i/>\n</r>")] == [2, 4]


def test_xml_column_path_reads_a_nested_element_or_attribute():
    text = '<r><i><p c="EUR">5</p><a><b>1</b></a></i></r>'
    assert records("xml", text, wanted=("p.c", "p.#text", "a.b")) == [(1, {"p.c": "EUR", "p.#text": "5", "a.b": "1"})]


@pytest.mark.parametrize(
    ("text", "code", "row"),
    [
        ("", "BAD_XML", 1),
        ("<r>\n<i><n>1</n></i>\n<i><n>", "BAD_XML", 3),
        ("<r>\n<i><n>1</i></r>", "BAD_XML", 2),
        ("<r><i></i></r><r/>", "BAD_XML", 1),
        ("<r><i>&nbsp;</i></r>", "BAD_XML", 1),
        ("{}", "BAD_XML", 1),
        ("<r>" + "<i>" * 200, "BAD_XML", 1),
        ('<!DOCTYPE r [<!ENTITY x SYSTEM "file:///etc/passwd">]>\n<r><i>&x;</i></r>', "FORBIDDEN_XML", 1),
        ('<!DOCTYPE r [<!ENTITY a "aa"><!ENTITY b "&a;&a;">]><r><i>&b;</i></r>', "FORBIDDEN_XML", 1),
        ('<!DOCTYPE r SYSTEM "http://localhost/r.dtd"><r/>', "FORBIDDEN_XML", 1),
        ('<!DOCTYPE r [<!ENTITY % x SYSTEM "file:///etc/passwd"> %x;]><r/>'.encode("utf-16"), "FORBIDDEN_XML", 1),
    ],
)
def test_a_broken_or_forbidden_xml_document_is_refused(text, code, row):
    refusal = refused("xml", text)
    assert (refusal.code, refusal.row) == (code, row)
    assert "root:" not in refusal.message


def checked_records(text: str | bytes, wanted: tuple[str, ...] = (), **options: Any):
    """Return the records of XML as a load reads them. Raise Refusal."""
    content = text if isinstance(text, bytes) else text.encode()
    summary = FileReading("xml", ReadingOptions.of("xml", options), wanted).summary(("file:a.xml", content))
    if "refusal" in summary:
        raise Refusal.from_json(summary["refusal"])
    return [values for _, values in records("xml", text, wanted, **options)]


@pytest.mark.parametrize(
    ("encoding", "text"),
    [
        ("Shift_JIS", "日本語"),
        ("EUC-JP", "日本語"),
        ("GBK", "中文"),
        ("gb2312", "中文"),
        ("GB18030", "中文€"),
        ("Big5", "中文"),
        ("EUC-KR", "한국어"),
        ("windows-1252", "5 €"),
        ("IBM500", "Zürich"),
        ("UTF-16", "中文"),
        ("UTF-32", "中文"),
        ("UTF-8", "中文"),
    ],
)
def test_xml_is_read_in_the_encoding_that_it_declares(monkeypatch, encoding, text):
    document = f'<?xml version="1.0" encoding="{encoding}"?>\n<r>\n<i><t>{text}</t></i>\n</r>'
    for size in (1, 3, 1 << 18):
        monkeypatch.setattr(unpacking, "_CHUNK", size)
        assert records("xml", document.encode(encoding)) == [(3, {"t": text})]


@pytest.mark.parametrize(
    "document",
    [
        b'<?xml version="1.0" encoding="Shift_JIS"?><r><i>\x93\xfa\x96</i></r>',
        b"<r><i>\xe9</i></r>",
        b'<?xml version="1.0" encoding="x-unknown"?><r/>',
        b'<?xml version="1.0" encoding="utf-7"?><r/>',
        b'<?xml version="1.0" encoding="base64"?><r/>',
        b'<?xml version="1.0" encoding="UTF-16"?><r/>',
    ],
)
def test_xml_with_an_unknown_or_non_matching_encoding_is_refused(document):
    refusal = refused("xml", document)
    assert refusal.code == "WRONG_ENCODING"
    assert "a.xml" in refusal.message


def test_xml_text_path_reads_elements_with_and_without_attributes():
    text = '<r><i><p>5</p></i><i><p c="EUR">6</p></i><i><p c="EUR"/></i><i/></r>'
    assert checked_records(text, wanted=("p.#text", "p.c")) == [
        {"p.#text": "5"},
        {"p.#text": "6", "p.c": "EUR"},
        {"p.c": "EUR"},
        {"#text": ""},
    ]


@pytest.mark.parametrize("wanted", [(), ("p",)])
@pytest.mark.parametrize("inner", ['<p c="EUR">6</p>', "<p><q>6</q></p>"])
def test_column_that_is_text_in_one_record_and_an_object_in_another_is_refused(wanted, inner):
    text = f"<r>\n<i><p>5</p></i>\n<i>{inner}</i></r>"
    with pytest.raises(Refusal, match=r"a.xml, line 3: the element p has attributes or elements in some") as caught:
        checked_records(text, wanted)
    assert (caught.value.code, caught.value.column) == ("BAD_XML", "p")
    assert "p.#text" in caught.value.hint
    assert len(checked_records(text, wanted, ignored_columns="p")) == 2


@pytest.mark.parametrize(
    "row",
    [
        "<x:id>1</x:id><y:id>2</y:id>",
        "<x:id>1</x:id><id>2</id>",
        "<a><x:id>1</x:id><y:id>2</y:id></a>",
        '<id xmlns="other">1</id><id>2</id>',
        '<a x:id="1" y:id="2"/>',
    ],
)
def test_xml_record_with_the_same_name_in_two_namespaces_is_refused(row):
    text = f'<r xmlns:x="u" xmlns:y="w">\n<i>{row}<n>3</n></i></r>'
    with pytest.raises(Refusal, match="line 2: two (elements|attributes) id") as caught:
        checked_records(text)
    column = "a" if row.startswith("<a") else "id"
    assert (caught.value.code, caught.value.column) == ("BAD_XML", column)
    assert [values["n"] for values in checked_records(text, wanted=("n",))] == ["3"]
    with pytest.raises(Refusal):
        checked_records(text, wanted=(f"{column}.id" if column == "a" else "id",))


@pytest.mark.parametrize(
    ("record", "column"),
    [
        ('<i id="1"><id>2</id><n>3</n></i>', "id"),
        ('<i x:id="1"><id>2</id><n>3</n></i>', "id"),
        ('<i><a id="1"><id>2</id></a><n>3</n></i>', "a"),
    ],
)
def test_xml_attribute_and_element_with_the_same_name_are_refused(record, column):
    text = f'<r xmlns:x="u">\n{record}</r>'
    with pytest.raises(Refusal, match="line 2: an attribute and an element id") as caught:
        checked_records(text)
    assert (caught.value.code, caught.value.column) == ("BAD_XML", column)
    assert [values["n"] for values in checked_records(text, wanted=("n",))] == ["3"]
    assert len(checked_records(text, ignored_columns=column)) == 1


def summary_of(text: str, **options) -> dict[str, Any]:
    return FileReading("xml", ReadingOptions.of("xml", options), ()).summary(("file:a.xml", text.encode()))


@pytest.mark.parametrize("name", ["Order", "ORDER", "y:Order"])
def test_row_element_in_another_case_is_refused(name):
    refusal = summary_of(f"<r xmlns:y='u'><h/><{name}><n>1</n></{name}></r>", row_tag="order")["refusal"]
    assert (refusal["code"], refusal["file"]) == ("NO_SUCH_PATH", "a.xml")
    assert f"no element order, which the option row_tag names, but {name}" in refusal["message"]


@pytest.mark.parametrize(
    "text", ["<Order><n>1</n></Order>", "<r><l><Order><n>1</n></Order></l></r>", "<r><l><h/><Order n='1'/></l></r>"]
)
def test_root_and_deeper_elements_in_another_case_are_refused_if_they_may_be_rows(text):
    assert summary_of(text, row_tag="order")["refusal"]["code"] == "NO_SUCH_PATH"


def test_deeper_text_in_another_case_does_not_refuse_a_document_without_rows():
    summary = summary_of("<Items><summary><Item>5</Item></summary></Items>", row_tag="item")
    assert summary["warning"] == "a.xml has no element item, so no row was read of it, but others: summary, Item."


def test_warnings_of_several_files_are_united_to_the_first_with_the_number_of_others():
    assert united_warnings(["", "a.xml has no row."]) == ("a.xml has no row.",)
    assert united_warnings(["a.xml has no row.", "", "b.xml has no row.", "c.xml has no row."]) == (
        "a.xml has no row. The same applies to 2 other files.",
    )
    assert united_warnings(["", ""]) == ()


def test_document_without_its_row_element_has_a_warning_unless_it_is_empty():
    summary = summary_of("<r><head><n>1</n></head><position/></r>", row_tag="order")
    assert summary["rows"] == 0
    assert summary["warning"] == (
        "a.xml has no element order, so no row was read of it, but others: head, n, position."
    )
    assert summary_of("<r/>", row_tag="order")["warning"] == ""
    assert summary_of("<r><h/><order/></r>", row_tag="order")["warning"] == ""
    assert summary_of("<r/>")["warning"] == ""


def test_two_prefixes_of_one_namespace_give_the_same_name():
    text = '<r xmlns:x="u" xmlns:y="u"><i><x:id>1</x:id><y:id>2</y:id></i></r>'
    assert checked_records(text) == [{"id": '["1","2"]'}]


def test_xml_rows_of_two_namespaces_require_a_row_tag_with_a_prefix():
    text = '<r xmlns:x="u" xmlns:y="w"><x:i><n>1</n></x:i>\n<y:i><n>2</n></y:i></r>'
    refusal = refused("xml", text, row_tag="i")
    assert (refusal.code, refusal.row) == ("BAD_XML", 2)
    assert records("xml", text, row_tag="y:i") == [(2, {"n": "2"})]


# --- workbooks

TIME = dt.datetime(2026, 1, 2, 3, 4, 5)
SHEET = {3: [None, "id", "n", "at"], 5: [None, "a", 1.5, TIME], 6: [None, "007", 12, dt.datetime(2026, 1, 2)]}


def test_workbook_rows_are_numbered_as_in_the_sheet():
    expected = [
        (5, {"id": "a", "n": "1.5", "at": "2026-01-02 03:04:05"}),
        (6, {"id": "007", "n": "12", "at": "2026-01-02"}),
    ]
    assert records("xlsx", workbook({"Data": SHEET})) == expected
    assert records("xlsx", workbook({"Notes": [["x"]], "Data": SHEET}), sheet="Data") == expected


def test_range_option_reads_only_that_part_of_a_sheet():
    content = workbook({"Data": [["title"], ["id", "n", "sum"], ["a", 1, 9], ["b", True, 9], ["total", 2]]})
    assert records("xlsx", content, range="A2:B4") == [(3, {"id": "a", "n": "1"}), (4, {"id": "b", "n": "true"})]
    assert [number for number, _ in records("xlsx", content, range="A3", header=False)] == [3, 4, 5]
    assert records("xlsx", content, range="B3:B3", header=False, wanted=("n",)) == [(3, {"n": "1"})]


def test_numbers_of_a_workbook_have_fifteen_digits():
    numbers = [0.1 + 0.2, 1e20, 123456789012345, -0.0, 1.005 * 100]
    ((_, values),) = records("xlsx", workbook({"S": [list("abcde"), numbers]}))
    assert list(values.values()) == ["0.3", "1e+20", "123456789012345", "-0", "100.5"]


@pytest.mark.parametrize(
    ("content", "code", "row"),
    [
        (b"", "UNREADABLE_FILE", None),
        (b"id,n\na,1\n", "UNREADABLE_FILE", None),
        (workbook({"S": SHEET})[:-40], "UNREADABLE_FILE", None),
        (workbook({"S": SHEET})[:300], "UNREADABLE_FILE", None),
        (workbook({}), "UNREADABLE_FILE", None),
        (workbook({"S": []}), "EMPTY_FILE", None),
        (workbook({"S": {2: ["id", "id"]}}), "DUPLICATE_COLUMN", 2),
        (workbook({"S": [["id"], ["a", 1]]}), "RAGGED_ROW", 2),
        (workbook({"S": {1: ["id"], 1_048_576: [None] * 500 + ["x"]}}), "TOO_LARGE", None),
        (workbook({"S": [["id"]]}, bomb=b"0" * (100 << 20)), "TOO_LARGE", None),
    ],
    ids=range(10),
)
def test_a_broken_workbook_is_refused(content, code, row):
    refusal = refused("xlsx", content)
    assert (refusal.code, refusal.row) == (code, row)


def test_a_workbook_whose_sizes_are_forged_is_refused():
    content = workbook({"S": [["id"]]}, bomb=b"0" * (1 << 20))
    forged = bytearray(content)
    size = (1 << 20).to_bytes(4, "little")
    at = forged.rindex(size)
    forged[at : at + 4] = (10).to_bytes(4, "little")
    assert refused("xlsx", bytes(forged)).code == "UNREADABLE_FILE"
    assert zipfile.is_zipfile(io.BytesIO(bytes(forged)))


def rewritten(content: bytes, part: str, text: str, *, name: str = "") -> bytes:
    """Return a workbook with another text in a part, or with that part under another name."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(result, "w") as new:
        for entry in old.infolist():
            is_part = entry.filename == part
            new.writestr(name if is_part and name else entry.filename, text if is_part and text else old.read(entry))
    return result.getvalue()


FAR = '<worksheet><sheetData><row r="1"><c r="A1"><v>1</v></c></row>{}</sheetData></worksheet>'
SHEET_PART, RELATIONS = "xl/worksheets/sheet1.xml", "xl/_rels/workbook.xml.rels"


@pytest.mark.parametrize(
    "row",
    [
        '<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>',
        '<row r="1048576"><c><v>1</v></c><c r="XFD1048576"><v>1</v></c></row>',
        '<x:row xmlns:x="u" r="1048576"><x:c s="&gt;" r="XFD1048576"><x:v>1</x:v></x:c></x:row>',
        '<row r="1048575"/><row>' + "<c><v>1</v></c>" * 20 + "</row>",
    ],
    ids=["references", "mixed", "prefixes", "no reference"],
)
def test_a_sheet_that_spans_too_many_cells_is_refused(row):
    refusal = refused("xlsx", rewritten(workbook({"S": [["id"]]}), SHEET_PART, FAR.format(row)))
    assert (refusal.code, refusal.count) == ("TOO_LARGE", workbooks.MOST_CELLS)


@pytest.mark.parametrize("target", ["/xl/data.xml", "xl/data.xml", "data.xml", "./worksheets/../DATA.xml"])
def test_cell_limit_applies_to_a_sheet_at_any_path_in_the_workbook(target):
    far = FAR.format('<row r="1048576"><c r="XFD1048576"><v>1</v></c></row>')
    content = rewritten(workbook({"S": [["id"]]}), SHEET_PART, far, name="xl/data.xml")
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        relations = packed.read(RELATIONS).decode()
    content = rewritten(content, RELATIONS, relations.replace("worksheets/sheet1.xml", target))
    assert refused("xlsx", content).code == "TOO_LARGE"


def test_cells_without_references_are_read_by_their_position():
    rows = "<row><c><v>1</v></c><c><v>2</v></c></row>" * 3
    entries = records("xlsx", rewritten(workbook({"S": [["a"]]}), SHEET_PART, FAR.format(rows)), header=False)
    assert [values for _, values in entries][1] == {"column_1": "1", "column_2": "2"}


def test_refusal_of_a_missing_sheet_lists_the_existing_sheets():
    refusal = refused("xlsx", workbook({"One": [], "Two": []}), sheet="Three")
    assert (refusal.code, refusal.samples) == ("NO_SUCH_SHEET", ("One", "Two"))


# --- packed files and limits


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("zst", lambda raw: pa.compress(raw, codec="zstd", asbytes=True)),
    ],
)
def test_packed_documents_are_unpacked_and_cut_ones_refused(ending, pack):
    packed = pack(b'[{"id": "a"}]')
    assert records("json", packed, name=f"a.json.{ending}") == [(1, {"id": "a"})]
    assert refused("json", packed[:-3], name=f"a.json.{ending}").code == "UNREADABLE_FILE"
    assert refused("json", b"plain", name=f"a.json.{ending}").code == "UNREADABLE_FILE"


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        ("gz", gzip.compress),
        ("bz2", bz2.compress),
        ("zst", lambda raw: pa.compress(raw, codec="zstd", asbytes=True)),
    ],
)
def test_packed_file_of_several_streams_is_read_whole_or_refused(ending, pack):
    first, second = pack(b'[{"id": "a"},'), pack(b'{"id": "b"}]')
    expected = [(1, {"id": "a"}), (2, {"id": "b"})]
    assert records("json", first + second, name=f"a.json.{ending}") == expected
    whole, damaged = pack(b'[{"id": "a"}]'), b"XX" + second[2:]
    assert refused("json", whole + damaged, name=f"a.json.{ending}").code == "UNREADABLE_FILE"


@pytest.mark.parametrize(("ending", "pack"), [("gz", gzip.compress), ("bz2", bz2.compress)])
@pytest.mark.parametrize("padding", [1, 512, 1 << 19])
def test_nul_bytes_after_a_packed_stream_are_padding(ending, pack, padding):
    first, second = pack(b'[{"id": "a"},'), pack(b'{"id": "b"}]')
    expected = [(1, {"id": "a"}), (2, {"id": "b"})]
    content = first + b"\0" * padding + second + b"\0" * padding
    assert records("json", content, name=f"a.json.{ending}") == expected
    assert refused("json", content + b"x", name=f"a.json.{ending}").code == "UNREADABLE_FILE"
    assert refused("json", b"\0" + content, name=f"a.json.{ending}").code == "UNREADABLE_FILE"
    assert refused("json", first[:-6] + b"\0" * padding, name=f"a.json.{ending}").code == "UNREADABLE_FILE"


@pytest.mark.parametrize("ending", ["gz", "bz2", "zst"])
@pytest.mark.parametrize("kind", ["json", "xml", "xlsx"])
def test_packed_file_of_0_bytes_is_refused(kind, ending):
    refusal = refused(kind, b"", name=f"a.{kind}.{ending}")
    assert (refusal.code, "0 bytes" in refusal.message) == ("UNREADABLE_FILE", True)


def test_bzip2_content_is_unpacked_in_pieces_of_any_size():
    packed = bz2.compress(bytes(3 << 20)) + bz2.compress(b"end")
    stream = unpacking.unpacked(io.BytesIO(packed), "a.bz2")
    assert len(stream.read((1 << 20) + 7)) == (1 << 20) + 7
    assert stream.read()[-4:] == b"\0end"


@pytest.mark.parametrize(("kind", "module"), [("json", json_documents), ("xml", xml_documents), ("xlsx", workbooks)])
def test_refusal_of_a_file_over_the_size_limit_states_the_limit(monkeypatch, kind, module):
    monkeypatch.setattr(module, "LIMIT", 1 << 20)
    bomb = gzip.compress(b" " * (8 << 20))
    refusal = refused(kind, bomb, name=f"a.{kind}.gz")
    assert (refusal.code, refusal.count) == ("TOO_LARGE", 1 << 20)
    assert "1 MB" in refusal.message


def test_xml_record_over_the_size_limit_is_refused(monkeypatch):
    monkeypatch.setattr(xml_documents, "LARGEST_RECORD", 1000)
    refusal = refused("xml", f"<r>\n<i>{'x' * 2000}</i></r>")
    assert (refusal.code, refusal.row) == ("TOO_LARGE", 2)


def read_with_little_memory(kind: str, text: str) -> tuple[dict[str, Any], int, bool]:
    """Return the refusal of a document, the rows of an empty one, and whether the limits are as before."""
    memory.MOST_MEMORY = 32 << 20
    limits = resource.getrlimit(resource.RLIMIT_AS)
    reading = FileReading(kind, ReadingOptions.of(kind, {}), ())
    refusal = reading.summary((f"file:a.{kind}", text.encode()))["refusal"]
    rows = reading.summary((f"file:a.{kind}", b"[]" if kind == "json" else b"<r/>"))["rows"]
    return refusal, rows, resource.getrlimit(resource.RLIMIT_AS) == limits


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("json", '[{"id": 1}, {"id": 2, "v": [' + "[]," * 2_000_000 + "[]]}]"),
        ("xml", "<r><i><id>1</id></i><i>" + '<a b=""/>' * 800_000 + "</i></r>"),
    ],
)
def test_record_that_takes_too_much_memory_is_refused_with_its_number(kind, text):
    """Run in a separate process: a large one, such as that of the tests, has free memory that no limit counts."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        answer, rows, is_as_before = process.submit(read_with_little_memory, kind, text).result(60)
    refusal = Refusal.from_json(answer)
    assert (refusal.code, refusal.row, "record 2 takes more than" in refusal.message) == ("TOO_LARGE", 2, True)
    assert (rows, is_as_before) == (0, True)


def test_the_content_is_read_in_pieces():
    pieces = list(unpacking.chunks(io.BytesIO(b"x" * (1 << 20)), "a", 1 << 20))
    assert len(pieces) > 1


# --- headers


def test_a_header_with_a_nul_byte_is_refused_with_its_place():
    with pytest.raises(Refusal, match="a.csv: the name of column 2 in the header has a NUL byte") as caught:
        header_names("a.csv", ["id", "na\0me"])
    assert (caught.value.code, caught.value.file, caught.value.row) == ("UNREADABLE_HEADER", "a.csv", 1)
    assert "UTF-16" in caught.value.hint


def test_repeated_fields_names_two_fields_that_differ_in_case():
    assert repeated_fields(["a", "b", "A", "B"]).startswith("a struct with the fields a and A, ")
    assert repeated_fields(["a", "b"]) == ""


def test_refusal_of_names_that_differ_in_case_lists_equal_ones_together():
    with pytest.raises(Refusal, match="several columns a, A, b, B, which") as caught:
        check_typed_names("a.avro", ["a", "b", "A", "B", "c"])
    assert caught.value.samples == ("a", "A", "b", "B")


def test_refusal_of_a_repeated_header_name_lists_it_once():
    with pytest.raises(Refusal, match="the header names b, a more than once") as caught:
        header_names("a.csv", ["b", "a", "b", "a", "b", "A"])
    assert (caught.value.column, caught.value.count) == ("b", 2)
