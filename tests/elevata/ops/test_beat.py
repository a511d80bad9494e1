"""Tests of the scheduler's interval."""

from datetime import UTC, datetime, timedelta

import pytest

from elevata.celery import app
from elevata.ops.broker import SteadySchedule

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("last", "due", "next_in"),
    [
        (NOW - timedelta(seconds=20), True, 15),
        (NOW - timedelta(seconds=5), False, 10),
        (NOW + timedelta(hours=1), False, 15),
    ],
    ids=["long-ago", "just-now", "before-the-clock-was-set-back"],
)
def test_schedule_interval_is_never_exceeded(last, due, next_in):
    assert tuple(SteadySchedule(15.0, nowfun=lambda: NOW, app=app).is_due(last)) == (due, next_in)


def test_sweep_uses_the_steady_schedule_and_its_messages_do_not_expire():
    """Check that messages do not expire, because a worker with a clock ahead would drop them."""
    sweep = app.conf.beat_schedule["sweep"]
    assert isinstance(sweep["schedule"], SteadySchedule)
    assert "options" not in sweep
