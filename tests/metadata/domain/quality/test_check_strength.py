"""Tests of the strictness of a check's new version: it is as strict if it refuses all rows that the old one refused."""

from typing import Any

import pytest

from metadata.domain.quality.check_strength import is_at_least_as_strict
from metadata.domain.state import CheckState


def check(kind: str, severity: str = "stop", **arguments: Any) -> CheckState:
    return CheckState("k", "a check", kind, severity, arguments)


AMOUNTS = {"columns": ["amount"]}
STRICTER = [
    (check("range", **AMOUNTS, minimum="0"), check("range", **AMOUNTS, minimum="1")),
    (check("range", **AMOUNTS, minimum="0"), check("range", **AMOUNTS, minimum="0", maximum="9")),
    (check("range", **AMOUNTS, maximum="100"), check("range", **AMOUNTS, maximum="99.5")),
    (check("range", columns=["d"], maximum="2024-12-31"), check("range", columns=["d"], maximum="2024-06-30")),
    (check("accepted_values", columns=["s"], values=["a", "b"]), check("accepted_values", columns=["s"], values=["a"])),
    (check("freshness", columns=["d"], hours=48), check("freshness", columns=["d"], hours=24)),
    (check("not_null", columns=["a"]), check("not_null", columns=["a", "b"])),
    (check("unique", columns=["a", "b"]), check("unique", columns=["a"])),
    (check("not_null", "warn", columns=["a"]), check("not_null", "stop", columns=["a"])),
    (check("not_null", columns=["a"], where="b > 0"), check("not_null", columns=["a"])),
    (check("total", tolerance="0.1", **AMOUNTS), check("total", **AMOUNTS)),
    (check("row_count_change"), check("row_count_change", deviations="3")),
]


@pytest.mark.parametrize(("before", "after"), STRICTER)
def test_stricter_check_is_at_least_as_strict(before: CheckState, after: CheckState) -> None:
    assert is_at_least_as_strict(after, before)


@pytest.mark.parametrize(("after", "before"), STRICTER)
def test_weaker_check_is_not_as_strict(after: CheckState, before: CheckState) -> None:
    assert not is_at_least_as_strict(after, before)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (check("condition", condition="a > 0"), check("condition", condition="a > 1")),
        (check("pattern", columns=["s"], pattern="[A-Z]+"), check("pattern", columns=["s"], pattern="[A-Z]{3}")),
        (check("not_null", columns=["a"]), check("unique", columns=["a"])),
        (check("range", columns=["s"], minimum="b"), check("range", columns=["s"], minimum="c")),
        (check("row_count", minimum="5", where="b > 0"), check("row_count", minimum="5")),
        (check("freshness", columns=["d"], hours=24, where="b > 0"), check("freshness", columns=["d"], hours=24)),
    ],
)
def test_check_change_of_unknown_effect_is_not_as_strict(before: CheckState, after: CheckState) -> None:
    assert not is_at_least_as_strict(after, before)


def test_a_higher_minimum_of_text_is_not_stricter() -> None:
    """Check texts, where '2' is above '10' and below '9'."""
    before, after = (check("range", columns=["S"], minimum=limit) for limit in ("9", "10"))
    assert not is_at_least_as_strict(after, before, texts={"s"})


def test_higher_minimum_of_a_text_length_is_stricter() -> None:
    before, after = (check("length", columns=["s"], minimum=limit) for limit in ("9", "10"))
    assert is_at_least_as_strict(after, before, texts={"s"})
