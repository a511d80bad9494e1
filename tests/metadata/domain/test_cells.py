"""Tests of parsing a cell's text, and of formatting its value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.core.errors import MetadataError
from metadata.domain.grid import CELLS, cell_text, read_cell, role_choices
from metadata.domain.sensitivity import LEVELS
from metadata.domain.types import NAMES, DataType

VALUES = {
    "type": DataType("string"),
    "nullable": True,
    "role": "attribute",
    "key_ordinal": None,
    "expression": "",
    "description": "",
    "owner": "",
    "tags": [],
    "pii": False,
    "sensitivity": "",
}


@pytest.mark.parametrize(
    ("cell", "text", "fields"),
    [
        ("type", "decimal(12,2)", {"type": DataType("decimal", precision=12, scale=2)}),
        ("type", " VARCHAR(40) ", {"type": DataType("string", length=40)}),
        ("nullable", "No", {"nullable": False}),
        ("pii", "x", {"pii": True}),
        ("sensitivity", " Restricted ", {"sensitivity": "restricted"}),
        ("sensitivity", "", {"sensitivity": ""}),
        ("role", "Business Key 2", {"role": "business_key", "key_ordinal": 2}),
        ("role", "key 1", {"role": "business_key", "key_ordinal": 1}),
        ("role", "attribute", {"role": "attribute", "key_ordinal": None}),
        ("tags", "a, b,, a", {"tags": ["a", "b"]}),
        ("tags", "", {"tags": []}),
        ("description", "two\r\nlines ", {"description": "two\nlines"}),
        ("expression", "", {"expression": ""}),
    ],
)
def test_cell_text_is_parsed_into_its_fields(cell: str, text: str, fields: dict) -> None:
    assert read_cell(cell, text) == fields


@pytest.mark.parametrize(
    ("cell", "text", "message"),
    [
        ("type", "strig", "'strig' is not a type"),
        ("type", "decimal(40,2)", "is not possible"),
        ("type", "", "must say something"),
        ("nullable", "perhaps", "must be yes or no, not 'perhaps'"),
        ("nullable", "", "must say something"),
        ("sensitivity", "secret", "must be public, internal, confidential or restricted, or empty, not 'secret'"),
        ("role", "business key", "must be attribute, technical or business key 1"),
        ("role", "business key 0", "must be attribute"),
        ("role", "business key ²", "must be attribute"),
    ],
)
def test_invalid_cell_text_is_refused_with_its_cell(cell: str, text: str, message: str) -> None:
    with pytest.raises(MetadataError, match=message) as refused:
        read_cell(cell, text)
    assert refused.value.field == cell


@given(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from([name for name in NAMES if name != "decimal"]).map(DataType),
            "nullable": st.booleans(),
            "pii": st.booleans(),
            "sensitivity": st.sampled_from(["", *LEVELS]),
            "owner": st.text(st.characters(exclude_categories=("C", "Z")), max_size=20),
            "tags": st.lists(st.text("abc", min_size=1, max_size=3), unique=True, max_size=4),
            "place": st.none() | st.integers(1, 1000),
        }
    )
)
def test_cell_value_round_trips_through_its_text(given_: dict) -> None:
    place = given_.pop("place")
    values = VALUES | given_ | {"role": "attribute" if place is None else "business_key", "key_ordinal": place}
    for cell in CELLS:
        fields = read_cell(cell.name, cell_text(cell.name, values))
        assert fields == {name: values[name] for name in fields}


def test_role_choices_can_all_be_parsed() -> None:
    offered = role_choices(2)
    assert offered == ["attribute", "business key 1", "business key 2", "technical"]
    assert [read_cell("role", text)["key_ordinal"] for text in offered] == [None, 1, 2, None]
