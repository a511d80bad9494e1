"""Load runs: request, claim, cancellation, sweep."""

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from socket import gethostname

import pytest
from django.contrib.auth.models import User
from django.db import OperationalError
from django.urls import reverse
from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.selectors.dataset_states import described_states
from architecture.services.environments import current_environment
from elevata.accounts.services.users import ensure_user
from elevata.core.database import retried
from elevata.core.processes import process_name
from elevata.jobs.models import Worker
from elevata.jobs.services import Fenced, mark_lost
from loader.contract.refusals import Refusal
from loader.domain.dependencies import LoadStep
from loader.models import LoadRun, ReadRequest, RunEvent
from loader.runner.sweep import sweep
from loader.services.loads import load_runs
from loader.services.loads.attempts import LoadAttempt, attempt_of, claim
from loader.services.loads.load_runs import (
    must_still_start,
    new_run_id,
    request_cancel,
    request_load_run,
)
from loader.services.loads.plans import LoadPlan, plan_load
from loader.services.reads.read_requests import request_read
from metadata.domain.scope import DATASET, SCHEMA, Scope
from metadata.models import SourceDataset

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture
def wakeups(monkeypatch):
    """Return the wake-ups that were sent; ``sent.reason`` makes the broker refuse them with this reason."""

    class Sent(list):
        reason = ""

    messages = Sent()

    def wake(job_pk):
        messages.append(job_pk)
        return messages.reason

    monkeypatch.setattr("elevata.jobs.submission.wake", wake)
    monkeypatch.setattr("elevata.jobs.sweep.wake", wake)
    return messages


AT = datetime(2024, 5, 1, tzinfo=UTC)


def test_run_id_begins_with_its_time():
    assert new_run_id(at=datetime(2026, 11, 21, 8, 15, tzinfo=UTC)).startswith("20261121T081500Z-")


def test_load_request_queues_a_run_and_wakes_a_worker(airports, wakeups, django_user_model):
    user = ensure_user(name="ann", roles=["operator"])
    request = request_load_run(load_timestamp=datetime(2024, 5, 1), user=user)
    assert (request.requested, request.wakeup_sent, request.notice) == (True, True, "")
    assert (request.run.status, request.run.load_timestamp, request.run.requested_by) == ("queued", AT, user)
    assert request.run.scope == {"kind": "all", "name": "", "target_only": False}
    assert wakeups == [request.run.pk]


def test_new_run_dated_more_than_a_day_ahead_is_refused(airports, wakeups):
    now = timezone.now()
    for at in (datetime(2999, 1, 1), now + timedelta(days=1, minutes=5)):
        with pytest.raises(Refusal) as caught:
            request_load_run(load_timestamp=at)
        assert (caught.value.code, LoadRun.objects.count(), wakeups) == ("LOAD_TIMESTAMP_AHEAD", 0, [])
    assert request_load_run(load_timestamp=now + timedelta(hours=23)).requested


def test_load_form_and_api_refuse_a_timestamp_in_the_far_future(airports, wakeups, client):
    client.force_login(ensure_user(name="ann", roles=["operator"]))
    page = client.post(reverse("run_start"), {"scope": "all", "load_timestamp": "2999-01-01T00:00:00"})
    assert "more than a day in the future" in page.content.decode()
    body = {"load_timestamp": "2999-01-01T00:00:00Z"}
    answer = client.post("/api/v1/load-runs/", body, content_type="application/json")
    assert (answer.status_code, answer.json()["code"], LoadRun.objects.count()) == (422, "LOAD_TIMESTAMP_AHEAD", 0)


def test_run_is_queued_while_the_broker_is_unreachable(airports, wakeups):
    wakeups.reason = "connection refused"
    request = request_load_run()
    assert LoadRun.objects.get().status == "queued"
    assert request.wakeup_sent is False
    assert request.notice == ("queued; the broker does not answer: connection refused; the scheduler sends it again")


