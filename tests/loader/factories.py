"""Load runs, reads and workers for tests, in the state in which the loader leaves them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import factory
from django.conf import settings
from django.utils import timezone
from factory.django import DjangoModelFactory

from architecture.models import Environment, Execution, ExecutionOperation
from elevata.jobs.models import Worker
from loader.models import CheckResult, DatasetRun, LoadRun, ReadRequest, RunEvent
from metadata.models import QualityCheck, TargetDataset

STARTED = datetime(2026, 11, 21, 8, 0, tzinfo=UTC)
COUNTS = {
    "rows": 28130,
    "duplicates": 0,
    "new": 2135,
    "changed": 12788,
    "deleted": 2880,
    "reappeared": 0,
    "unchanged": 13207,
    "versions": 43860,
    "open": 28130,
}
REFUSAL = {
    "code": "BAD_VALUE",
    "message": "3 values of elevation do not fit float",
    "hint": "Correct the delivery.",
    "file": "landing/air/airport.csv",
    "row": 1204,
    "column": "elevation",
    "count": 3,
    "samples": ["n/a", "<script>alert(1)</script>"],
}


class EnvironmentFactory(DjangoModelFactory):
    class Meta:
        model = Environment
        django_get_or_create = ("name",)

    name = settings.ENVIRONMENT
    warehouse = settings.WAREHOUSE


class LoadRunFactory(DjangoModelFactory):
    """A run that succeeded, unless declared otherwise."""

    class Meta:
        model = LoadRun

    run_id = factory.Sequence(lambda n: f"run-{n:04d}")
    environment = factory.SubFactory(EnvironmentFactory)
    status = LoadRun.Status.SUCCEEDED
    scope = factory.LazyFunction(lambda: {"kind": "all", "name": "", "target_only": False})
    load_timestamp = STARTED
    started_at = STARTED
    finished_at = factory.LazyAttribute(
        lambda run: STARTED + timedelta(seconds=12) if run.status in LoadRun.FINISHED else None
    )
    attempt = 1


class DatasetRunFactory(DjangoModelFactory):
    """A rawcore dataset's part of a run; needs ``dataset``."""

    class Meta:
        model = DatasetRun

    run = factory.SubFactory(LoadRunFactory)
    dataset_key = factory.LazyAttribute(lambda row: row.dataset.key)
    qualified_name = factory.LazyAttribute(lambda row: str(row.dataset))
    kind = factory.LazyAttribute(lambda row: row.dataset.schema.layer)
    ordinal = factory.Sequence(lambda n: n + 1)
    status = DatasetRun.Status.SUCCEEDED
    counts = factory.LazyFunction(lambda: dict(COUNTS))
    attempt = 1
    seconds = 6.4
    started_at = STARTED
    finished_at = STARTED + timedelta(seconds=7)


class RunEventFactory(DjangoModelFactory):
    class Meta:
        model = RunEvent

    run = factory.SubFactory(LoadRunFactory)
    attempt = 1
    message = "comparing"


class ExecutionFactory(DjangoModelFactory):
    class Meta:
        model = Execution

    environment = factory.SubFactory(EnvironmentFactory)
    status = Execution.Status.SUCCEEDED
    reason = "a test"


class ExecutionOperationFactory(DjangoModelFactory):
    class Meta:
        model = ExecutionOperation

    execution = factory.SubFactory(ExecutionFactory)
    ordinal = factory.Sequence(lambda n: n)
    op = "add_column"
    table_key = factory.Faker("uuid4")
    qualified_name = "rawcore.rc_air_airport"
    column_name = "lid"
    statement = "ALTER TABLE `rawcore`.`rc_air_airport` ADD COLUMNS (`lid` STRING)"
    status = ExecutionOperation.Status.SUCCEEDED


class WorkerFactory(DjangoModelFactory):
    """A live worker."""

    class Meta:
        model = Worker

    name = factory.Sequence(lambda n: f"worker-{n}@host")
    started_at = factory.LazyFunction(timezone.now)
    heartbeat_at = factory.LazyFunction(timezone.now)


class ReadRequestFactory(DjangoModelFactory):
    class Meta:
        model = ReadRequest

    environment = factory.SubFactory(EnvironmentFactory)
    kind = "key_search"


def loaded(*datasets: TargetDataset, **run: object) -> LoadRun:
    """Return a run in which these datasets were loaded, with a log and a structural change."""
    made = LoadRunFactory(**run)
    for dataset in datasets:
        DatasetRunFactory(run=made, dataset=dataset)
        RunEventFactory(run=made, dataset_name=str(dataset))
    execution = ExecutionFactory(reason=f"load run {made.run_id}")
    ExecutionOperationFactory(execution=execution)
    return made


def check_result(check: QualityCheck, outcome: str = "warned", **values: Any) -> CheckResult:
    """Return a stored result of a check, in a run of its own unless one is given."""
    dataset = check.dataset
    return CheckResult.objects.create(
        **{
            "run": values.get("run") or LoadRunFactory(),
            "environment": EnvironmentFactory(),
            "dataset": dataset,
            "dataset_key": dataset.key,
            "dataset_name": str(dataset),
            "check_key": check.key,
            "check_name": check.name,
            "kind": check.kind,
            "severity": check.severity,
            "outcome": outcome,
            "failed": 2,
            "total": 9,
            "samples": ["icao=KJFK"],
            "at": timezone.now(),
            **values,
        }
    )
