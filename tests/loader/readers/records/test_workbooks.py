"""Cells of workbooks: each one as its file stores it, or a refusal with the cell."""

import datetime as dt
import io
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import pytest

from loader.contract.refusals import Refusal
from loader.readers.records.readers import FileReading
from loader.readers.records.workbook_cells import FILLED, NUMBER, CellFault, Stored, text_of_cell
from loader.readers.records.workbook_texts import decoded_strings
from metadata.domain.sources.reading_options import ReadingOptions
from tests.loader.readers.records.binary_workbooks import Error, Formula, compound_file, ods, xls, xlsb
from tests.loader.readers.records.test_records import SHEET_PART, records, refused, rewritten
from tests.loader.readers.records.workbook_files import workbook

WORKBOOK_PART, STYLES_PART = "xl/workbook.xml", "xl/styles.xml"


def sheet_of(*cells: str) -> bytes:
    """Return a workbook with the column ``v`` of these cells as XML; ``s``: 1 for dates, 2 durations, 3 percentages."""
    header = '<row r="1"><c r="A1" t="inlineStr"><is><t>v</t></is></c></row>'
    rows = "".join(f'<row r="{number}">{cell}</row>' for number, cell in enumerate(cells, start=2))
    sheet = f"<worksheet><sheetData>{header}{rows}</sheetData></worksheet>"
    formats = "".join(f'<xf numFmtId="{number}"/>' for number in (0, 22, 46, 10))
    styles = f'<styleSheet><cellXfs count="4">{formats}</cellXfs>'
    content = rewritten(workbook({"S": []}), SHEET_PART, sheet)
    return rewritten(content, STYLES_PART, f"{styles}</styleSheet>")


def values_of(content: bytes) -> list[str | None]:
    return [values["v"] for _, values in loaded_rows(content)]


def loaded_rows(content: bytes, wanted: tuple[str, ...] = (), **options: Any) -> list[tuple[int, dict[str, Any]]]:
    """Return the rows of a workbook as a load reads them. Raise Refusal."""
    reading = FileReading("xlsx", ReadingOptions.of("xlsx", options), wanted)
    summary = reading.summary(("file:a.xlsx", content))
    if "refusal" in summary:
        raise Refusal.from_json(summary["refusal"])
    return records("xlsx", content, wanted, **options)


def refusal_of(content: bytes, wanted: tuple[str, ...] = (), **options: Any) -> Refusal:
    with pytest.raises(Refusal) as caught:
        loaded_rows(content, wanted, **options)
    assert caught.value.hint
    return caught.value


def test_text_that_the_library_decodes_wrongly_is_refused():
    fault = text_of_cell("m\0p\0g\0", FILLED)
    assert isinstance(fault, CellFault)
    assert "as .xlsx" in fault.hint
    assert (fault.text, fault.problem) == ("mpg", "has a text in UTF-16 that was read in another encoding")


# --- texts


def with_shared_strings(*strings: str) -> bytes:
    """Return a workbook with the column ``v`` of these shared strings, each as the XML in its ``si`` element."""
    cells = [f'<c t="s"><v>{number}</v></c>' for number, _ in enumerate(strings)]
    shared = "".join(f"<si>{text}</si>" for text in strings)
    content = io.BytesIO(sheet_of(*cells))
    with zipfile.ZipFile(content, "a") as packed:
        packed.writestr("xl/sharedStrings.xml", f"<sst>{shared}</sst>")
    return content.getvalue()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a_x000D_b", "a\rb"),
        ("_x0009_", "\t"),
        ("_x00e9_", "é"),
        ("_xFFFF_", "\uffff"),
        ("_x2028_", "\u2028"),
        ("caf_x00E9__x2019_s", "café\u2019s"),
        ("a_x0000_b", "a\0b"),
        ("_xD83D__xDE00_", "😀"),
        ("_x005F_x000D_", "_x000D_"),
        ("_x005F_xFFFF_", "_xFFFF_"),
        ("_x005F_x2028__x2028_", "_x2028_\u2028"),
        ("_x005F_x005F_x2028_", "_x005F\u2028"),
        ("_X2028_", "_X2028_"),
        ("_x202_", "_x202_"),
    ],
)
def test_escaped_characters_of_a_text_are_decoded_once(written: str, expected: str):
    cell, formula = f'<c t="inlineStr"><is><t>{written}</t></is></c>', f'<c t="str"><f>A1</f><v>{written}</v></c>'
    assert values_of(sheet_of(cell, formula)) == [expected] * 2
    run = f"<r><t>{written}</t></r>"
    assert values_of(with_shared_strings(f"<t>{written}</t>", f"{run}{run}")) == [expected, expected * 2]
    for write in (xls, xlsb, ods):
        assert values_of(write([["v"], [written]])) == [written]