@pytest.mark.parametrize("scope", [Scope(SCHEMA, "nope"), Scope(DATASET, "rawcore.nope")])
def test_unknown_scope_is_refused_without_a_run(airports, wakeups, scope):
    with pytest.raises(Refusal):
        request_load_run(scope=scope)
    assert (LoadRun.objects.count(), wakeups) == (0, [])


@pytest.mark.parametrize("run_id", ["", "-x", "a b", "x" * 101, "../x"])
def test_invalid_run_id_is_refused(airports, run_id):
    with pytest.raises(Refusal) as refused:
        request_load_run(run_id=run_id)
    assert refused.value.code == "BAD_RUN_ID"


@pytest.mark.parametrize("status", ["succeeded", "queued", "running", "canceling"])
def test_request_with_the_id_of_a_succeeded_or_active_run_returns_it_unchanged(airports, wakeups, status):
    run = request_load_run(run_id="r").run
    LoadRun.objects.update(status=status, heartbeat_at=timezone.now())
    request = request_load_run(run_id="r")
    assert (request.run.pk, request.run.status, request.requested) == (run.pk, status, False)
    assert len(wakeups) == 1


@pytest.mark.parametrize("status", ["failed", "blocked", "canceled", "lost"])
def test_request_with_the_id_of_an_unsuccessful_run_queues_it_again(airports, wakeups, status):
    request_load_run(run_id="r", load_timestamp=AT)
    LoadRun.objects.update(status=status, error={"code": "X", "message": "x"}, finished_at=timezone.now())
    request = request_load_run(run_id="r", allow_empty=True, allow_deletes=True)
    assert (request.requested, request.run.status, request.run.error, request.run.finished_at) == (
        True,
        "queued",
        None,
        None,
    )
    assert (request.run.load_timestamp, request.run.allow_empty, request.run.allow_deletes) == (AT, True, True)
    assert len(wakeups) == 2


def test_request_with_the_id_of_a_silent_run_queues_it_again(airports, wakeups):
    run = request_load_run(run_id="r").run
    claim(run_pk=run.pk, worker="w")
    LoadRun.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    request = request_load_run(run_id="r")
    assert (request.requested, request.run.status, request.run.attempt) == (True, "queued", 1)


def test_a_repetition_by_a_user_who_was_renamed_meanwhile_is_refused(airports, wakeups):
    run, otto = request_load_run(run_id="r").run, ensure_user(name="otto", roles=["operator"])
    LoadRun.objects.update(status="failed")
    run = request_load_run(run_id="r", user=otto).run
    must_still_start(run)
    User.objects.filter(pk=otto.pk).update(username="otto2")
    with pytest.raises(Refused, match="otto, who requested it again, is no user any more"):
        must_still_start(run)
    LoadRun.objects.update(status="failed")
    must_still_start(request_load_run(run_id="r").run)


def test_run_id_of_a_different_request_is_refused(airports, wakeups):
    request_load_run(run_id="r", load_timestamp=AT, scope=Scope(DATASET, "rawcore.rc_air_airport"))
    for different in ({"scope": Scope()}, {"load_timestamp": AT + timedelta(hours=1)}):
        with pytest.raises(Refusal) as refused:
            request_load_run(run_id="r", **different)
        assert refused.value.code == "RUN_ID_TAKEN"
    assert request_load_run(run_id="r", load_timestamp=AT).run.run_id == "r"


def test_concurrent_requests_with_one_run_id_create_one_run(airports, wakeups, in_threads):
    requests = in_threads(*[lambda: request_load_run(run_id="r")] * 4)
    assert LoadRun.objects.count() == 1
    assert sum(request.requested for request in requests) == 1


def test_run_is_claimed_by_only_one_of_several_workers(airports, in_threads):
    run = request_load_run(wake_worker=False).run
    claimed = in_threads(*(lambda name=name: claim(run_pk=run.pk, worker=name) for name in "abcd"))
    (winner,) = [claimed_run for claimed_run in claimed if claimed_run is not None]
    run.refresh_from_db()
    assert (run.status, run.attempt, run.claimed_by) == ("running", 1, winner.claimed_by)


