"""Blanks of Unicode: only ASCII blanks, tabs and line ends are empty, other separators are values; digits are ASCII."""

import io
import json
from pathlib import Path

import pytest

from loader.contract.refusals import Refusal
from loader.domain.historization.displayed_statements import _indent
from loader.domain.sources.sampling import standard_values
from loader.domain.versions import instant
from loader.readers.records.readers import READERS
from loader.readers.rest.session import _retry_after
from loader.sources.text_files import read_json_lines
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.domain.sources.value_formats import ValueFormats
from metadata.forms.datasets import DatasetNamesField

SEPARATORS = ("\x1c", "\x85", "\xa0", "\u2028", "\u2029", "\u3000")


class Response:
    def __init__(self, retry_after: str):
        self.headers = {"retry-after": retry_after}


@pytest.mark.parametrize("text", SEPARATORS[1:])
def test_xml_reader_keeps_an_element_text_that_is_a_unicode_separator(text: str):
    document = f'<rows><row><a b="1">{text}</a></row></rows>'.encode()
    (record,) = READERS["xml"](io.BytesIO(document), "a.xml", ReadingOptions.of("xml", {}), ())
    assert json.loads(record.values["a"]) == {"b": "1", "#text": text}


@pytest.mark.parametrize("line", SEPARATORS)
def test_json_line_of_a_unicode_separator_is_refused_instead_of_skipped(tmp_path: Path, line: str):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"id": 1}}\n{line}\n', newline="")
    with pytest.raises(Refusal) as caught:
        read_json_lines(path, {})
    assert (caught.value.code, caught.value.row) == ("BAD_JSON", 2)


@pytest.mark.parametrize("blank", SEPARATORS)
def test_formatted_number_with_a_leading_unicode_separator_is_invalid(blank: str):
    formats = ValueFormats.of({"decimal_separator": ","})
    assert standard_values([" 1,5\t", f"{blank}1,5"], "float", formats) == ["1.5", None]


@pytest.mark.parametrize("separator", SEPARATORS)
def test_sql_indentation_keeps_unicode_separators_in_string_literals(separator: str):
    assert _indent(f"SELECT 'a{separator}b'\nFROM t") == f"  SELECT 'a{separator}b'\n  FROM t"


@pytest.mark.parametrize("separator", SEPARATORS)
def test_names_in_a_form_are_split_at_line_ends_only(separator: str):
    assert DatasetNamesField().to_python(f"a{separator}b\r\nc\nd") == [f"a{separator}b", "c", "d"]


def test_retry_after_and_instants_accept_ascii_digits_only():
    assert _retry_after(Response("²")) is None
    with pytest.raises(ValueError, match="isoformat"):
        instant("²")