def test_escape_spans_no_runs_and_is_no_part_of_a_phonetic_text():
    runs, phonetic = "<r><t>_xD83D_</t></r><r><t>_xDE00_ _x20</t></r><r><t>28_</t></r>", "<rPh><t>_x2028_</t></rPh>"
    assert values_of(with_shared_strings(runs + phonetic)) == ["😀 _x2028_"]
    assert values_of(sheet_of(f'<c t="inlineStr"><is>{runs}{phonetic}</is></c>')) == ["😀 _x2028_"]


def test_shared_string_in_utf_16_with_an_escape_is_decoded():
    part = "<?xml version='1.0' encoding='UTF-16'?><sst><si><t>_x005F_x2028__x2028_</t></si></sst>".encode("utf-16")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        packed.writestr("xl/sharedStrings.xml", part)
    with zipfile.ZipFile(content) as packed:
        assert decoded_strings(packed, "xl/sharedStrings.xml") == {"0": "_x2028_\u2028"}


def test_escaped_half_of_a_surrogate_pair_is_refused_with_its_cell():
    for content in (with_shared_strings("<t>_xD83D_</t>"), sheet_of('<c t="str"><v>_xDE00_</v></c>')):
        refusal = refusal_of(content)
        assert (refusal.code, refusal.row, refusal.column) == ("UNREADABLE_CELL", 2, "v")
        assert "half of a surrogate pair" in refusal.message


@pytest.mark.parametrize("cell", ['<c t="str"><v><![CDATA[12]]></v></c>', '<c t="inlineStr"><v>q</v></c>'])
def test_text_that_the_library_gives_as_an_empty_cell_is_refused(cell: str):
    assert "a text that is not read" in refusal_of(sheet_of(cell)).message


# --- numbers


def test_number_that_the_library_reads_in_part_is_refused():
    assert "has the number 12, which is read as 1" in refusal_of(sheet_of("<c><v>1<!-- c -->2</v></c>")).message


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ("4012888888881881", "4012888888881881"),
        ("4012888888881882", "4012888888881882"),
        ("9007199254740991", "9007199254740991"),
        ("-9007199254740991", "-9007199254740991"),
        ("1234567890123456789", "1234567890123456789"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ("100000000000000001", "100000000000000001"),
        ("9.0071992547409910E+15", "9007199254740991"),
        ("1.5E+18", "1.5e+18"),
        ("19.989999999999998", "19.99"),
        ("0.30000000000000004", "0.3"),
        ("3.3000000000000003", "3.3"),
        ("12345678901234.56", "12345678901234.56"),
        ("0.3333333333333333", "0.3333333333333333"),
        ("12345678901.123456789", "12345678901.123456789"),
        ("0.15", "0.15"),
        ("1e-7", "1e-07"),
        ("1E+400", "1E+400"),
        ("-1e999", "-1e999"),
    ],
)
def test_number_keeps_its_stored_digits(stored: str, expected: str):
    assert values_of(sheet_of(f"<c><v>{stored}</v></c>")) == [expected]


@pytest.mark.parametrize(("stored", "expected"), [("0.15", "0.15"), ("0.07", "0.07"), ("1", "1"), ("1.255", "1.255")])
def test_percentage_is_read_as_its_stored_number(stored: str, expected: str):
    assert values_of(sheet_of(f'<c s="3"><v>{stored}</v></c>')) == [expected]
    for kind in ("percentage", "currency"):
        cell = f'<table:table-cell office:value-type="{kind}" office:value="{stored}"/>'
        assert values_of(ods([["v"]], after=f"<table:table-row>{cell}</table:table-row>")) == [expected]


