"""Documented readings and refusals of files: each line of the table, as a sample and as a load."""

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from loader.engine.sources.deliveries import read_delivery
from loader.sources.file_samples import sample_files
from metadata.domain.sources.locations import Roots
from tests.loader.readers.records.binary_workbooks import Error, Formula, compound_file, ods, xls, xlsb
from tests.loader.readers.records.test_workbooks import sheet_of
from tests.repository.docs_tables import markdown_table

PAGE = Path(__file__).resolve().parents[5] / "docs" / "understand" / "file_formats.md"


@dataclass(frozen=True)
class Case:
    """Line of the table: a delivery of one column ``v``, and its values or the code of its refusal."""

    format: str
    delivered: str
    content: str | bytes
    result: tuple[str | None, ...] | str
    options: dict[str, Any] = field(default_factory=dict)
    column: str = "v"
    note: str = ""

    @property
    def line(self) -> tuple[str, str, str]:
        if isinstance(self.result, str):
            return f"`{self.format}`", self.delivered, f"`{self.result}`"
        shown = ("NULL" if value is None else f"`{value}`" for value in self.result)
        values = ", ".join(shown).replace("\x80", "\\u0080")
        return f"`{self.format}`", self.delivered, f"read: {values}{self.note}"


def csv_of(text: str) -> str:
    return f"id,v\n{text}\n"


def text_cell(text: str) -> str:
    return f'<c t="inlineStr"><is><t>{text}</t></is></c>'


FIXED = {"columns": "id:1-2, v:3-7"}
EBCDIC = FIXED | {"encoding": "IBM500"}
SHIFT_JIS = '<?xml version="1.0" encoding="Shift_JIS"?><r><i><v>日本</v></i></r>'
SOME_ATTRIBUTES = '<r><i><v>5</v></i><i><v c="EUR">6</v></i></r>'
CASES = (
    Case("csv", "a quote inside of a field that does not begin with one", csv_of('1,5" pipe'), "STRAY_QUOTE"),
    Case("csv", "the same with `quotes_inside: keep`", csv_of('1,5" pipe'), ('5" pipe',), {"quotes_inside": "keep"}),
    Case("csv", "a lost delimiter before a quoted field", 'id,v,w\n1,12.00"a, b"\n', "STRAY_QUOTE"),
    Case("csv", "quotes that are doubled inside of a quoted field", csv_of('1,"5"" pipe"'), ('5" pipe',)),
    Case(
        "csv",
        "control characters from U+0080 to U+009F",
        csv_of("1,5\x80"),
        ("5\x80",),
        note=", with a warning that it is nearly always windows-1252 read in another encoding",
    ),
    Case("csv", "bytes that are no character in the encoding", b"id,v\n1,\xff\n", "WRONG_ENCODING"),
    Case("csv", "the header again, as in files that were joined", csv_of("1,a\nid,v\n2,b"), "REPEATED_HEADER"),
    Case("csv", "the same with `repeated_headers: keep`", csv_of("id,v"), ("v",), {"repeated_headers": "keep"}),
    Case("fixed", "EBCDIC with the line end 0x25", "1 abc  \n".encode("cp500"), ("abc",), EBCDIC),
    Case("fixed", "EBCDIC with the line end 0x15", "1 abc  \x85".encode("cp500"), ("abc",), EBCDIC),
    Case("fixed", "text after the last column", "1 abc   more\n", "RAGGED_ROW", FIXED),
    Case("fixed", "blanks after the last column", "1 abc      \n", ("abc",), FIXED),
    Case("fixed", "several records without line ends", "1 abcde2 fghij", "RAGGED_ROW", FIXED),
    Case("fixed", "UTF-16", "1 abcde\n".encode("utf-16"), "BAD_OPTION", FIXED | {"encoding": "UTF-16"}),
    Case("jsonl", "an escaped pair of surrogates", r'{"id": "1", "v": "\ud83d\ude00"}', ("😀",)),
    Case("jsonl", "an escaped half of such a pair", r'{"id": "1", "v": "\ud83d"}', "BAD_JSON"),
    Case("json", "an escaped half of such a pair", r'[{"id": "1", "v": "\ud83d"}]', "BAD_JSON"),
    Case("xml", "a declared encoding of several bytes", SHIFT_JIS.encode("shift_jis"), ("日本",)),
    Case("xml", "bytes outside of it", SHIFT_JIS.replace("日本", "ü").encode("latin-1"), "WRONG_ENCODING"),
    Case("xml", "an unknown encoding", SHIFT_JIS.replace("Shift_JIS", "x-a").encode(), "WRONG_ENCODING"),
    Case("xml", "an element `v` with attributes in some records only", SOME_ATTRIBUTES, "BAD_XML"),
    Case("xml", "its text by the path `v.#text`", SOME_ATTRIBUTES, ("5", "6"), column="v.#text"),
    Case("xml", "two namespaces with one name", '<r xmlns:x="u"><i><v>1</v><x:v>2</x:v></i></r>', "BAD_XML"),
    Case("xml", "an attribute and an element with one name", '<r><i v="1"><v>2</v></i></r>', "BAD_XML"),
    Case("xml", "a document type declaration", "<!DOCTYPE r><r><i><v>1</v></i></r>", "FORBIDDEN_XML"),
    Case("xlsx", "a whole number in all digits", sheet_of("<c><v>4012888888881881</v></c>"), ("4012888888881881",)),
    Case("xlsx", "a float beyond 2⁵³", sheet_of("<c><v>1.234567890123457E+18</v></c>"), "UNREADABLE_CELL"),
    Case("xlsx", "a sum like 0.1 + 0.2", sheet_of("<c><v>0.30000000000000004</v></c>"), ("0.3",)),
    Case("xlsx", "a percentage", sheet_of('<c s="3"><v>0.15</v></c>'), ("0.15",)),
    Case("xlsx", "a duration", sheet_of('<c s="2"><v>1.25</v></c>'), ("30:00:00",)),
    Case("xlsx", "a date before March 1900", sheet_of('<c s="1"><v>59</v></c>'), ("1900-02-28",)),
    Case("xlsx", "29 February 1900", sheet_of('<c s="1"><v>60</v></c>'), "UNREADABLE_CELL"),
    Case("xlsx", "a formula with its stored result", sheet_of("<c><f>A1</f><v>2</v></c>"), ("2",)),
    Case("xlsx", "a formula without a stored result", sheet_of("<c><f>A1</f></c>"), "UNREADABLE_CELL"),
    Case("xlsx", "an error", sheet_of('<c t="e"><v>#N/A</v></c>'), "UNREADABLE_CELL"),
    Case(
        "xlsx",
        "an error that `null_string` names",
        sheet_of('<c t="e"><v>#N/A</v></c>', "<c><v>1</v></c>"),
        (None, "1"),
        {"null_string": "#N/A"},
    ),
    Case("xlsx", "an escaped character, `_x2019_`", sheet_of(text_cell("a_x2019_")), ("a\u2019",)),
    Case("xlsx", "the text of an escape, `_x005F_x2019_`", sheet_of(text_cell("_x005F_x2019_")), ("_x2019_",)),
    Case("xlsx", "an escaped half of a surrogate pair", sheet_of(text_cell("_xD83D_")), "UNREADABLE_CELL"),
    Case("xlsx", "a password", compound_file("EncryptedPackage", b"x"), "PASSWORD"),
    Case("xlsx", "`.xls`", xls([["v"], [1.5], [dt.date(2026, 1, 2)]]), ("1.5", "2026-01-02")),
    Case("xlsx", "`.xlsb`", xlsb([["v"], [1.5], [dt.date(2026, 1, 2)]]), ("1.5", "2026-01-02")),
    Case("xlsx", "`.ods`", ods([["v"], [1.5], [dt.date(2026, 1, 2)]]), ("1.5", "2026-01-02")),
    Case("xlsx", "an error in `.xls`, `.xlsb` or `.ods`", xls([["v"], [Error("#N/A")]]), "UNREADABLE_CELL"),
    Case("xlsx", "an uncalculated formula in them", ods([["v"], [Formula(is_calculated=False)]]), "UNREADABLE_CELL"),
)
cases = pytest.mark.parametrize("case", CASES, ids=[f"{case.format} {case.delivered}" for case in CASES])


