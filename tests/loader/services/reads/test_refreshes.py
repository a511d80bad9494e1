"""Refreshes: a job of the worker or of a command, which observes tables through the runner."""

import pytest
from django.contrib.auth.models import User

from architecture.models import ChangeReport, Observation, Refresh
from architecture.services import refreshes
from architecture.services.environments import current_environment
from architecture.services.refreshes import CannotRefresh, refresh_now, request_refresh
from elevata.accounts.services.users import ensure_user
from elevata.jobs.models import Job
from elevata.jobs.registry import handler_of
from elevata.jobs.services import mark_lost
from loader.management import waiting
from loader.services.reads.attempts import perform_refresh
from tests.loader.airports import target
from tests.loader.factories import WorkerFactory

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture
def keys(airports) -> list[str]:
    return [str(target("rawcore.rc_air_airport").key)]


@pytest.fixture
def editor(db) -> User:
    return ensure_user(name="edda", roles=["editor"])


def request(keys: list[str], **more) -> Refresh:
    return request_refresh(keys=keys, wake_worker=False, **more).job


def test_refresh_creates_a_report_in_the_name_of_the_user(keys, editor, runner):
    scope = {"kind": "dataset", "name": "rawcore.rc_air_airport", "target_only": True}
    done = perform_refresh(request(keys, purpose="report", scope=scope, user=editor).pk, worker="w", runner=runner)
    assert (done.status, done.found, done.error) == ("succeeded", 0, None)
    assert (done.report, done.report.created_by) == (ChangeReport.objects.get(), editor)


def test_duplicate_wakeup_performs_the_refresh_once(keys, runner, script):
    refresh = request(keys)
    handler_of("refresh").perform(refresh.pk, worker="w", runner=runner)
    assert handler_of("refresh").perform(refresh.pk, worker="w", runner=runner) is None
    assert len(script.seen("observe")) == 1
    assert Observation.objects.get().document is None


def test_lost_worker_creates_no_report(keys, editor, runner, monkeypatch):
    refresh = request(keys, purpose="report", scope={"kind": "all", "name": "", "target_only": False}, user=editor)

    def lost(**_):
        Job.objects.filter(pk=refresh.pk).update(heartbeat_at="2026-01-01T00:00:00Z")
        mark_lost()

    monkeypatch.setattr("loader.services.reads.attempts.store_and_report_drift", lost)
    monkeypatch.setattr("loader.services.reads.attempts.build_previewed_report", lambda **_: None)
    done = perform_refresh(refresh.pk, worker="w", runner=runner)
    assert (done.status, done.error["code"], done.report) == ("failed", "WORKER_LOST", None)


def test_a_command_observes_in_its_own_process_where_no_worker_is_alive(keys, make_runner, monkeypatch, script):
    monkeypatch.setattr(waiting, "Runner", lambda holder: make_runner(holder))
    refresh = refresh_now(environment=current_environment(), keys=keys)
    assert refresh.keys == set(keys)
    assert len(script.seen("observe")) == 1


def test_refresh_is_refused_while_another_process_holds_the_warehouse(keys, make_runner, monkeypatch):
    make_runner("another").start()
    monkeypatch.setattr(waiting, "Runner", lambda holder: make_runner(holder))
    with pytest.raises(CannotRefresh):
        refresh_now(environment=current_environment(), keys=keys, local=True)
    assert Refresh.objects.get().status == "failed"


def test_refresh_by_a_worker_is_refused_without_a_live_worker(keys):
    with pytest.raises(CannotRefresh, match="no worker is running"):
        refreshes.observe(keys=keys, sizes=False, local=False)
    assert Refresh.objects.get().error["code"] == "WITHDRAWN"


def test_error_of_the_worker_is_raised_by_refresh_now(keys, monkeypatch):
    WorkerFactory()
    error = {"code": "UNREADABLE_TABLE", "message": "it is damaged"}
    monkeypatch.setattr(
        "elevata.jobs.submission._send",
        lambda _, pk: Job.objects.filter(pk=pk).update(status="failed", error=error) and "",
    )
    with pytest.raises(CannotRefresh, match="it is damaged"):
        refresh_now(environment=current_environment(), keys=keys)
