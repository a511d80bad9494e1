"""Page of a load run while no worker has claimed it, and while its worker is silent."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from elevata.jobs.states import BROKER_AWAY
from elevata.jobs.submission import note_wake_failed, note_woken
from loader.models import LoadRun
from tests.elevata.web.pages import read, words
from tests.loader.factories import LoadRunFactory, WorkerFactory

pytestmark = pytest.mark.django_db


def waiting_text(client: Client, run: LoadRun) -> str:
    page = read(client, f"/load-runs/{run.run_id}/")
    start = page.index('id="waiting"')
    return words(page[start : page.index("</div></div>", start)])


def test_run_page_reports_that_the_broker_does_not_respond(reader: Client):
    run = LoadRunFactory(status="queued")
    note_wake_failed(job_pk=run.pk, reason="connection refused")
    note_wake_failed(job_pk=run.pk, reason="connection refused")
    note = waiting_text(reader, run)
    assert "the broker does not respond" in note
    assert "Nothing started" in note
    assert run.events.get().message.endswith("(connection refused); nothing started")
    note_woken()
    run.refresh_from_db()
    assert run.phase == ""


def test_failed_wakeup_is_not_recorded_for_a_running_run(reader: Client):
    run = LoadRunFactory(status="running", phase="loading")
    note_wake_failed(job_pk=run.pk, reason="connection refused")
    run.refresh_from_db()
    assert (run.phase, run.events.count()) == ("loading", 0)
    assert run.phase != BROKER_AWAY


def test_run_page_shows_the_waiting_time_and_live_workers_of_a_queued_run(reader: Client):
    WorkerFactory()
    since = timezone.now() - timedelta(minutes=3)
    run = LoadRunFactory(status="queued", queued_at=since)
    assert "1 worker is alive and has not started it yet" in waiting_text(reader, run)
    assert f'data-since="{since.isoformat()}"' in read(reader, f"/load-runs/{run.run_id}/")


def test_run_of_a_lost_worker_can_be_run_again_before_a_sweep(operator: Client):
    run = LoadRunFactory(status="running", heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert "The worker is lost" in waiting_text(operator, run)
    assert 'form="again-form"' in read(operator, f"/load-runs/{run.run_id}/")
    operator.post(f"/load-runs/{run.run_id}/again/")
    run.refresh_from_db()
    assert run.status == "queued"
    assert timezone.now() - run.queued_at < timedelta(minutes=1)
