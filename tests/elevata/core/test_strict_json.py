"""Tests of the strict JSON reader."""

import pytest

from elevata.core.strict_json import BadJson, loads


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1, "a": 2}', "'a' is given twice"),
        ("[NaN]", "NaN is no value"),
        ("1" * 1001, "more than 1000 digits"),
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ', "Expecting value"),
    ],
)
def test_ambiguous_or_invalid_json_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadJson, match=message):
        loads(text)


def test_json_error_has_its_line_and_column() -> None:
    with pytest.raises(BadJson) as refused:
        loads('{"a": 1,\n "b" 2}')
    assert (refused.value.line, refused.value.column) == (2, 6)


def test_json_numbers_are_parsed_by_the_given_functions() -> None:
    assert loads('{"a": [1, 1.50]}', parse_int=str, parse_float=str) == {"a": ["1", "1.50"]}
