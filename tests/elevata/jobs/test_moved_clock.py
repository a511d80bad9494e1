"""Heartbeats after the clock was set, or the machine slept: no living work is lost, and dead work is noticed."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.utils import timezone

from architecture.models import Lease
from architecture.services.leases import Holder, take_leases
from architecture.services.states import current_environment
from elevata.core import database
from elevata.jobs.services import mark_lost
from elevata.jobs.states import LOST_AFTER
from loader.models import LoadRun
from tests.loader.factories import LoadRunFactory

ELSEWHERE = "another-machine:1"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Clocks of the process that notices outages."""
    now = SimpleNamespace(wall=1_000_000.0, steady=500.0)
    fake = SimpleNamespace(time=lambda: now.wall, monotonic=lambda: now.steady)
    monkeypatch.setattr(database, "time", fake)
    monkeypatch.setattr(database, "_ahead", None)
    return now


def counts_heartbeats() -> bool:
    return database.silent_before(LOST_AFTER) > database._EARLIEST and database.ahead_of(LOST_AFTER) < database._LATEST


@pytest.mark.parametrize("seconds", [3600, -3600, 86_400 * 365], ids=["forward", "back", "a-year"])
def test_no_work_counts_as_lost_until_heartbeats_were_sent_after_the_clock_was_set(clock, seconds):
    assert counts_heartbeats()
    clock.wall += seconds
    assert not counts_heartbeats()
    clock.wall, clock.steady = clock.wall + 29, clock.steady + 29
    assert not counts_heartbeats()
    clock.wall, clock.steady = clock.wall + 2, clock.steady + 2
    assert counts_heartbeats()


def test_a_clock_that_is_adjusted_slowly_is_no_outage(clock):
    for _ in range(20):
        assert counts_heartbeats()
        clock.wall, clock.steady = clock.wall + 4, clock.steady + 2


@pytest.mark.django_db
def test_work_that_died_before_the_clock_was_set_back_is_lost_and_its_datasets_are_free():
    future = timezone.now() + timedelta(hours=1)
    run = LoadRunFactory(status="running", heartbeat_at=future, claimed_by=ELSEWHERE, finished_at=None)
    environment, keys = current_environment(), ["5e1f9a10-0000-4000-8000-000000000001"]
    take_leases(environment=environment, dataset_keys=keys, holder=Holder("execution", 7, 1))

    Lease.objects.update(heartbeat_at=future)
    assert take_leases(environment=environment, dataset_keys=keys, holder=Holder("execution", 8, 1)).count == 1
    assert [job.pk for job in mark_lost()] == [run.pk]
    assert LoadRun.objects.get().error["code"] == "WORKER_LOST"
