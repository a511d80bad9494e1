"""Comparison of a sample with a contract: new, different and missing columns, without any decision."""

from loader.domain.sources.contract_comparison import KnownColumn, compare_contract
from loader.domain.sources.sampling import SampledColumn
from metadata.domain.types import parse


def contract_column(name: str, type_: str = "string", **values: object) -> KnownColumn:
    return KnownColumn(name, parse(type_), **values)


def sampled_column(name: str, type_: str = "string", **values: object) -> SampledColumn:
    return SampledColumn(name, parse(type_), "the file says so", **values)


def statuses(lines) -> dict[str, str]:
    return {line.name: line.status for line in lines}


def compare(contract: list, sample: list, values: dict | None = None, *, typed: bool = False):
    return compare_contract(contract, sample, values or {}, typed=typed)


def test_every_column_of_an_empty_contract_is_new_in_the_deliverys_order():
    lines = compare([], [sampled_column("b"), sampled_column("a")])
    assert [(line.name, line.status) for line in lines] == [("b", "new"), ("a", "new")]


def test_inferred_type_differs_only_if_values_do_not_fit_the_type_of_the_contract():
    lines = compare(
        [contract_column("a", "bigint"), contract_column("b", "integer")],
        [sampled_column("a", "integer"), sampled_column("b", "float")],
        {"a": ["1"], "b": ["1.5", "2"]},
    )
    assert statuses(lines) == {"a": "same", "b": "changed"}
    (changed,) = (line for line in lines if line.name == "b")
    assert str(changed.type) == "float"
    assert changed.difference == "1 sampled value does not fit integer, '1.5' for one"


def test_declared_type_that_differs_from_the_contract_is_a_change():
    lines = compare([contract_column("a", "integer")], [sampled_column("a", "bigint")], typed=True)
    assert statuses(lines) == {"a": "changed"}


def test_type_stored_as_text_is_no_difference():
    assert statuses(compare([contract_column("a", "string")], [sampled_column("a", "uuid")], typed=True)) == {
        "a": "same"
    }


def test_missing_column_is_gone_and_a_delivered_retired_column_returns():
    lines = compare([contract_column("a"), contract_column("b", active=False)], [sampled_column("b")])
    assert statuses(lines) == {"a": "gone", "b": "returning"}


def test_retired_column_that_is_not_delivered_is_not_listed():
    assert compare([contract_column("a", active=False)], []) == []


def test_names_that_differ_only_by_case_clash():
    lines = compare(
        [contract_column("id")], [sampled_column("id"), sampled_column("ID"), sampled_column("x"), sampled_column("X")]
    )
    assert statuses(lines) == {"x": "new", "ID": "clashing", "X": "clashing", "id": "same"}


def test_column_of_an_unsupported_type_is_clashing():
    lines = compare([], [sampled_column("a", problem="duration cannot be held")])
    assert [(line.status, line.difference) for line in lines] == [("clashing", "duration cannot be held")]


def test_nulls_in_a_required_column_are_a_difference():
    lines = compare([contract_column("a", nullable=False)], [sampled_column("a", rows=10, nulls=3)])
    assert (lines[0].status, lines[0].nullable) == ("changed", True)
    assert "3 of 10 rows have no value" in lines[0].difference


def test_null_business_key_is_reported_but_never_made_nullable():
    lines = compare([contract_column("a", nullable=False, key_ordinal=1)], [sampled_column("a", rows=10, nulls=1)])
    assert (lines[0].status, lines[0].nullable) == ("same", False)
    assert "a load will refuse them" in lines[0].difference
