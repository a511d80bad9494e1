"""Type changes: classes of the contract, and properties of all pairs of types."""

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from architecture.domain.type_changes import (
    TypeChange,
    classify,
    classify_types,
    common_type,
    text_length,
)
from metadata.domain.types import DECIMAL, NAMES, STRING, DataType, parse, stored_type
from tests.metadata.domain.test_types import data_types
from tests.repository.docs_tables import type_changes_table

EQUIVALENT, ALTER, REBUILD = TypeChange.EQUIVALENT, TypeChange.ALTER, TypeChange.REBUILD
NARROWER, INCOMPATIBLE = TypeChange.NARROWER, TypeChange.INCOMPATIBLE
DOCS = Path(__file__).resolve().parents[3] / "docs" / "use" / "architecture_control.md"


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ("integer", "integer", EQUIVALENT),
        ("varchar(20)", "string(20)", EQUIVALENT),
        ("numeric(10,2)", "decimal(10,2)", EQUIVALENT),
        ("integer", "bigint", ALTER),
        ("integer", "float", ALTER),
        ("integer", "decimal(10,0)", ALTER),
        ("integer", "decimal(12,2)", ALTER),
        ("integer", "decimal(10,2)", NARROWER),
        ("bigint", "decimal(20,0)", ALTER),
        ("bigint", "decimal(19,0)", NARROWER),
        ("bigint", "integer", NARROWER),
        ("bigint", "float", NARROWER),
        ("decimal(10,2)", "decimal(12,2)", ALTER),
        ("decimal(10,2)", "decimal(18,4)", ALTER),
        ("decimal(10,2)", "decimal(10,4)", NARROWER),
        ("decimal(10,2)", "decimal(10,1)", NARROWER),
        ("decimal(10,2)", "float", NARROWER),
        ("decimal(9,0)", "integer", NARROWER),
        ("string(20)", "string(50)", ALTER),
        ("string(20)", "string", ALTER),
        ("string(50)", "string(20)", NARROWER),
        ("string", "string(50)", NARROWER),
        ("uuid", "string", ALTER),
        ("json", "string", ALTER),
        ("time", "string", ALTER),
        ("uuid", "string(36)", REBUILD),
        ("uuid", "string(35)", NARROWER),
        ("json", "string(500)", NARROWER),
        ("date", "timestamp", REBUILD),
        ("date", "string", REBUILD),
        ("integer", "string", REBUILD),
        ("integer", "string(11)", REBUILD),
        ("integer", "string(10)", NARROWER),
        ("boolean", "string", REBUILD),
        ("decimal(4,2)", "string(6)", REBUILD),
        ("decimal(4,2)", "string(5)", NARROWER),
        ("timestamp", "date", NARROWER),
        ("string", "integer", INCOMPATIBLE),
        ("string", "uuid", NARROWER),
        ("boolean", "integer", INCOMPATIBLE),
        ("binary", "string", INCOMPATIBLE),
        ("time", "timestamp", INCOMPATIBLE),
        ("uuid", "json", INCOMPATIBLE),
    ],
)
def test_type_change_is_classified(before: str, after: str, change: TypeChange) -> None:
    assert classify(before, after) is change


@given(data_types())
def test_a_type_is_equivalent_to_itself(type_: DataType) -> None:
    assert classify_types(type_, type_) is EQUIVALENT


@given(data_types(), data_types())
def test_types_are_equivalent_only_if_equal(first: DataType, second: DataType) -> None:
    assert (classify_types(first, second) is EQUIVALENT) == (first == second)


@given(data_types(), data_types())
def test_widening_never_holds_in_both_directions(first: DataType, second: DataType) -> None:
    assert not (classify_types(first, second).widens and classify_types(second, first).widens)


def test_widening_is_transitive() -> None:
    measured = ["string(5)", "string(11)", "string(26)", "string(40)", "decimal(9,0)", "decimal(10,0)", "decimal(12,2)"]
    types = [*measured, "decimal(20,0)", "decimal(24,4)", *(name for name in NAMES if name != DECIMAL)]
    wider = {(old, other) for old in types for other in types if classify(old, other).widens}
    missing = [
        (old, third) for old, other in wider for also, third in wider if other == also and (old, third) not in wider
    ]
    assert missing == []


@given(data_types(), data_types())
def test_reverse_of_a_widening_is_narrower_or_incompatible(first: DataType, second: DataType) -> None:
    if classify_types(first, second).widens:
        assert classify_types(second, first) in (NARROWER, INCOMPATIBLE)


