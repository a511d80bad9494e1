"""Texts by which values of uuid, time and json are compared."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.domain.historization.compared_json import compared_json, compared_json_column
from loader.domain.historization.compared_texts import ComparedText, compared_text
from loader.domain.historization.hashing import canonical_text, digest

SAME = {
    "uuid": [["0F8FAD5B-D9CB-469F-A165-70867728950E", "0f8fad5b-d9cb-469f-a165-70867728950e"]],
    "time": [["08:30", "08:30:00", "08:30:00.0", "08:30:00.0000000"], ["08:30:00.12", "08:30:00.120"]],
    "json": [
        ['{"a":1,"b":[1,2]}', '{ "b" : [1, 2], "a" : 1 }', '{"b":[1.0,20e-1],"\\u0061":1}', ' {"a":1,"b":[1,2]}\n'],
        ["100", "1e2", "100.0", "1E+2", "1000e-1"],
        ["0", "-0", "0.0", "0e9"],
        ["0.0012", "12e-4", "1.2E-3"],
        ["[]", "[ ]"],
        ["{}", "{ }"],
        ['"é/"', '"\\u00e9\\/"'],
        ["1e400", "10e399"],
        ['{"a":{"c":null,"b":true}}', '{"a":{"b":true,"c":null}}'],
    ],
}
DIFFERENT = {
    "uuid": [("0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d9cb-469f-a165-70867728950f")],
    "time": [("08:30", "08:31"), ("08:30:00.1", "08:30:00.01"), ("08:00", "08:10")],
    "json": [
        ("[1,2]", "[2,1]"),
        ("1", '"1"'),
        ("10", "1"),
        ("0.1", "0.01"),
        ("1", "-1"),
        ('{"a":1}', '{"a":null}'),
        ('{"a":1,"a":2}', '{"a":2,"a":1}'),
        ('{"a":1,"a":2}', '{"a":2}'),
        ("9007199254740993", "9007199254740992"),
        ("1e400", "1e401"),
        ('"a b"', '"a  b"'),
        ('"A"', '"a"'),
        ('"\\ud800"', '"\\udfff"'),
        ("[]", "[[]]"),
        ("null", "[]"),
    ],
    "string": [("A", "a"), ("08:30", "08:30:00")],
}


@pytest.mark.parametrize(("type_name", "texts"), [(name, texts) for name in SAME for texts in SAME[name]])
def test_texts_of_one_value_have_one_compared_text(type_name: str, texts: list[str]):
    assert {compared_text(text, type_name) for text in texts} == {compared_text(texts[0], type_name)}
    assert len({digest([("k", ComparedText.of(text, type_name))]) for text in texts}) == 1


@pytest.mark.parametrize(("type_name", "pair"), [(name, pair) for name in DIFFERENT for pair in DIFFERENT[name]])
def test_texts_of_different_values_have_different_compared_texts(type_name: str, pair: tuple[str, str]):
    assert len({compared_text(text, type_name) for text in pair}) == 2


NO_JSON = ["", "[1,]", "[,1]", '{"a":1,}', "{,}", "nan", "1 2", "[1", "[1]]", '"a\nb"', "01", ":"]


@pytest.mark.parametrize("text", NO_JSON)
def test_a_text_that_is_no_json_is_compared_as_it_is(text: str):
    assert compared_json(text) == text


def test_nested_json_of_any_depth_is_compared():
    deep = "[ " * 5000 + "1.0" + " ]" * 5000
    assert compared_json(deep) == "[" * 5000 + "1" + "]" * 5000


def test_a_value_keeps_its_delivered_text():
    value = ComparedText.of("08:30", "time")
    assert (str(value), canonical_text(value)) == ("08:30", "08:30:00")


documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(-60_000, 60_000, width=16) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(documents)
def test_a_document_in_any_layout_has_one_compared_text(document: object):
    texts = {
        json.dumps(document),
        json.dumps(document, indent=2, ensure_ascii=False),
        json.dumps(document, sort_keys=True, separators=(",", ":")),
    }
    (compared,) = {compared_json(text) for text in texts}
    assert json.loads(compared) == document
    assert compared_json(compared) == compared


@pytest.mark.parametrize("text", ['{"b": 1, "a": 2}', "[1, 2]", "1.50", '"x"', "true", "not json"])
def test_compared_json_column_returns_plain_strings(text: str):
    assert type(compared_json_column(text)) is str
