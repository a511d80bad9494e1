"""Execution log on its page, and messages while no worker takes the execution up."""

import re
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.db.utils import DatabaseError
from django.test import Client
from django.utils import timezone

from architecture.models import Execution, ExecutionEvent, ExecutionOperation, Preview
from architecture.services.executions import cancel_execution, claim_execution, resume_execution
from architecture.services.leases import Holder, release_leases, take_leases
from architecture.services.previews import make_preview
from elevata.core.errors import MetadataError
from elevata.jobs.services import mark_lost
from elevata.jobs.states import BROKER_AWAY
from elevata.jobs.submission import note_wake_failed, note_woken
from tests.architecture.views.test_executions import lose_worker, page_of
from tests.architecture.world import World
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import address, read, rename, section, signed_in, words
from tests.loader.factories import ExecutionFactory, ExecutionOperationFactory, WorkerFactory

pytestmark = pytest.mark.django_db


@pytest.fixture
def previewed(world: World) -> Preview:
    rename(world, "full_name", "display_name")
    return make_preview(report=world.report(), user=world.operator)


@pytest.fixture
def olga(world: World) -> Client:
    return signed_in(world.operator)


def log_text(execution: Execution) -> str:
    return "\n".join(execution.events.values_list("message", flat=True))


# --- log lines -----------------------------------------------------------------------------------


def test_execution_log_has_request_attempt_steps_and_end(world: World, previewed: Preview):
    lines = list(world.executed().events.order_by("pk").values_list("message", flat=True))
    assert lines[0] == "asked for by olga"
    assert lines[1].startswith("attempt 1: taken up by worker ")
    assert "leases taken: rawcore.rc_crm_customer" in lines[1]
    assert [line for line in lines if line.startswith("step 1 of 2, rename_column rawcore.rc_crm_customer")]
    assert lines[-1].startswith("succeeded after ")
    assert lines[-1].endswith("1 lease given back")


def test_execution_log_names_the_lost_worker_and_the_resuming_user(world: World, previewed: Preview):
    execution = world.queued()
    claim_execution(execution_pk=execution.pk, worker="w1")
    Execution.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    mark_lost()
    resume_execution(execution=Execution.objects.get(pk=execution.pk), user=world.operator)
    assert "lost: WORKER_LOST: worker w1 sent its last heartbeat at" in log_text(execution)
    assert "resumed by olga: no step was done before, 2 left" in log_text(execution)


def test_execution_log_names_the_user_who_cancelled(world: World, previewed: Preview):
    execution = world.queued()
    claim_execution(execution_pk=execution.pk, worker="w1")
    cancel_execution(execution=execution, user=world.operator)
    assert "cancel asked for by olga: it stops between two steps" in log_text(execution)


def test_execution_log_names_an_awaited_lease_once(world: World, previewed: Preview):
    execution = world.queued()
    keys = list(execution.operations.values_list("dataset_key", flat=True))
    holder = Holder("load run", "nightly", 1)
    take_leases(environment=world.environment, dataset_keys=keys, holder=holder)
    for _ in range(3):
        assert claim_execution(execution_pk=execution.pk, worker="w1") is None
    assert log_text(execution).count("waits for a lease: load run nightly writes to") == 1
    release_leases(environment=world.environment, holder=holder)
    assert claim_execution(execution_pk=execution.pk, worker="w1") is not None


def test_lines_are_never_changed_or_removed(world: World, previewed: Preview):
    line = world.executed().events.first()
    with pytest.raises(MetadataError):
        line.delete()
    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("UPDATE architecture_executionevent SET message = 'x'")


# --- the page -------------------------------------------------------------------------------------


