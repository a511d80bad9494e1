"""Messages about jobs that wait for a worker, or whose worker does not respond."""

from datetime import UTC, datetime, timedelta

import pytest

from elevata.jobs.states import (
    BROKER,
    BROKER_AWAY,
    GONE,
    LEASE,
    NO_WORKER,
    NOT_TAKEN_UP,
    QUIET,
    Wait,
    wait_of,
)

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def seconds_ago(number: float) -> datetime:
    return NOW - timedelta(seconds=number)


def wait_of_queued(*, since: float = 1, phase: str = "", workers: int = 1) -> Wait | None:
    return wait_of(
        status="queued", queued_at=seconds_ago(since), heartbeat_at=None, phase=phase, workers=workers, now=NOW
    )


def wait_of_running(*, heard: float, workers: int = 1, status: str = "running") -> Wait | None:
    return wait_of(
        status=status,
        queued_at=seconds_ago(3600),
        heartbeat_at=seconds_ago(heard),
        phase="changing tables",
        workers=workers,
        now=NOW,
    )


def test_newly_queued_job_has_no_wait_message():
    assert wait_of_queued() is None


def test_queued_job_without_a_worker_reports_no_worker_at_once():
    assert wait_of_queued(since=5, workers=0) == Wait(NO_WORKER, seconds_ago(5))


def test_queued_job_with_a_worker_reports_not_taken_up_after_half_a_minute():
    assert wait_of_queued(since=29) is None
    assert wait_of_queued(since=30) == Wait(NOT_TAKEN_UP, seconds_ago(30))


def test_unreachable_broker_is_reported_before_a_missing_worker():
    assert wait_of_queued(phase=BROKER_AWAY, workers=0).code == BROKER


def test_job_that_waits_for_a_lease_reports_the_lease():
    assert wait_of_queued(since=300, phase="waiting: load run x writes to rawcore.y").code == LEASE


@pytest.mark.parametrize("status", ["running", "canceling"])
def test_held_job_with_a_recent_heartbeat_has_no_wait_message(status: str):
    assert wait_of_running(heard=2, status=status) is None


def test_running_job_without_recent_heartbeats_reports_quiet_and_then_gone():
    assert wait_of_running(heard=12) == Wait(QUIET, seconds_ago(12))
    assert wait_of_running(heard=31) == Wait(GONE, seconds_ago(31))


def test_held_job_without_any_worker_reports_a_quiet_worker_at_once():
    assert wait_of_running(heard=2, workers=0).code == QUIET


def test_running_job_without_a_heartbeat_reports_quiet_if_no_worker_runs():
    known = {"status": "running", "queued_at": seconds_ago(99), "heartbeat_at": None, "phase": "", "now": NOW}
    assert wait_of(workers=1, **known) is None
    assert wait_of(workers=0, **known) == Wait(QUIET, seconds_ago(99))


@pytest.mark.parametrize("status", ["succeeded", "failed", "canceled", "lost", "abandoned", "blocked"])
def test_finished_job_has_no_wait_message(status: str):
    times = {"queued_at": seconds_ago(99), "heartbeat_at": seconds_ago(99), "phase": "", "workers": 0, "now": NOW}
    assert wait_of(status=status, **times) is None
