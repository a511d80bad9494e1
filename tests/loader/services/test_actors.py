"""Actor of jobs: a worker acts as the user who requested the job, only while it performs that job."""

import pytest
from django.contrib.auth.models import User

from architecture.services.dry_runs import request_dry_run
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.reports import build_report
from elevata.accounts.actors import acting_as, current_actor
from elevata.accounts.roles import Role
from elevata.accounts.services.users import create_service_account, deactivate_user, ensure_user, set_roles
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.change_log import record_change
from loader import tasks
from loader.models import LoadRun
from loader.runner.worker import Workplace
from loader.services.loads.load_runs import request_load_run
from metadata.services.lifecycle import rename_column
from tests.loader.airports import column

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]


@pytest.fixture
def workplace(make_runner, monkeypatch):
    """Yield a worker that writes its runner requests to the change log."""
    place = Workplace(make_runner=make_runner)
    ask = place.runner.request

    def request(kind, manifest):
        record_change(action="asked", subject_kind="runner", subject_key=kind, subject_name=kind)
        return ask(kind, manifest)

    monkeypatch.setattr(place.runner, "request", request)
    monkeypatch.setattr(tasks, "_workplace", place)
    yield place
    place.close()


def runner_requests() -> list[tuple[str, str, str]]:
    """Return each request to the runner with its actor."""
    entries = ChangeLogEntry.objects.filter(subject_kind="runner").order_by("pk")
    return list(entries.values_list("subject_key", "actor", "actor_kind"))


def olga():
    return ensure_user(name="olga", roles=[Role.OPERATOR])


@pytest.fixture
def olgas_load(airports, workplace) -> LoadRun:
    """Return a finished load that Olga requested."""
    run = request_load_run(user=olga(), wake_worker=False).run
    tasks.perform(run.pk)
    return LoadRun.objects.get(pk=run.pk)


@pytest.fixture
def preview(olgas_load):
    renamed = column("rawcore.rc_air_airport.name")
    rename_column(column=renamed, name="title", expected_version=renamed.version)
    return make_preview(report=build_report(environment=current_environment()), user=olga())


def test_load_is_performed_as_the_requesting_user(olgas_load):
    assert olgas_load.status == "succeeded"
    assert runner_requests() == [(kind, "olga", "person") for kind in ("observe", "execute", "publish", "load")]
    assert current_actor().kind == "system"


def test_load_without_a_user_is_performed_as_the_system(airports, workplace):
    tasks.perform(request_load_run(wake_worker=False).run.pk)
    assert {(actor, kind) for _, actor, kind in runner_requests()} == {("system", "system")}


def test_queued_load_fails_if_its_user_lost_the_role_or_was_deactivated(airports, workplace):
    run, otto = request_load_run(user=olga(), wake_worker=False).run, ensure_user(name="otto", roles=[Role.OPERATOR])
    set_roles(user=olga(), roles=[Role.VIEWER])
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error["code"], runner_requests()) == ("failed", "NOT_PERMITTED", [])
    request_load_run(run_id=run.run_id, user=otto, wake_worker=False)
    deactivate_user(user=otto)
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error["code"], runner_requests()) == ("failed", "NOT_PERMITTED", [])
    assert "otto, who requested it" in run.error["message"]
    robot = create_service_account(name="robot", owner=ensure_user(name="ada", roles=[]), roles=[Role.OPERATOR])
    request_load_run(run_id=run.run_id, user=robot, wake_worker=False)
    deactivate_user(user=robot.service_account.owner)
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert (run.status, run.error["code"], runner_requests()) == ("failed", "NOT_PERMITTED", [])
    request_load_run(run_id=run.run_id, wake_worker=False)
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert run.status == "succeeded"


def test_load_that_a_worker_has_begun_ends_though_its_user_was_deactivated(airports, workplace, monkeypatch):
    run, ask = request_load_run(user=olga(), wake_worker=False).run, workplace.runner.request

    def request(kind, manifest):
        if kind == "load":
            User.objects.filter(username="olga").update(is_active=False)
        return ask(kind, manifest)

    monkeypatch.setattr(workplace.runner, "request", request)
    tasks.perform(run.pk)
    run.refresh_from_db()
    assert run.status == "succeeded"


@pytest.mark.full
def test_queued_dry_run_fails_if_its_user_was_deactivated(preview):
    before, dry_run = len(runner_requests()), request_dry_run(preview=preview, user=olga()).job
    deactivate_user(user=olga())
    tasks.perform(dry_run.pk)
    dry_run.refresh_from_db()
    assert (dry_run.status, dry_run.error["code"], runner_requests()[before:]) == ("failed", "NOT_PERMITTED", [])


@pytest.mark.full
def test_execution_is_performed_and_recorded_as_the_requesting_user(preview):
    before, otto = len(runner_requests()), ensure_user(name="otto", roles=[Role.OPERATOR])
    execution = request_execution(report=preview.report, user=otto).execution
    tasks.perform(execution.pk)
    execution.refresh_from_db()
    assert (execution.status, execution.record.document["requested_by"]) == ("succeeded", "otto")
    assert runner_requests()[before:] == [(kind, "otto", "person") for kind in ("observe", "execute", "publish")]
    assert current_actor().kind == "system"


@pytest.mark.full
def test_dry_run_is_performed_as_the_requesting_user(preview):
    before, otto = len(runner_requests()), ensure_user(name="otto", roles=[Role.OPERATOR])
    tasks.perform(request_dry_run(preview=preview, user=otto).job.pk)
    assert runner_requests()[before:] == [("dry_run", "otto", "person")]


@pytest.mark.full
def test_execution_of_a_user_with_a_token_remains_attributed_to_the_token(preview):
    before, otto = len(runner_requests()), ensure_user(name="otto", roles=[Role.OPERATOR])
    execution = request_execution(report=preview.report, user=otto).execution
    with acting_as(otto, by_token=True):
        tasks.perform(execution.pk)
    assert {(actor, kind) for _, actor, kind in runner_requests()[before:]} == {("otto", "token")}
