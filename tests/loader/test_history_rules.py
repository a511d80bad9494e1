"""The guards that stand before every load of a history."""

import pytest

from loader.domain.history import check_empty, check_later
from loader.domain.refusals import Refusal


def test_a_run_that_is_not_later_is_refused():
    with pytest.raises(Refusal, match="not later") as refused:
        check_later(name="t", at="2024-01-01T00:00:00Z", newest=["2024-01-01T01:00:00+01:00"])
    assert refused.value.code == "NOT_LATER"


def test_a_first_run_is_never_too_early():
    check_later(name="t", at="1970-01-01T00:00:00Z", newest=[None])


@pytest.mark.parametrize(("rows", "would_close", "allowed"), [(1, 5, False), (0, 0, False), (0, 5, True)])
def test_an_empty_snapshot_is_taken_if_it_closes_nothing_or_is_allowed(rows, would_close, allowed):
    check_empty(name="t", rows=rows, would_close=would_close, allowed=allowed)


def test_an_empty_snapshot_that_would_close_versions_is_refused():
    with pytest.raises(Refusal) as refused:
        check_empty(name="t", rows=0, would_close=7, allowed=False)
    assert (refused.value.code, refused.value.count) == ("EMPTY_SNAPSHOT", 7)