def test_cancel_ends_a_queued_run_and_marks_a_running_run_as_cancelling(airports):
    first, second = (request_load_run(wake_worker=False).run for _ in range(2))
    claim(run_pk=second.pk, worker="w")
    assert request_cancel(run=first).status == "canceled"
    assert request_cancel(run=second).status == "canceling"
    assert claim(run_pk=first.pk, worker="w") is None
    assert request_cancel(run=first).status == "canceled"


def test_sweeper_ends_silent_runs_with_their_datasets_and_ignores_others(airports, wakeups):
    silent, alive = (request_load_run(wake_worker=False).run for _ in range(2))
    for run in (silent, alive):
        attempt = attempt_of(claim(run_pk=run.pk, worker="w"))
        rows = list(attempt.prepare(steps=load_runs.plan_load(Scope()).steps))
        attempt.dataset(rows[0], "succeeded")
        attempt.dataset(rows[1], "running")
    LoadRun.objects.filter(pk=silent.pk).update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert [job.pk for job in sweep().lost] == [silent.pk]
    silent.refresh_from_db()
    alive.refresh_from_db()
    assert (silent.status, silent.error["code"], alive.status) == ("lost", "WORKER_LOST", "running")
    assert sorted(silent.datasets.values_list("status", flat=True)) == [
        "canceled",
        "canceled",
        "failed",
        "succeeded",
    ]
    assert sorted(alive.datasets.values_list("status", flat=True)) == ["queued", "queued", "running", "succeeded"]


def test_sweeper_marks_no_run_as_lost_after_a_database_outage(airports, wakeups):
    run = request_load_run(wake_worker=False).run
    claim(run_pk=run.pk, worker="w")
    LoadRun.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))

    def raise_connection_error() -> None:
        raise OperationalError("away")

    with pytest.raises(OperationalError):
        retried(raise_connection_error, patience=0)
    assert sweep().lost == ()


def test_run_of_a_dead_local_worker_process_is_lost_at_once(airports):
    gone = subprocess.Popen(["true"])
    gone.wait()
    names = [f"{gethostname()}:{gone.pid}", f"elsewhere:{gone.pid}", process_name(), "w"]
    jobs = {name: claim(run_pk=request_load_run(wake_worker=False).run.pk, worker=name) for name in names}
    assert [job.pk for job in mark_lost()] == [jobs[names[0]].pk]


def test_cancelling_run_of_a_silent_worker_is_marked_lost(airports):
    run = request_load_run(wake_worker=False).run
    claim(run_pk=run.pk, worker="w")
    request_cancel(run=run)
    LoadRun.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    assert [job.pk for job in mark_lost()] == [run.pk]


def test_sweeper_resends_wakeups_of_waiting_jobs_unless_the_broker_is_unreachable(airports, wakeups):
    old, young = (request_load_run(wake_worker=False).run for _ in range(2))
    read = request_read(kind="discover", source=airports["airport"], wake_worker=False).read
    long_ago = timezone.now() - timedelta(minutes=1)
    LoadRun.objects.filter(pk=old.pk).update(requested_at=long_ago)
    ReadRequest.objects.update(requested_at=long_ago)
    swept = sweep()
    assert wakeups == [old.pk, read.pk]
    assert [job.pk for job in swept.woken] == wakeups
    wakeups.reason = "away"
    assert (sweep().woken, young.status) == ((), "queued")


def test_sweeper_wakes_a_run_whose_request_time_lies_in_the_future(airports, wakeups):
    run = request_load_run(wake_worker=False).run
    LoadRun.objects.filter(pk=run.pk).update(requested_at=timezone.now() + timedelta(hours=1))
    assert [job.pk for job in sweep().woken] == [run.pk]


def test_run_with_an_end_before_its_start_lasts_zero_seconds(airports):
    now = timezone.now()
    assert LoadRun(started_at=now, finished_at=now - timedelta(hours=1)).seconds == 0