def test_documentation_contains_the_table_of_these_cases():
    table = markdown_table(("format", "delivered", "result"), [case.line for case in CASES])
    assert table in PAGE.read_text(encoding="utf-8"), table


def put(folder: Path, case: Case) -> Path:
    path = folder / "delivery"
    path.write_bytes(case.content if isinstance(case.content, bytes) else case.content.encode())
    return path


@cases
def test_sample_reads_or_refuses_as_documented(tmp_path: Path, case: Case):
    path, roots = put(tmp_path, case), Roots.of([str(tmp_path)], folder="/")
    if case.column != "v":
        return  # A page has no paths: it refuses the element, as the line before in the table states.
    if isinstance(case.result, str):
        with pytest.raises(Refusal) as caught:
            sample_files(path, case.format, case.options, roots=roots)
        assert caught.value.code == case.result
        return
    sample = sample_files(path, case.format, case.options, roots=roots)
    names = [column.name for column in sample.columns]
    assert tuple(sample.values[names.index("v")]) == case.result


@pytest.mark.spark
@cases
def test_load_reads_or_refuses_as_documented(spark, tmp_path: Path, case: Case):
    column = DeliveredColumn("k-v", case.column, "string")
    source = SourceSpec("src", str(put(tmp_path, case)), case.format, (column,), case.options)
    if isinstance(case.result, str):
        with pytest.raises(Refusal) as caught:
            read_delivery(spark, source)
        assert caught.value.code == case.result
        assert caught.value.hint
        return
    delivery = read_delivery(spark, source)
    values = [row[0] for row in delivery.frame.collect()]
    delivery.release()
    assert sorted(values, key=str) == sorted(case.result, key=str)
    assert ("U+0080" in " ".join(delivery.warnings)) == ("U+0080" in case.delivered)
