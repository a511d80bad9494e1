"""Rows that checks read if a load computes a part of a table."""

from datetime import UTC, datetime

import pytest

from loader.engine.quality import frame_checks
from loader.engine.quality.frame_checks import RowChecker
from metadata.domain.types import parse
from tests.loader.quality import check

PART, TABLE = "part", "table"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the rows that each check has read, by name."""
    read: dict[str, str] = {}

    def aggregated(rows: str, checks: dict) -> dict:
        read.update(dict.fromkeys(checks, rows))
        return {key: {"failed": 0, "total": 1, "value": 1} for key in checks}

    monkeypatch.setattr(frame_checks, "_aggregated", aggregated)
    monkeypatch.setattr(frame_checks, "types_of_frame", lambda rows: {"id": parse("integer")})
    monkeypatch.setattr(RowChecker, "_repeated", lambda own, check, rows: int(read[check.spec.key] != rows))
    return read


CHECKS = (
    check("not_null", columns=["id"]),
    check("range", columns=["id"], minimum="0"),
    check("row_count", minimum="1"),
    check("unique", columns=["id"]),
)


def test_table_checks_read_all_rows_and_row_checks_the_computed_rows(read):
    checked = RowChecker(None, "w", datetime(2024, 1, 1, tzinfo=UTC)).check(PART, CHECKS, TABLE)
    assert read == {"not_null": PART, "range": PART, "row_count": TABLE, "unique": TABLE}
    assert [result.outcome for result in checked.results] == ["passed"] * 4


def test_checks_without_separate_table_rows_read_the_same_rows(read):
    RowChecker(None, "w", datetime(2024, 1, 1, tzinfo=UTC)).check(PART, CHECKS)
    assert set(read.values()) == {PART}
