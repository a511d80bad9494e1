"""Worker process: one load run at a time, reads in parallel, repeated and lost messages."""

import os
import signal
import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from elevata.jobs.models import Job, Worker
from elevata.jobs.registry import live_workers
from elevata.notifications.deliveries import Outcome
from elevata.notifications.models import Delivery
from loader import tasks
from loader.contract.refusals import Refusal
from loader.models import LoadRun
from loader.runner import worker
from loader.runner.worker import Workplace
from loader.services.loads.load_runs import request_load_run
from loader.services.reads.read_requests import request_read
from tests.factories import DeliveryFactory
from tests.loader.airports import target
from tests.loader.processes import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture
def workplace(make_runner, monkeypatch):
    place = Workplace(make_runner=make_runner)
    monkeypatch.setattr(tasks, "_workplace", place)
    yield place
    place.close()


def queued(**more) -> LoadRun:
    return request_load_run(wake_worker=False, **more).run


def in_thread(function, *arguments) -> threading.Thread:
    def call():
        try:
            function(*arguments)
        finally:
            connection.close()

    thread = threading.Thread(target=call)
    thread.start()
    return thread


def test_wakeup_performs_all_queued_runs_in_order(airports, workplace, script):
    runs = [queued() for _ in range(3)]
    tasks.perform(runs[0].pk)
    assert set(LoadRun.objects.values_list("status", "attempt")) == {("succeeded", 1)}
    started = [run.started_at for run in LoadRun.objects.order_by("requested_at")]
    assert started == sorted(started)


def test_concurrent_wakeups_perform_a_run_once(airports, workplace, script, in_threads):
    run = queued()
    in_threads(*[lambda: tasks.perform(run.pk)] * 4)
    assert LoadRun.objects.get().attempt == 1
    assert len(script.seen("load")) == 1


@pytest.mark.full
def test_run_queued_during_another_run_is_performed_afterwards(airports, workplace, script):
    script.tell(paused=True)
    first = queued()
    working = in_thread(tasks.perform, first.pk)
    wait_until(lambda: LoadRun.objects.filter(status="running").exists())
    second = queued()
    tasks.perform(second.pk)  # returns at once, since another thread performs the run
    assert LoadRun.objects.get(pk=second.pk).status == "queued"
    script.tell()
    working.join(20)
    assert set(LoadRun.objects.values_list("status", flat=True)) == {"succeeded"}


@pytest.mark.full
def test_reads_are_answered_during_a_run(airports, workplace, script):
    script.tell(pause=30, answers={"sample": {"rows": []}})
    working = in_thread(tasks.perform, queued().pk)
    wait_until(lambda: script.seen("load"))
    read = request_read(kind="sample", dataset=target("raw.raw_air_airport"), wake_worker=False).read
    tasks.perform(read.pk)
    read.refresh_from_db()
    assert read.status == "succeeded"
    workplace.stop()
    working.join(20)
    assert LoadRun.objects.get().error["code"] == "WORKER_STOPPED"


def test_notifications_are_sent_during_a_run_without_the_runner(airports, workplace, script, monkeypatch):
    monkeypatch.setattr("elevata.notifications.deliveries.send", lambda _: Outcome(204, 1))
    script.tell(pause=30)
    working = in_thread(tasks.perform, queued().pk)
    wait_until(lambda: script.seen("load"))
    first, *_ = DeliveryFactory.create_batch(3)
    tasks.perform(first.pk)
    assert set(Delivery.objects.values_list("status", "attempt")) == {("succeeded", 1)}
    workplace.stop()
    working.join(20)


def test_slow_notification_delivery_sends_heartbeats_and_succeeds(workplace, monkeypatch):
    delivery, beats = DeliveryFactory(), []

    def slowly(_):
        for _ in range(2):
            before = Job.objects.get().heartbeat_at
            wait_until(lambda before=before: Job.objects.get().heartbeat_at > before)
            beats.append(before)
        return Outcome(204, 1)

    monkeypatch.setattr("elevata.jobs.states.HEARTBEAT_SECONDS", 0.05)
    monkeypatch.setattr("elevata.notifications.deliveries.send", slowly)
    tasks.perform(delivery.pk)
    assert len(beats) == 2
    assert Delivery.objects.get().status == "succeeded"


def test_worker_ignores_runs_of_another_environment(airports, workplace, settings):
    run = queued()
    settings.ENVIRONMENT = "another"
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert run.status == "queued"


def test_worker_without_the_warehouse_lock_leaves_runs_queued(airports, workplace, make_runner):
    make_runner("the other worker").start()
    run = queued()
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert (run.status, run.attempt) == ("queued", 0)


def test_worker_is_registered_from_open_to_close(airports, workplace, monkeypatch):
    monkeypatch.setattr(worker.states, "WORKER_BEAT_SECONDS", 0.05)
    workplace.open()
    assert [worker.name for worker in live_workers()] == [workplace.name]
    Worker.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert not live_workers()
    wait_until(live_workers)
    wait_until(lambda: [worker.runner_pid for worker in live_workers()] == [workplace.runner.pid])
    assert workplace.runner.wait_until_ready(10)
    workplace.close()
    assert not Worker.objects.exists()


def test_each_new_runner_of_a_worker_publishes_the_embedded_catalog_once(airports, workplace, script, monkeypatch):
    tasks.perform(queued().pk)
    published = len(script.seen("publish"))
    monkeypatch.setattr(worker.states, "WORKER_BEAT_SECONDS", 0.05)
    workplace.open()
    wait_until(lambda: len(script.seen("publish")) == published + 1)
    manifest = script.seen("publish")[-1]["body"]
    assert {"rawcore.rc_air_airport", "stage.stg_air_airport"} <= {name["name"] for name in manifest["names"]}
    assert (manifest["address"], manifest["whole"]) == ("embedded", False)
    first = workplace.runner.pid
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: workplace.runner.pid != first)
    workplace.runner.start()
    wait_until(lambda: len(script.seen("publish")) == published + 2)


def test_worker_continues_if_publishing_names_fails(airports, workplace, script, monkeypatch):
    messages = []
    monkeypatch.setattr(worker, "publish_manifest", lambda **_: 1 / 0)
    monkeypatch.setattr(worker.log, "exception", lambda text: messages.append(text))
    monkeypatch.setattr(worker.states, "WORKER_BEAT_SECONDS", 0.05)
    workplace.open()
    wait_until(lambda: messages)
    Worker.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    wait_until(live_workers)
    assert messages == ["the names were not published in the new runner"]


def test_a_worker_opens_even_if_its_runner_cannot_start(airports, workplace, make_runner, monkeypatch):
    messages = []

    def refuse():
        raise Refusal("warehouse_busy", "somebody has it")

    monkeypatch.setattr(workplace.runner, "start", refuse)
    monkeypatch.setattr(worker.log, "error", lambda text, *values: messages.append(text % values))
    workplace.open()
    assert live_workers()
    assert "somebody has it" in messages[0]


def test_worker_marks_runs_of_dead_workers_as_lost(airports, workplace, monkeypatch):
    monkeypatch.setattr(worker.states, "WORKER_BEAT_SECONDS", 0.05)
    run = queued()
    LoadRun.objects.update(status="running", attempt=1, heartbeat_at=timezone.now() - timedelta(minutes=1))
    workplace.open()
    wait_until(lambda: LoadRun.objects.get(pk=run.pk).status == "lost")
