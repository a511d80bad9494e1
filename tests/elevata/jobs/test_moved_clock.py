"""Heartbeats after a changed clock or a suspended machine: running work is kept, dead work is found."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
from django.db.models import F
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.models import Lease
from architecture.services.environments import current_environment
from architecture.services.leases import Holder, take_leases
from elevata.core import database
from elevata.jobs.models import Worker
from elevata.jobs.registry import live_workers
from elevata.jobs.services import Attempt, mark_lost
from elevata.jobs.states import LOST_AFTER
from elevata.jobs.sweep import sweep_jobs
from loader.models import LoadRun
from loader.selectors.loads import leases_in_force
from tests.loader.factories import LoadRunFactory

ELSEWHERE = "another-machine:1"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Return the settable clocks of the process; the clock of the database server stays correct."""
    now = SimpleNamespace(wall=1_000_000.0, steady=500.0)
    started, began = timezone.now(), now.steady
    fake = SimpleNamespace(time=lambda: now.wall, monotonic=lambda: now.steady)
    monkeypatch.setattr(database, "time", fake)
    monkeypatch.setattr(database, "_ahead", None)
    monkeypatch.setattr(database, "_seen_ahead", {})
    monkeypatch.setattr(database, "_server_time", None)
    monkeypatch.setattr(
        database, "_read_server_time", lambda: (started + timedelta(seconds=now.steady - began), now.steady)
    )
    return now


def counts_heartbeats() -> bool:
    return database.silent_before(LOST_AFTER) > database._EARLIEST and database.ahead_of(LOST_AFTER) < database._LATEST


@pytest.mark.parametrize("seconds", [3600, -3600, 86_400 * 365], ids=["forward", "back", "a-year"])
def test_heartbeats_are_ignored_for_half_a_minute_after_the_clock_was_set(clock, seconds):
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


@pytest.mark.services
@pytest.mark.django_db
@pytest.mark.parametrize("hours", [1, -1])
def test_worker_with_another_clock_neither_takes_nor_loses_the_work_of_other_workers(monkeypatch, hours):
    """Check that heartbeats and their age use the clock of the database server."""
    theirs = LoadRunFactory(
        status="running", heartbeat_at=timezone.now(), claimed_by=ELSEWHERE, attempt=1, finished_at=None
    )
    now = timezone.now
    monkeypatch.setattr(timezone, "now", lambda: now() + timedelta(hours=hours))
    assert mark_lost() == []
    Attempt(theirs.pk, 1).write()
    assert abs(LoadRun.objects.get().heartbeat_at - now()) < timedelta(minutes=1)
    Worker.objects.create(name="w", started_at=now(), heartbeat_at=now())
    assert sweep_jobs().lost == ()
    assert [worker.name for worker in live_workers()] == ["w"]


@pytest.mark.services
def test_a_database_server_whose_clock_was_set_counts_as_an_outage(clock, monkeypatch):
    assert counts_heartbeats()
    (at, _), (clock.wall, clock.steady) = database._read_server_time(), (clock.wall + 11, clock.steady + 11)
    monkeypatch.setattr(database, "_read_server_time", lambda: (at - timedelta(hours=1), clock.steady))
    assert database.shared_now() == at - timedelta(hours=1)
    assert not counts_heartbeats()


FUTURE = timedelta(hours=1)
KEYS = ["5e1f9a10-0000-4000-8000-000000000001"]


def work_in_future() -> LoadRun:
    """Return a run with a heartbeat in the future; its lease has one, too."""
    run = LoadRunFactory(status="running", heartbeat_at=timezone.now() + FUTURE, claimed_by=ELSEWHERE, finished_at=None)
    take_leases(environment=current_environment(), dataset_keys=KEYS, holder=Holder("execution", 7, 1))
    Lease.objects.update(heartbeat_at=timezone.now() + FUTURE)
    return run


def can_take_lease() -> bool:
    try:
        take_leases(environment=current_environment(), dataset_keys=KEYS, holder=Holder("execution", 8, 1))
    except Refused:
        return False
    return True


@pytest.mark.django_db
def test_work_that_died_before_the_clock_was_set_back_is_lost_and_its_datasets_are_free(clock):
    run = work_in_future()
    assert (mark_lost(), can_take_lease()) == ([], False)
    clock.wall, clock.steady = clock.wall + 31, clock.steady + 31
    assert ([job.pk for job in mark_lost()], can_take_lease()) == ([run.pk], True)
    assert LoadRun.objects.get().error["code"] == "WORKER_LOST"


@pytest.mark.django_db
def test_worker_whose_clock_is_ahead_keeps_its_work_and_leases_while_it_sends_heartbeats(clock):
    run = work_in_future()
    for seconds in range(0, 120, 20):
        beat = timezone.now() + FUTURE + timedelta(seconds=seconds)
        LoadRun.objects.filter(pk=run.pk).update(heartbeat_at=beat)
        Lease.objects.update(heartbeat_at=beat)
        assert (mark_lost(), can_take_lease()) == ([], False)
        clock.wall, clock.steady = clock.wall + 20, clock.steady + 20


@pytest.mark.django_db
def test_worker_with_a_heartbeat_in_the_future_is_alive_while_it_changes_and_silent_when_it_does_not(clock):
    worker = Worker.objects.create(name="w", started_at=timezone.now(), heartbeat_at=timezone.now() + FUTURE)
    for _ in range(4):
        assert live_workers() == [worker]
        clock.wall, clock.steady = clock.wall + 15, clock.steady + 15
        Worker.objects.update(heartbeat_at=F("heartbeat_at") + timedelta(seconds=15))
    assert live_workers() == [worker]
    clock.wall, clock.steady = clock.wall + 21, clock.steady + 21
    assert not live_workers()
    Worker.objects.update(heartbeat_at=database.shared_now())
    assert live_workers() == [worker]


@pytest.mark.django_db
def test_lease_with_an_unchanged_heartbeat_in_the_future_is_counted_as_quiet(clock):
    work_in_future()
    assert leases_in_force(current_environment()).quiet == 0
    clock.wall, clock.steady = clock.wall + 31, clock.steady + 31
    assert leases_in_force(current_environment()).quiet == 1