def test_whole_number_that_a_float_cannot_hold_is_refused_with_its_cell():
    refusal = refusal_of(sheet_of("<c><v>1</v></c>", "<c><v>1.234567890123457e+18</v></c>"))
    assert (refusal.code, refusal.row, refusal.column) == ("UNREADABLE_CELL", 3, "v")
    assert "cell A3 (v)" in refusal.message


# --- dates and durations


@pytest.mark.parametrize(
    ("style", "stored", "expected"),
    [
        (1, "1", "1900-01-01"),
        (1, "59.5", "1900-02-28 12:00:00"),
        (1, "61", "1900-03-01"),
        (1, "0.5", "12:00:00"),
        (1, "45293.12783707704", "2024-01-02 03:04:05.123456"),
        (1, "45000.99999999999", "2023-03-16"),
        (2, "0.5", "12:00:00"),
        (2, "1.253489583333333", "30:05:01.500000"),
        (2, "-1", "-24:00:00"),
    ],
)
def test_date_or_duration_is_read_from_its_stored_number(style: int, stored: str, expected: str):
    assert values_of(sheet_of(f'<c s="{style}"><v>{stored}</v></c>')) == [expected]


@pytest.mark.parametrize("stored", ["-5", "-0.25", "60", "60.5"])
def test_date_that_does_not_exist_is_refused(stored: str):
    refusal = refusal_of(sheet_of(f'<c s="1"><v>{stored}</v></c>'))
    assert (refusal.code, refusal.row, refusal.samples) == ("UNREADABLE_CELL", 2, (stored,))


def test_dates_are_read_by_the_1904_system_if_the_workbook_declares_it():
    content = sheet_of('<c s="1"><v>42735.25</v></c>')
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        listed = packed.read(WORKBOOK_PART).decode()
    content = rewritten(content, WORKBOOK_PART, listed.replace("<sheets>", '<workbookPr date1904="1"/><sheets>'))
    assert values_of(content) == ["2021-01-01 06:00:00"]


def test_iso_8601_date_cell_is_read_from_its_text():
    cells = [f'<c t="d"><v>{text}</v></c>' for text in ("2021-01-01", "2021-01-01T00:00:00", "2021-01-01T10:10:10.25")]
    assert values_of(sheet_of(*cells)) == ["2021-01-01", "2021-01-01", "2021-01-01 10:10:10.25"]


def test_text_of_cell_returns_a_fault_if_the_library_and_the_file_disagree():
    assert not isinstance(text_of_cell("", Stored(NUMBER, "5")), str)
    assert not isinstance(text_of_cell(5.0, None), str)


def test_cells_of_other_types_in_a_column_keep_their_values():
    cells = ["<c><v>1</v></c>", '<c t="inlineStr"><is><t>x</t></is></c>', '<c t="b"><v>1</v></c>']
    cells += ['<c s="1"><v>45000</v></c>', '<c s="2"><v>0.5</v></c>', '<c s="3"><v>0.5</v></c>']
    assert values_of(sheet_of(*cells)) == ["1", "x", "true", "2023-03-15", "12:00:00", "0.5"]
    rows = [["v"], [1], ["x"], [True], [dt.date(2023, 3, 15)]]
    for write in (xls, xlsb, ods):
        assert values_of(write(rows)) == ["1", "x", "true", "2023-03-15"]


# --- formulas and errors


@pytest.mark.parametrize(
    "cell",
    [
        "<c><f>1+1</f><v/></c>",
        "<c><f>1+1</f><v></v></c>",
        "<c><f>1+1</f></c>",
        '<c t="str"><f>1+1</f></c>',
        '<c><f t="shared" si="0"/></c>',
    ],
)
def test_formula_without_a_stored_result_is_refused_with_its_cell(cell: str):
    refusal = refusal_of(sheet_of("<c><f>1+1</f><v>2</v></c>", cell))
    assert (refusal.code, refusal.row, refusal.column) == ("UNREADABLE_CELL", 3, "v")
    assert "cell A3" in refusal.message


def test_results_of_formulas_are_read():
    cells = ["<c><f>1</f><v>2.5</v></c>", '<c t="str"><f>1</f><v>x</v></c>', '<c t="b"><f>1</f><v>1</v></c>']
    assert values_of(sheet_of(*cells)) == ["2.5", "x", "true"]


