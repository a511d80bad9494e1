"""Truncated lists of findings."""

import pytest

from architecture.domain.health import Concern, Severity
from architecture.selectors.health import MOST_CONCERNS, first_concerns


@pytest.mark.parametrize(("number", "is_cut"), [(0, False), (MOST_CONCERNS, False), (MOST_CONCERNS + 1, True)])
def test_last_listed_finding_says_that_there_are_more(number: int, is_cut: bool):
    concerns = [
        Concern("orphan", Severity.HINT, f"Source {place}", "Nothing reads it.", "/") for place in range(number)
    ]
    listed = first_concerns(iter(concerns))
    assert [concern.subject for concern in listed] == [concern.subject for concern in concerns[:MOST_CONCERNS]]
    more = f" There are more such findings than the {MOST_CONCERNS} listed."
    assert [concern.text for concern in listed] == ["Nothing reads it."] * (len(listed) - is_cut) + [
        f"Nothing reads it.{more}"
    ] * is_cut