@given(data_types(), data_types())
def test_types_that_are_stored_alike_need_no_rebuild(first: DataType, second: DataType) -> None:
    if stored_type(first) == stored_type(second):
        assert classify_types(first, second) is not REBUILD


# --- values ----------------------------------------------------------------------------------


def value_of(type_: DataType) -> st.SearchStrategy:
    if type_.name == DECIMAL:
        limit = 10**type_.precision - 1
        return st.integers(-limit, limit).map(lambda number: Decimal(number).scaleb(-type_.scale))
    return {
        "string": st.text(st.characters(codec="utf-8"), max_size=type_.length or 60),
        "integer": st.integers(-(2**31), 2**31 - 1),
        "bigint": st.integers(-(2**63), 2**63 - 1),
        "float": st.floats(allow_nan=False),
        "boolean": st.booleans(),
        "date": st.dates(),
        "time": st.times(),
        "timestamp": st.datetimes(timezones=st.just(UTC)),
        "binary": st.binary(),
        "uuid": st.uuids(),
        "json": st.just('{"a": 1}'),
    }[type_.name]


def text_of(value: Any) -> str:
    """Return the text that Spark writes for a value."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S.%f").rjust(26, "0")
    return value.isoformat() if isinstance(value, date | time) else str(value)


def cast(value: Any, type_: DataType) -> Any:
    """Return the value in another type; raise ValueError if it does not fit."""
    if type_.name == STRING:
        text = text_of(value)
        if type_.length is not None and len(text) > type_.length:
            raise ValueError(text)
        return text
    if type_.name == DECIMAL:
        number = Decimal(value)
        sign, digits, exponent = number.as_tuple()
        if -exponent > type_.scale or len(digits) + exponent > type_.precision - type_.scale:
            raise ValueError(value)
        return number
    if type_.name == "timestamp":
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return {"bigint": int, "float": float}[type_.name](value)


def back(value: Any, type_: DataType) -> Any:
    """Return a cast value in the type that it came from."""
    if isinstance(value, str) and type_.name != STRING:
        readers = {
            "boolean": lambda text: text == "true",
            "date": date.fromisoformat,
            "time": time.fromisoformat,
            "timestamp": lambda text: datetime.fromisoformat(text).replace(tzinfo=UTC),
            "uuid": UUID,
            "decimal": Decimal,
            "float": float,
            "json": str,
        }
        return readers.get(type_.name, int)(value)
    if isinstance(value, datetime) and type_.name == "date":
        return value.date()
    return int(value) if type_.name in ("integer", "bigint") else value


@given(st.data(), st.lists(data_types(), min_size=2, max_size=12))
def test_every_value_survives_a_widening(data: st.DataObject, types: list[DataType]) -> None:
    widenings = [(old, other) for old in types for other in types if classify_types(old, other).widens]
    assume(widenings)
    before, after = data.draw(st.sampled_from(widenings))
    value = data.draw(value_of(before))
    assert back(cast(value, after), before) == value


@given(st.data(), data_types())
def test_text_length_is_the_longest_text_of_a_type(data: st.DataObject, type_: DataType) -> None:
    longest = text_length(type_)
    assume(longest is not None)
    assert len(text_of(data.draw(value_of(type_)))) <= longest


# --- common types ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("current", "wanted", "common"),
    [
        ("string(50)", "string(20)", "string(50)"),
        ("bigint", "integer", "bigint"),
        ("decimal(10,2)", "decimal(10,4)", "decimal(12,4)"),
        ("decimal(10,2)", "integer", "decimal(12,2)"),
        ("timestamp", "date", "timestamp"),
        ("decimal(10,2)", "float", None),
        ("boolean", "integer", None),
        ("string", "integer", None),
        ("string(50)", "uuid", "string(50)"),
        ("string", "uuid", "string"),
        ("decimal(38,0)", "decimal(38,38)", None),
    ],
)
def test_common_type_of_a_history_holds_both_types(current: str, wanted: str, common: str | None) -> None:
    assert common_type(current, wanted) == common


@given(data_types(), data_types())
def test_common_type_is_equivalent_or_wider_for_both_types(first: DataType, second: DataType) -> None:
    common = common_type(str(first), str(second))
    if common is not None:
        changes = [classify_types(each, parse(common)) for each in (first, second)]
        assert all(change is EQUIVALENT or change.widens for change in changes)


def test_docs_contain_the_table_of_type_changes() -> None:
    assert type_changes_table() in DOCS.read_text(encoding="utf-8")