def test_uncalculated_formula_with_a_stored_zero_is_refused():
    content = sheet_of("<c><f>B2*2</f><v>0</v></c>")
    assert values_of(content) == ["0"]
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        listed = packed.read(WORKBOOK_PART).decode()
    listed = listed.replace("</workbook>", '<calcPr fullCalcOnLoad="1"/></workbook>')
    content = rewritten(content, WORKBOOK_PART, listed)
    assert refusal_of(content).code == "UNREADABLE_CELL"


@pytest.mark.parametrize("name", ["#N/A", "#REF!", "#DIV/0!", "#VALUE!", "#NAME?", "#NULL!", "#NUM!"])
def test_error_cell_is_refused_with_its_cell_and_name(name: str):
    refusal = refusal_of(sheet_of("<c><v>1</v></c>", f'<c t="e"><v>{name}</v></c>'))
    assert (refusal.code, refusal.row, refusal.samples) == ("UNREADABLE_CELL", 3, (name,))


def test_error_cell_outside_the_contract_or_declared_as_null_is_loaded():
    content = workbook({"S": [["id", "v"], ["a", 1]]})
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        sheet = packed.read(SHEET_PART).decode()
    content = rewritten(content, SHEET_PART, sheet.replace('<c r="B2"><v>1</v></c>', '<c r="B2" t="e"><v>#N/A</v></c>'))
    assert refusal_of(content).column == "v"
    assert refusal_of(content, wanted=("id", "v")).column == "v"
    expected = [(2, {"id": "a", "v": "#N/A"})]
    assert loaded_rows(content, wanted=("id",)) == expected
    assert loaded_rows(content, ignored_columns="v") == expected
    assert loaded_rows(content, null_string="#N/A") == expected


# --- sheets with formats only


def test_cells_with_a_format_but_no_value_are_ignored():
    row = '<row r="1048576"><c r="A1048576" s="1"/><c r="XFD1048576" s="1"><v/></c></row>'
    content = sheet_of('<c r="A2"><v>7</v></c>', *([""] * 40))
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        sheet = packed.read(SHEET_PART).decode()
    formatted = rewritten(content, SHEET_PART, sheet.replace("</sheetData>", row.replace("<v/>", "") + "</sheetData>"))
    assert values_of(formatted) == ["7"]


# --- merged cells


def warning_of(*areas: str, **options: Any) -> str:
    """Return the warning about a sheet of the columns ``id`` and ``v`` with six rows and these merged areas."""
    content = workbook({"S": [["id", "v"], *([key, 1] for key in "abcde")]})
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        sheet = packed.read(SHEET_PART).decode()
    listed = "".join(f'<mergeCell ref="{area}"/>' for area in areas)
    sheet = sheet.replace("</sheetData>", f"</sheetData><mergeCells>{listed}</mergeCells>")
    content = rewritten(content, SHEET_PART, sheet)
    summary = FileReading("xlsx", ReadingOptions.of("xlsx", options), ()).summary(("file:a.xlsx", content))
    return summary["warning"]


def test_cells_that_are_merged_over_several_rows_are_named_by_a_warning():
    assert warning_of("A2:A3", "B5:B6").startswith("a.xlsx: 2 areas of cells merged over several rows (A2:A3, B5:B6)")
    assert "(A1:B2)" in warning_of("A1:B2")
    for area in ("A2:B2", "D2:D3", "A6:A9"):
        assert warning_of(area) == "", area
    assert warning_of("A2:A3", range="A4:B6") == ""
    assert "(A3:A5)" in warning_of("A3:A5", range="A4:B6")


def test_cells_of_xls_that_are_merged_over_several_rows_are_named_by_a_warning():
    areas = struct.pack("<H8H", 2, 1, 2, 0, 0, 1, 1, 0, 1)  # A2:A3 and A2:B2
    content = xls([["id", "v"], ["a", 1], ["b", 2]], (0xE5, areas))
    summary = FileReading("xlsx", ReadingOptions.of("xlsx", {}), ()).summary(("file:a.xls", content))
    assert summary["warning"].startswith("a.xls: 1 area of cells merged over several rows (A2:A3)")