def test_execution_page_polls_new_log_lines_until_the_execution_ends(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    page = read(olga, page_of(execution))
    poll_url = re.search(r'hx-get="(/executions/\d+/log/\?after=\d+)" hx-trigger="every 2s"', page)[1]
    assert olga.get(poll_url).status_code == 204
    claim_execution(execution_pk=execution.pk, worker="w1")
    part = read(olga, poll_url)
    assert "taken up by worker w1" in part
    assert "asked for by" not in part
    assert "every 2s" in part
    Execution.objects.update(status="failed")
    assert "every 2s" not in read(olga, poll_url)


def test_ended_execution_shows_its_log_without_polling(world: World, olga: Client, previewed: Preview):
    part = section(read(olga, page_of(world.executed())), "log")
    assert "asked for by olga" in part
    assert "data-log-pause" not in part


def test_execution_log_is_downloaded_as_text(world: World, olga: Client, previewed: Preview):
    execution = world.executed()
    answer = olga.get(page_of(execution, "log.txt"))
    assert answer["Content-Type"].startswith("text/plain")
    assert html_of(answer).count("\n") == execution.events.count()


@pytest.mark.parametrize("after", ["x", "", "9" * 40, "-1"])
def test_invalid_log_position_returns_the_whole_log(world: World, olga: Client, previewed: Preview, after: str):
    assert "asked for by olga" in read(olga, page_of(world.executed(), f"log/?after={after}"))


def test_steps_are_paged_and_the_page_of_the_running_step_is_shown(olga: Client):
    execution = ExecutionFactory(status="running")
    for ordinal in range(120):
        done = "succeeded" if ordinal < 60 else "planned"
        ExecutionOperationFactory(execution=execution, ordinal=ordinal, column_name=f"c{ordinal}", status=done)
    page = words(section(read(olga, page_of(execution)), "steps"))
    assert "51–100 of 120" in page
    assert ".c60 running" in page
    chosen = read(olga, page_of(execution, "?page=3"))
    assert "101–120 of 120" in words(section(chosen, "steps"))
    assert "&amp;page=3" in chosen
    assert ".c7 " in words(section(read(olga, page_of(execution, "?step=7")), "steps"))


def test_log_line_links_to_its_step(olga: Client):
    execution = ExecutionFactory(status="failed")
    ExecutionOperation.objects.bulk_create([ExecutionOperationFactory.build(execution=execution, ordinal=3)])
    ExecutionEvent.objects.create(execution=execution, attempt=1, level="error", step=3, message="no <room>")
    part = section(read(olga, page_of(execution)), "log")
    assert 'href="?step=3#step-3"' in part
    assert "<b>error</b> no &lt;room&gt;" in part


# --- no worker ------------------------------------------------------------------------------------


def waiting(olga: Client, execution: Execution) -> str:
    page = read(olga, page_of(execution))
    start = page.index('id="waiting"')
    return words(page[start : page.index("</div></div>", start)])


def test_execution_page_reports_an_unreachable_broker(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    note_wake_failed(job_pk=execution.pk, reason="connection refused")
    note = waiting(olga, execution)
    assert "the broker does not respond" in note
    assert "Nothing started" in note
    assert "starts when the broker is back" in note
    assert "the broker does not respond (connection refused)" in log_text(execution)


def test_execute_without_a_broker_queues_the_execution_with_a_message(
    olga: Client, previewed: Preview, monkeypatch, django_capture_on_commit_callbacks
):
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "connection refused")
    with django_capture_on_commit_callbacks(execute=True):
        olga.post(address(previewed.report, "execute/"), {"preview": previewed.fingerprint})
    execution = Execution.objects.get(report=previewed.report)
    assert (execution.status, execution.phase) == ("queued", BROKER_AWAY)


def test_message_of_an_unreachable_broker_is_cleared_once_it_responds(world: World, previewed: Preview):
    execution = world.queued()
    note_wake_failed(job_pk=execution.pk, reason="connection refused")
    note_woken()
    execution.refresh_from_db()
    assert execution.phase == ""
    assert "the broker responds again" in log_text(execution)


def test_execution_page_reports_since_when_a_queued_execution_waits(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    WorkerFactory()
    assert 'id="waiting"' not in read(olga, page_of(execution))
    since = timezone.now() - timedelta(minutes=2)
    Execution.objects.update(queued_at=since)
    assert f'data-since="{since.isoformat()}"' in read(olga, page_of(execution))
    assert "1 worker is alive and has not started it yet" in waiting(olga, execution)


def test_execution_of_a_silent_worker_can_be_resumed_at_once(world: World, olga: Client, previewed: Preview):
    execution = world.queued()
    claim_execution(execution_pk=execution.pk, worker="w1")
    Execution.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
    assert "The worker is lost" in waiting(olga, execution)
    assert 'form="resume-form"' in read(olga, page_of(execution))
    olga.post(page_of(execution, "resume/"))
    execution.refresh_from_db()
    assert execution.status == "queued"


def test_resume_resets_the_queued_time(world: World, olga: Client, previewed: Preview):
    execution = lose_worker(world)
    Execution.objects.update(queued_at=timezone.now() - timedelta(days=3))
    olga.post(page_of(execution, "resume/"))
    execution.refresh_from_db()
    assert timezone.now() - execution.queued_at < timedelta(minutes=1)
