"""An execution runs once, for any number of requests, broker messages and workers."""

import threading
from functools import partial

import pytest
from celery import signals
from celery.contrib.testing.worker import start_worker
from django.db import connection

from architecture.models import ChangeReport, Execution, ExecutionRecord
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import build_report
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.celery import app
from elevata.jobs.submission import WAKE_JOB
from loader import tasks
from loader.runner.worker import Workplace
from metadata.services.lifecycle import rename_column
from tests.loader.airports import column
from tests.loader.processes import wait_until
from tests.loader.services.loads.test_load_work import perform, queued

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.services]


@pytest.fixture
def report(airports, make_runner) -> ChangeReport:
    """Return a previewed report that renames a column of a historized table created by a load."""
    runner = make_runner("the load")
    perform(queued(), runner)
    runner.close()
    renamed = column("rawcore.rc_air_airport.name")
    rename_column(column=renamed, name="title", expected_version=renamed.version)
    change_report = build_report(environment=current_environment())
    make_preview(report=change_report, user=olga())
    return change_report


def olga():
    return ensure_user(name="olga", roles=[Role.OPERATOR])


@pytest.fixture
def performed_jobs():
    """Yield the executions whose messages a worker of this process has finished, without those of earlier tests."""
    app.control.purge()
    numbers: list[int] = []

    def hear(task=None, args=(), **_) -> None:
        if task.name == WAKE_JOB:
            numbers.append(args[0])

    signals.task_postrun.connect(hear)
    yield numbers
    signals.task_postrun.disconnect(hear)


def test_execution_requested_twice_and_delivered_to_two_workers_runs_once(
    report, make_runner, script, tmp_path, monkeypatch, in_threads, performed_jobs
):
    script.add(step_pause=0.2)
    first, second = (Workplace(make_runner=partial(make_runner, folder=tmp_path / name)) for name in ("1", "2"))
    monkeypatch.setattr(tasks, "_workplace", first)
    person = olga()

    def press():
        request = request_execution(report=report, user=person)
        request.send_wakeup()
        assert request.reason == ""
        return request

    requests = in_threads(press, press)
    execution = requests[0].execution
    assert sorted(request.requested for request in requests) == [False, True]
    assert requests[1].execution == execution
    requests[0].send_wakeup()  # the same message again
    other = threading.Thread(target=load, args=(second,))
    with start_worker(app, pool="threads", concurrency=4, perform_ping_check=False, shutdown_timeout=60):
        other.start()
        wait_until(lambda: performed_jobs.count(execution.pk) == 3, 60)
    other.join(60)
    second.close()
    execution.refresh_from_db()
    assert (execution.status, execution.attempt, execution.error) == ("succeeded", 1, None)
    assert Execution.objects.filter(report=report).count() == 1
    assert ExecutionRecord.objects.filter(execution=execution).count() == 1
    # One for the load that made the tables, one for the execution.
    assert len(script.seen("execute")) == 2


def load(place: Workplace) -> None:
    try:
        place.work()
    finally:
        connection.close()