# --- other formats by the same reader

ROWS = [
    ["id", "n", "d", "ok"],
    ["a", 1, dt.date(2026, 1, 2), True],
    ["ä", 1.5, None, False],
    ["z", 4012888888881881.0, None, None],
    ["f", Formula(2.5), None, None],
]
WRITERS = pytest.mark.parametrize("write", [xls, xlsb, ods])


@WRITERS
def test_reader_returns_the_rows_of_xls_xlsb_and_ods_workbooks(write: Callable[..., bytes]):
    assert loaded_rows(write(ROWS)) == [
        (2, {"id": "a", "n": "1", "d": "2026-01-02", "ok": "true"}),
        (3, {"id": "ä", "n": "1.5", "d": None, "ok": "false"}),
        (4, {"id": "z", "n": "4012888888881881", "d": None, "ok": None}),
        (5, {"id": "f", "n": "2.5", "d": None, "ok": None}),
    ]


@WRITERS
@pytest.mark.parametrize(
    "cell", [Error("#N/A"), Error("#DIV/0!", of_formula=True), Formula(is_calculated=False), 1.2345678901234568e18]
)
def test_unreadable_cell_of_an_xls_xlsb_or_ods_workbook_is_refused(write: Callable[..., bytes], cell: Any):
    refusal = refusal_of(write([["id", "n"], ["a", 1], ["b", cell]]))
    assert (refusal.code, refusal.row, refusal.column) == ("UNREADABLE_CELL", 3, "n")
    assert "cell B3" in refusal.message


