"""Comparisons of two states of a table: sides, and refusals before a table is read."""

import pytest

from loader.contract.refusals import Refusal
from loader.domain.queries.comparison import Comparison


@pytest.mark.parametrize(
    ("given", "by_number", "sides"),
    [
        (
            Comparison("dates", "2026-11-21", "2026-11-22T09:00:00+01:00"),
            False,
            ("2026-11-21T00:00:00+00:00", "2026-11-22T08:00:00+00:00"),
        ),
        (Comparison("dates", "7", "12"), True, ("7", "12")),
        (Comparison("versions", "3", "4"), False, ("3", "4")),
        (Comparison("environments", "prod", "left over"), False, ("prod", "")),
    ],
)
def test_comparison_normalizes_its_sides(given: Comparison, by_number: bool, sides: tuple[str, str]):
    checked = given.checked(by_number=by_number, environments=["prod"])
    assert (checked.base, checked.other) == sides
    assert Comparison.from_arguments({"kind": "compare"} | checked.as_arguments()) == checked


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Comparison("colour", "a", "b"), "no comparison by 'colour'"),
        (Comparison("dates", "soon", "2026-11-21"), "'soon' is not a time"),
        (Comparison("versions", "1", ""), "'' is not a number"),
        (Comparison("environments", "moon"), "no other environment 'moon'"),
    ],
)
def test_comparison_with_an_invalid_side_is_refused(given: Comparison, message: str):
    with pytest.raises(Refusal, match=message):
        given.checked(by_number=False, environments=["prod"])


def test_a_comparison_is_named_by_its_sides():
    assert Comparison("versions", "3", "4").in_words("dev") == "version 3 to version 4"
    assert Comparison("environments", "prod").in_words("dev") == "prod to dev"
