"""Tests of the text formats of time and uuid; Python, Spark and SQL use the same patterns."""

import re

import pytest

from metadata.domain.text_formats import PATTERNS
from metadata.domain.types import TIME, UUID

A_UUID = "0d9f3c1e-7a52-4b18-9c44-5a2f6e8b1d07"


@pytest.mark.parametrize(
    ("type_name", "text"),
    [(TIME, "00:00"), (TIME, "23:59:59"), (TIME, "12:30:00.123456"), (UUID, A_UUID), (UUID, A_UUID.upper())],
)
def test_pattern_matches_valid_times_and_uuids(type_name: str, text: str) -> None:
    assert re.search(PATTERNS[type_name], text)


@pytest.mark.parametrize(
    ("type_name", "text"),
    [
        *((TIME, text) for text in ("", "24:00", "12:60", "1:30", "12:30:00.1234567", " 12:30", "12:30 ", "12:30\n")),
        *((UUID, text) for text in ("", A_UUID[:-1], f"{{{A_UUID}}}", f"{A_UUID}\n", "x" * 36)),
        (UUID, A_UUID.replace("-", "")),
    ],
)
def test_pattern_refuses_invalid_times_and_uuids(type_name: str, text: str) -> None:
    assert not re.search(PATTERNS[type_name], text)


@pytest.mark.parametrize("pattern", PATTERNS.values(), ids=PATTERNS)
def test_pattern_needs_no_escaping_in_a_sql_literal(pattern: str) -> None:
    assert not {"\\", "'"} & {*pattern}