def test_sweeper_deletes_old_reads_and_workers_and_fails_unanswered_reads(airports, wakeups):
    now = timezone.now()
    ages = {"fresh": timedelta(0), "unanswered": timedelta(minutes=10), "old": timedelta(days=2)}
    reads = {}
    for name, age in ages.items():
        reads[name] = request_read(kind="discover", source=airports["airport"], wake_worker=False).read
        ReadRequest.objects.filter(pk=reads[name].pk).update(requested_at=now - age)
        Worker.objects.create(name=name, started_at=now, heartbeat_at=now - age)
    sweep()
    assert dict(ReadRequest.objects.values_list("pk", "status")) == {
        reads["fresh"].pk: "queued",
        reads["unanswered"].pk: "failed",
    }
    assert set(Worker.objects.values_list("name", flat=True)) == {"fresh", "unanswered"}


def test_log_line_of_an_old_attempt_is_rejected(airports):
    run = request_load_run(wake_worker=False).run
    claim(run_pk=run.pk, worker="w")
    with pytest.raises(Fenced):
        LoadAttempt(run.pk, 99).say("hello")
    assert not RunEvent.objects.exists()


def test_unreachable_broker_is_reported_in_one_line_without_its_password(airports, settings, monkeypatch):
    from celery import current_app

    url = "redis://:secret@127.0.0.1:1/0"
    monkeypatch.setattr(current_app._get_current_object(), "connection_for_write", lambda: current_app.connection(url))
    settings.CELERY_BROKER_URL = url
    request = request_load_run()
    assert request.wakeup_sent is False
    assert "\n" not in request.notice
    assert "secret" not in request.notice
    assert LoadRun.objects.get().status == "queued"


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"full": True}, "NO_WATERMARK"),
        ({"since": "5"}, "NO_WATERMARK"),
        ({"full": True, "since": "5"}, "FULL_OR_SINCE"),
    ],
)
def test_full_or_since_load_requires_a_source_with_a_watermark(airports, wakeups, given, code):
    with pytest.raises(Refusal) as refused:
        request_load_run(**given)
    assert (refused.value.code, LoadRun.objects.count()) == (code, 0)


def test_since_load_of_models_only_is_refused_but_a_full_load_is_accepted(airports):
    model = replace(described_states(environment=current_environment())[0], select="SELECT 1 AS one")
    plan = LoadPlan({model.key: model}, (LoadStep(model, ()),))
    load_runs._check_plan(plan, full=True, since="")
    with pytest.raises(Refusal, match="no source of this load has a watermark"):
        load_runs._check_plan(plan, full=False, since="5")


def test_full_or_since_choice_is_stored_and_replaced_by_a_newer_one(airports, wakeups):
    SourceDataset.objects.filter(name="airport").update(intake={"watermark": ["icao"]})
    run = request_load_run(run_id="r", since=" 2024-01-01 ").run
    assert (run.full, run.since) == (False, "2024-01-01")
    LoadRun.objects.update(status="failed")
    again = request_load_run(run_id="r", full=True).run
    assert (again.full, again.since) == (True, "")
    assert again.events.last().message.startswith("sources with a watermark are read whole")
    LoadRun.objects.update(status="failed")
    assert request_load_run(run_id="r").run.full


@pytest.mark.parametrize("given", [{"full": True}, {"since": "6"}])
def test_repeated_run_cannot_change_its_start_after_all_sources_were_read(airports, wakeups, given):
    SourceDataset.objects.filter(name__in=["airport", "route"]).update(intake={"watermark": ["icao"]})
    run = request_load_run(run_id="r", since="5", wake_worker=False).run
    claimed = claim(run_pk=run.pk, worker="w")
    attempt_of(claimed).prepare(steps=plan_load(Scope.from_json(claimed.scope)).steps)
    raw = run.datasets.filter(kind="raw")
    raw.filter(qualified_name="raw.raw_air_airport").update(status="succeeded")
    LoadRun.objects.update(status="failed")
    assert request_load_run(run_id="r", **given).requested
    raw.update(status="succeeded")
    LoadRun.objects.update(status="failed")
    assert request_load_run(run_id="r", **given).requested
    LoadRun.objects.update(status="failed")
    with pytest.raises(Refusal) as refused:
        request_load_run(run_id="r", since="7")
    assert (refused.value.code, LoadRun.objects.get().status) == ("READ_ALREADY", "failed")
