"""Tests of names that most engines require quotes for."""

import pytest

from metadata.domain.quoted_names import quoting_reason


@pytest.mark.parametrize("name", ["iata", "order_id", "_source", "Orders2"])
def test_plain_names_need_no_quotes(name: str):
    assert quoting_reason(name) == ""


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("Order", "it is a reserved word"),
        ("2nd_name", "it begins with a digit"),
        ("order total", "it has a space"),
        ("größe", "it has other characters than letters, digits and _"),
    ],
)
def test_names_that_need_quotes_have_a_reason(name: str, reason: str):
    assert quoting_reason(name) == reason
