"""Every registered kind of job, submitted by its service and performed by a worker."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from architecture.services.dry_runs import request_dry_run
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import make_preview
from architecture.services.refreshes import request_refresh
from architecture.services.reports import build_report
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.core.registry import Registered
from elevata.jobs import registry
from elevata.jobs.models import Job
from elevata.jobs.registry import Handler
from elevata.notifications.deliveries import Outcome
from elevata.notifications.models import Delivery
from elevata.ops.checks import job_kinds_are_unique
from loader import tasks
from loader.models import LoadRun
from loader.runner.worker import Workplace
from loader.services.copies.requests import request_copy
from loader.services.loads.load_runs import request_load_run
from loader.services.loads.load_work import perform_load_run
from loader.services.maintenance.acceptances import request_accept
from loader.services.maintenance.compactions import request_compaction
from loader.services.maintenance.history_batches import request_history_batch
from loader.services.maintenance.prunes import request_prune
from loader.services.maintenance.quarantine import request_quarantine
from loader.services.maintenance.reverts import request_revert
from loader.services.maintenance.vacuums import request_vacuum
from loader.services.reads import read_requests
from loader.services.reads.read_requests import request_query, request_read, request_trial
from loader.services.sources.check_requests import request_checks
from metadata.domain.scope import Scope
from metadata.models import SourceDataset, TargetDataset
from metadata.services.copies import create_copy
from metadata.services.lifecycle import rename_column
from metadata.services.sources import create_system
from tests.factories import DeliveryFactory
from tests.loader.airports import column, target

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.embedded]

AIRPORT, RAW = "rawcore.rc_air_airport", "raw.raw_air_airport"
SELECT = "SELECT icao FROM rawcore.rc_air_airport"
ARGUMENTS = {
    "key_search": {"text": "ED"},
    "versions": {"entity_key": "0" * 64},
    "as_of": {"at": "2026-11-21T00:00:00+00:00"},
    "changes": {"run_id": "first"},
    "origin": {"entity_key": "0" * 64},
    "descendants": {"run_id": "first", "source_row": 1, "source_file": "a.csv"},
    "compare": {"by": "dates", "base": "2026-11-21T00:00:00+00:00", "other": "2026-11-22T00:00:00+00:00"},
    "publish": {"check": True},
}
ANSWER = {"table_version": 1, "columns": [], "rows": [], "results": [], "profile": {}, "truncated": False}


@pytest.fixture
def olga(airports):
    user = ensure_user(name="olga", roles=[Role.OPERATOR, Role.EDITOR])
    with acting_as(user):
        yield user


@pytest.fixture
def workplace(olga, make_runner, monkeypatch):
    place = Workplace(make_runner=make_runner)
    monkeypatch.setattr(tasks, "_workplace", place)
    monkeypatch.setattr("elevata.jobs.submission.wake", lambda _: "")
    monkeypatch.setattr("elevata.notifications.deliveries.send", lambda _: Outcome(204, 1))
    yield place
    place.close()


def perform(job: Job) -> Job:
    """Return a job after a worker got its message."""
    tasks.perform(job.pk)
    return Job.objects.get(pk=job.pk)


def load(run_id: str) -> LoadRun:
    return request_load_run(run_id=run_id, wake_worker=False).run


def loads_and_maintenance(script) -> list[Job]:
    key = str(target(AIRPORT).key)
    system = create_system(name="BI", short_name="bi", kind="jdbc", location="postgresql://bi@db:5432/bi")
    create_copy(dataset=target(AIRPORT), to=system)
    jobs = [
        perform(load("first")),
        perform(load("second")),
        perform(request_revert(of_run="second", dataset=AIRPORT, reason="test").run),
        perform(request_prune(dataset=AIRPORT, ended_before="2020-01-01", reason="test").run),
        perform(request_compaction(dataset_key=key, wake_worker=False).run),
        perform(request_vacuum(dataset=AIRPORT, reason="test").run),
        perform(request_copy(dataset=AIRPORT, wake_worker=False).run),
        perform(request_quarantine(dataset=AIRPORT, decision="release", reason="test").run),
    ]
    by_files = {"input": "batch_files", "time": "_fivetran_start", "null_string": "NULL"}
    TargetDataset.objects.filter(key=key).update(history_policy=by_files)
    jobs.append(perform(request_history_batch(dataset=AIRPORT, files={"upsert": ["/in/u.csv"]}, reason="test").run))
    TargetDataset.objects.filter(key=key).update(history_policy={})
    with_answers = script.told()
    script.add(held=7)
    jobs.append(perform(request_accept(dataset=AIRPORT, reason="test").run))
    script.tell(**with_answers)
    return jobs


def reads(user) -> list[Job]:
    texts = {
        read_requests.SQL: lambda: request_query(SELECT, 5, user=user),
        read_requests.TRY_MODEL: lambda: request_trial(SELECT, user=user),
    }
    source, jobs = SourceDataset.objects.get(name="airport"), []
    for kind in read_requests.KINDS:
        dataset = target(RAW if kind == "descendants" else AIRPORT)
        arguments = {"dataset": dataset, "source": source if kind == "discover" else None, "user": user}
        request = texts.get(kind, lambda k=kind, a=arguments: request_read(kind=k, arguments=ARGUMENTS.get(k), **a))()
        jobs.append(perform(request.read))
    return jobs


def changes(user) -> list[Job]:
    renamed = column(f"{AIRPORT}.name")
    rename_column(column=renamed, name="title", expected_version=renamed.version)
    preview = make_preview(report=build_report(environment=current_environment()), user=user)
    return [
        perform(request_dry_run(preview=preview, user=user).dry_run),
        perform(request_execution(report=preview.report, user=user).execution),
        perform(request_refresh(keys=[str(target(AIRPORT).key)], user=user).job),
    ]


@pytest.mark.full
def test_a_worker_performs_every_registered_kind_of_job(workplace, olga, script):
    script.tell(answers=dict.fromkeys((*read_requests.KINDS, AIRPORT), ANSWER))
    deliveries = [DeliveryFactory(kind=kind) for kind in Delivery.Kind.values]
    jobs = [*loads_and_maintenance(script), *reads(olga), *changes(olga), *map(perform, deliveries)]
    jobs += map(perform, request_checks(scope=Scope(), requester="schedule nightly")[:1])
    assert {job.kind for job in jobs} == set(registry.handlers())
    assert {job.kind: (job.status, job.error) for job in jobs if job.attempt != 1 or not job.is_finished} == {}
    codes = {job.kind: job.error for job in jobs if (job.error or {}).get("code") == "UNEXPECTED"}
    assert codes == {}


def test_runs_and_reads_share_no_kind():
    assert not set(LoadRun.Kind.values) & set(read_requests.KINDS)


def test_a_kind_that_is_registered_twice_is_reported_at_the_start(monkeypatch):
    handlers: Registered[Handler] = Registered()
    handlers.add(Handler(("load",), perform_load_run), Handler(("load", "prune"), perform_load_run))
    monkeypatch.setattr(registry, "HANDLERS", handlers)
    registry.handlers.cache_clear()
    try:
        with pytest.raises(ImproperlyConfigured, match="the job kind 'load' is registered twice"):
            registry.handlers()
        (message,) = job_kinds_are_unique()
        assert message.id == "elevata.E004"
    finally:
        monkeypatch.undo()
        registry.handlers.cache_clear()
    assert job_kinds_are_unique() == []
