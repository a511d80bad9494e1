"""Retention of former files: the safe minimum, and the needs of pending runs."""

from datetime import UTC, datetime, timedelta

import pytest

from loader.contract.refusals import Refusal
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS, Need, refuse_short

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def need(days: int, what: str = "revert r1") -> Need:
    return Need(NOW - timedelta(days=days), what)


@pytest.mark.parametrize("hours", [-1, 0, SAFE_HOURS - 1])
def test_retention_below_the_safe_minimum_is_refused(hours):
    with pytest.raises(Refusal, match=f"choose {SAFE_HOURS} to") as caught:
        refuse_short(hours, [], now=NOW)
    assert caught.value.code == "RETENTION_TOO_SHORT"


def test_retention_above_the_maximum_is_refused():
    with pytest.raises(Refusal) as caught:
        refuse_short(MOST_HOURS + 1, [], now=NOW)
    assert caught.value.code == "BAD_RETENTION"


@pytest.mark.parametrize("hours", [SAFE_HOURS, MOST_HOURS])
def test_retention_at_either_bound_is_accepted(hours):
    refuse_short(hours, [], now=NOW)


def test_oldest_need_determines_the_shortest_retention():
    needs = [need(1), need(10, "undo report x"), need(8)]
    with pytest.raises(Refusal, match="undo report x needs the files of 241 hours ago"):
        refuse_short(240, needs, now=NOW)
    refuse_short(241, needs, now=NOW)


def test_a_need_within_the_safe_minimum_changes_nothing():
    refuse_short(SAFE_HOURS, [need(2)], now=NOW)