@WRITERS
def test_truncated_xls_xlsb_or_ods_workbook_is_refused(write: Callable[..., bytes]):
    content = write(ROWS)
    for size in (20, 600, len(content) // 2):
        assert refused("xlsx", content[:size]).code == "UNREADABLE_FILE"


@WRITERS
def test_xls_xlsb_or_ods_workbook_with_too_many_cells_is_refused(write: Callable[..., bytes], monkeypatch):
    monkeypatch.setattr("loader.readers.records.workbooks.MOST_CELLS", 19)
    assert refusal_of(write(ROWS)).code == "TOO_LARGE"
    monkeypatch.setattr("loader.readers.records.workbooks.MOST_CELLS", 20)
    assert len(loaded_rows(write(ROWS))) == 4


def test_whole_date_of_a_binary_workbook_that_is_read_as_a_number_is_refused():
    refusal = refusal_of(xlsb([["d"], [dt.datetime(2026, 1, 2)]]))
    assert (refusal.code, refusal.row, refusal.samples) == ("UNREADABLE_CELL", 2, ("46024.0",))


def xls_number(row: int, style: int, number: float, kind: int = 0x203) -> tuple[int, bytes]:
    """Return the record of a number in the first column, or the beginning of a formula's."""
    return kind, struct.pack("<HHHd", row, 0, style, number)


@pytest.mark.parametrize("number_format", ["#,##0.00_);-#,##0.00", '0" d"', "[Red]0"])
def test_number_of_an_xls_workbook_is_no_date_if_its_declared_format_is_none(number_format: str):
    content = xls([["v"]], xls_number(1, 2, 21333.0), formats={52: number_format})
    assert values_of(content) == ["21333"]


def test_date_of_an_xls_workbook_whose_format_the_library_ignores_is_refused():
    refusal = refusal_of(xls([["v"]], xls_number(1, 2, 38352.0), formats={59: "mmm d, yyyy"}))
    assert (refusal.code, refusal.row, refusal.samples) == ("UNREADABLE_CELL", 2, ("38352.0",))


def test_date_of_an_xls_workbook_with_a_declared_format_that_the_library_knows_is_read():
    assert values_of(xls([["v"]], xls_number(1, 2, 38352.0), formats={14: "m/d/yy"})) == ["2004-12-31"]


@pytest.mark.parametrize("kind", [0x206, 0x406])
def test_formula_in_a_record_of_an_older_version_is_not_read_as_null(kind: int):
    formula, content = xls_number(1, 0, 3.0, kind)
    refusal = refusal_of(xls([["v"]], (formula, content + bytes(8))))
    assert (refusal.code, refusal.row, refusal.samples) == ("UNREADABLE_CELL", 2, ("3.0",))


def test_long_text_of_a_formula_in_an_xls_workbook_is_read_whole():
    result = bytes([0, 0, 0, 0, 0, 0, 0xFF, 0xFF])
    formula = (0x06, struct.pack("<HHH", 1, 0, 0) + result + struct.pack("<HIH", 0, 0, 0))
    first, second = "a" * 8000, "é☃" * 100
    text = (0x207, struct.pack("<HB", len(first + second), 0) + first.encode())
    more = (0x3C, b"\1" + second.encode("utf-16-le"))
    assert values_of(xls([["v"]], formula, text, more)) == [first + second]


def test_rows_of_an_xls_workbook_are_read_in_the_order_of_their_numbers():
    content = xls([["v"]], *(xls_number(row, 0, float(row)) for row in (3, 1, 2)))
    assert values_of(content) == ["1", "2", "3"]


def test_texts_of_an_excel_95_workbook_are_read_by_its_code_page():
    label = struct.pack("<HHHH", 1, 0, 0, 6) + "Жёлтый".encode("cp1251")
    header = (0x204, struct.pack("<HHHH", 0, 0, 0, 1) + b"v")
    assert values_of(xls([], header, (0x204, label), version=0x500, code_page=1251)) == ["Жёлтый"]


def test_workbook_with_two_parts_of_one_name_is_refused():
    content = workbook({"S": [["v"], ["1"]]})
    packed = io.BytesIO(content)
    with zipfile.ZipFile(packed, "a") as parts:
        parts.writestr("XL/worksheets/Sheet1.xml", parts.read(SHEET_PART))
    refusal = refused("xlsx", packed.getvalue())
    assert refusal.code == "UNREADABLE_FILE"
    assert "2 parts with the name xl/worksheets/sheet1.xml" in refusal.message


def test_opendocument_sheet_returns_repeated_rows_and_durations():
    repeated = (
        '<table:table-row table:number-rows-repeated="3"><table:table-cell office:value-type="float" '
        'office:value="7"/></table:table-row><table:table-row table:number-rows-repeated="1048000">'
        '<table:table-cell table:number-columns-repeated="16000"/></table:table-row>'
    )
    content = ods([["v"], [dt.timedelta(hours=30, minutes=5)]], after=repeated)
    assert values_of(content) == ["30:05:00", "7", "7", "7"]


def test_breaks_and_blanks_in_a_text_of_an_opendocument_sheet_are_read():
    texts = (
        "<text:p>a<text:tab/>b</text:p>",
        "<text:p>a<text:line-break/>b</text:p><text:p>c</text:p>",
        '<office:annotation><text:p>x<text:tab/></text:p></office:annotation><text:p>a<text:s text:c="2"/>b</text:p>',
        "<office:annotation><text:p>x</text:p></office:annotation><text:p>a<text:tab/>b</text:p>",
    )
    cell = '<table:table-row><table:table-cell office:value-type="string">{}</table:table-cell></table:table-row>'
    content = ods([["v"]], after="".join(cell.format(text) for text in texts))
    assert values_of(content) == ["a\tb", "a\nb\nc", "a  b", "a\tb"]


@pytest.mark.parametrize(
    "content",
    [
        compound_file("EncryptedPackage", b"x"),
        xls(ROWS, is_protected=True),
        ods(ROWS, is_protected=True),
    ],
    ids=["xlsx", "xls", "ods"],
)
def test_refusal_of_a_protected_workbook_states_that_it_has_a_password(content: bytes):
    refusal = refused("xlsx", content)
    assert refusal.code == "PASSWORD"
    assert "password" in refusal.message


def test_panic_of_the_library_is_a_refusal(monkeypatch):
    class PanicException(BaseException):
        pass

    def panic(*_: object) -> None:
        raise PanicException("range end index 256 out of range")

    broken = type("Workbook", (), {"from_filelike": panic})
    monkeypatch.setattr("loader.readers.records.workbooks.CalamineWorkbook", broken)
    assert refused("xlsx", workbook({"S": [["id"]]})).code == "UNREADABLE_FILE"
