"""Tests of the window of an increment: its begin by the times of this load and the last one."""

from datetime import UTC, datetime

import pytest

from metadata.domain.models.increment import WINDOW, Increment


@pytest.mark.parametrize(
    ("last", "start"),
    [(None, 17), (datetime(2024, 1, 19, 23, tzinfo=UTC), 16), (datetime(2024, 1, 21, tzinfo=UTC), 17)],
    ids=["first load", "last load before", "last load later"],
)
def test_a_window_begins_days_before_the_earlier_of_this_load_and_the_last(last, start):
    window = Increment(WINDOW, "sold", 3)
    assert window.start(datetime(2024, 1, 20, 4, tzinfo=UTC), last) == datetime(2024, 1, start, tzinfo=UTC)
