"""Tests of formats and reading options: the check of options, the defaults, and the documentation."""

from dataclasses import fields
from pathlib import Path

import pytest

from elevata.core.errors import MetadataError
from metadata.domain.sources.formats import FILE_FORMATS, FORMATS, NAMES, format_of
from metadata.domain.sources.reading_options import OPTIONS, ReadingOptions, check_options, options_of
from metadata.models import SourceDataset
from tests.repository.docs_tables import formats_table, options_table

PAGE = Path(__file__).resolve().parents[4] / "docs" / "understand" / "file_formats.md"


def test_file_formats_page_contains_the_current_tables():
    text = PAGE.read_text(encoding="utf-8")
    assert formats_table() in text, "print tests.repository.docs_tables.formats_table()"
    assert options_table(OPTIONS) in text, "print options_table(OPTIONS) of tests.repository.docs_tables"


def test_model_choices_match_the_formats():
    assert tuple(SourceDataset.Format.values) == NAMES
    assert tuple(SourceDataset.Format.labels) == tuple(entry.label for entry in FORMATS)


def test_every_option_of_files_is_a_field_of_the_reading_options():
    of_files = {option.name for option in OPTIONS if {*option.formats} & {*FILE_FORMATS}}
    assert of_files == {entry.name for entry in fields(ReadingOptions)}


@pytest.mark.parametrize("format_name", NAMES)
def test_every_default_is_a_value_of_its_option(format_name: str):
    for option in options_of(format_name).values():
        default = option.default_of(format_name)
        assert default is None or option.kind.fits(default)


def test_options_that_are_not_given_have_the_default_of_the_format():
    assert ReadingOptions.of("csv", {"quote": "'"}).escape == "'"
    assert ReadingOptions.of("csv", {}).empty_is_null
    assert not ReadingOptions.of("jsonl", {}).empty_is_null


@pytest.mark.parametrize(
    ("format_name", "given", "field"),
    [
        ("parquet", {"delimiter": ";"}, "options.delimiter"),
        ("csv", {"delimiter": ""}, "options.delimiter"),
        ("csv", {"delimiter": "\n"}, "options.delimiter"),
        ("csv", {"header": "yes"}, "options.header"),
        ("csv", {"encoding": "klingon"}, "options.encoding"),
        ("csv", {"null_string": "${env:HOME}"}, "options.null_string"),
        ("csv", {"expected_files": True}, "options.expected_files"),
        ("jsonl", {"timezone": "Europe/Atlantis"}, "options.timezone"),
        ("csv", [], "options"),
        ("rest", {"paging": "pages"}, "options.paging"),
        ("rest", {"paging": "offset"}, "options.page_size"),
        ("rest", {"parameters": "status"}, "options.parameters"),
        ("rest", {"headers": "Authorization: Bearer x"}, "options.headers"),
        ("rest", {"headers": "X-Version 2"}, "options.headers"),
        ("rest", {"headers": "X-Version: ü"}, "options.headers"),
        ("rest", {"first_page": -1}, "options.first_page"),
        ("rest", {"expected_files": 1}, "options.expected_files"),
    ],
)
def test_a_wrong_option_is_refused_at_its_field(format_name: str, given: dict, field: str):
    with pytest.raises(MetadataError) as refused:
        check_options(format_name, given)
    assert (refused.value.code, refused.value.field) == ("bad_option", field)


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("a.CSV", "csv"),
        ("a.tsv.gz", "csv"),
        ("b.parquet", "parquet"),
        ("a.jsonl.zst", "jsonl"),
        *((f"a.{ending}", "xlsx") for ending in ("xlsx", "xlsm", "xlsb", "xls", "ods")),
        ("gz", ""),
        ("a.b", ""),
    ],
)
def test_the_ending_of_a_file_indicates_its_format(name: str, format_name: str):
    assert format_of(name) == format_name
