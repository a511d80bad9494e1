"""Dry runs whose worker is lost: marked as lost, reported, and no obstacle to the next dry run."""

import subprocess
import threading
from datetime import timedelta
from functools import partial
from socket import gethostname

import pytest
from django.db import connection
from django.utils import timezone

from architecture.models import DryRun, Preview
from architecture.services.dry_runs import end_dry_run, request_dry_run
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import build_report
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.core.processes import process_name
from elevata.jobs.models import Job
from elevata.jobs.registry import WORK, kinds_in, next_work
from elevata.jobs.services import Attempt, Fenced, claim, mark_lost
from loader.runner import worker
from loader.runner.sweep import sweep
from loader.runner.worker import Workplace
from loader.services.dry_runs import perform_dry_run
from metadata.services.lifecycle import rename_column
from tests.database.row_cache import remembered
from tests.loader.airports import column
from tests.loader.processes import wait_until
from tests.loader.services.loads.test_load_work import perform, queued

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def preview(airports, runner) -> Preview:
    """Return the preview of a report that renames a column of a historized table."""
    return remembered("preview of a renamed column", lambda: renaming_preview(runner))


def renaming_preview(runner) -> Preview:
    perform(queued(), runner)
    renamed = column("rawcore.rc_air_airport.name")
    rename_column(column=renamed, name="title", expected_version=renamed.version)
    return make_preview(report=build_report(environment=current_environment()), user=olga())


def olga():
    return ensure_user(name="olga", roles=[Role.OPERATOR])


def claimed_dry_run(preview: Preview, by: str = "w1", silent_for: timedelta = timedelta(0)) -> DryRun:
    """Return a dry run that a worker claimed, with its last heartbeat some time ago."""
    dry_run = request_dry_run(preview=preview, user=olga()).dry_run
    claim(job_pk=dry_run.pk, worker=by)
    Job.objects.filter(pk=dry_run.pk).update(heartbeat_at=timezone.now() - silent_for)
    dry_run.refresh_from_db()
    return dry_run


def perform_in_thread(dry_run_pk: int, runner) -> None:
    """Perform the dry run in a thread of its own."""
    try:
        perform_dry_run(dry_run_pk, worker="w1", runner=runner)
    finally:
        connection.close()


@pytest.fixture
def wakeups(monkeypatch) -> list[int]:
    """Return the wake-ups that were sent."""
    messages: list[int] = []
    for module in ("submission", "sweep"):
        monkeypatch.setattr(f"elevata.jobs.{module}.wake", lambda pk: messages.append(pk) or "")
    return messages


def test_sweeper_fails_a_dry_run_of_a_silent_worker(preview, wakeups):
    silent = claimed_dry_run(preview, silent_for=timedelta(minutes=5))
    assert [job.pk for job in sweep().lost] == [silent.pk]
    silent.refresh_from_db()
    assert (silent.status, silent.error["code"], silent.error["hint"]) == (
        "failed",
        "WORKER_LOST",
        "repeat the dry run",
    )
    assert "worker w1 sent its last heartbeat at" in silent.error["message"]
    assert silent.finished_at is not None


def test_sweeper_ignores_an_active_dry_run(preview, wakeups):
    alive = claimed_dry_run(preview)
    assert sweep().lost == ()
    alive.refresh_from_db()
    assert alive.status == "running"


def test_dry_run_of_a_dead_local_process_is_lost_at_once(preview, wakeups):
    gone = subprocess.Popen(["true"])
    gone.wait()
    lost = claimed_dry_run(preview, by=f"{gethostname()}:{gone.pid}")
    assert [job.pk for job in sweep().lost] == [lost.pk]


@pytest.mark.full
def test_dry_run_of_a_live_worker_process_is_not_lost(preview):
    claimed_dry_run(preview, by=process_name())
    assert mark_lost() == []


def test_worker_fails_dry_runs_of_dead_workers(preview, make_runner, monkeypatch, tmp_path):
    monkeypatch.setattr(worker.states, "WORKER_BEAT_SECONDS", 0.05)
    lost = claimed_dry_run(preview, silent_for=timedelta(minutes=5))
    place = Workplace(make_runner=partial(make_runner, folder=tmp_path / "its"))
    try:
        place.open()
        wait_until(lambda: DryRun.objects.get(pk=lost.pk).status == "failed")
    finally:
        place.close()


def test_lost_dry_run_attempt_cannot_write(preview, wakeups):
    slow = claimed_dry_run(preview, silent_for=timedelta(minutes=5))
    sweep()
    attempt = Attempt(slow.pk, slow.attempt)
    with pytest.raises(Fenced):
        attempt.heartbeat()
    assert not end_dry_run(attempt=attempt, result={"succeeded": True})
    slow.refresh_from_db()
    assert (slow.status, slow.result) == ("failed", None)


def test_dry_run_with_a_heartbeat_during_the_sweep_is_not_lost(preview, monkeypatch):
    late = claimed_dry_run(preview, silent_for=timedelta(minutes=5))

    def send_heartbeat(_: str) -> bool:
        return bool(Attempt(late.pk, late.attempt).heartbeat())

    monkeypatch.setattr("elevata.jobs.services.is_gone", send_heartbeat)
    assert mark_lost(older_than=timedelta(hours=1)) == []
    late.refresh_from_db()
    assert late.status == "running"


def test_dry_run_after_a_lost_dry_run_is_performed(preview, wakeups, runner):
    claimed_dry_run(preview, silent_for=timedelta(minutes=5))
    sweep()
    again = request_dry_run(preview=preview, user=olga()).dry_run
    assert next_work().pk == again.pk
    done = perform_dry_run(again.pk, worker="w2", runner=runner)
    assert done.status == "succeeded"


def test_executions_are_claimed_before_dry_runs_and_these_before_loads():
    priorities = {kind: priority for priority, kinds in kinds_in(WORK) for kind in kinds}
    assert priorities["execution"] < priorities["dry_run"] < priorities["load"]


def test_running_dry_run_ends_as_canceled_when_its_report_is_executed(preview, make_runner, script, tmp_path):
    script.add(hang_on=["dry_run"])
    dry_run = request_dry_run(preview=preview, user=olga()).dry_run
    runner = make_runner("w1", folder=tmp_path / "its")
    performing = threading.Thread(target=perform_in_thread, args=(dry_run.pk, runner))
    performing.start()
    wait_until(lambda: script.seen("dry_run"))
    request_execution(report=preview.report, user=olga())
    performing.join(20)
    done = DryRun.objects.get(pk=dry_run.pk)
    assert (done.status, done.error["message"], done.result) == ("canceled", "the report is executed", None)


def test_sweeper_wakes_a_worker_for_a_waiting_dry_run(preview, wakeups):
    waiting = request_dry_run(preview=preview, user=olga()).dry_run
    DryRun.objects.update(requested_at=timezone.now() - timedelta(minutes=1))
    assert [job.pk for job in sweep().woken] == [waiting.pk]
    assert wakeups == [waiting.pk]
