"""Load runs: nightly runs of everything, smaller ones in between, and a running one."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.utils import timezone

from architecture.models import Environment
from architecture.services.leases import Holder, take_leases
from bench.web.size import Size
from elevata.jobs.models import Job
from loader.models import DatasetRun, LoadRun, RunEvent, Schedule
from loader.schedules.services import create_schedule
from metadata.domain.state import DatasetState
from tests.loader.factories import COUNTS, REFUSAL, LoadRunFactory, WorkerFactory

# In this many small runs there is one that failed.
_FAILS = 11
_BATCH = 2000


def load(
    environment: Environment, states: Sequence[DatasetState], person: Any, size: Size, *, now: datetime
) -> LoadRun:
    """Write runs, schedules and worker; return the running load run."""
    random = Random(size.seed + 4)
    tables = [state for state in states if state.active and state.materialization == "table"]
    _schedules(environment, size, tables)
    every, rows, last = max(1, size.runs // max(1, size.nights)), [], size.runs - 1
    for number in range(size.runs):
        nightly, busy, at = number % every == 0, number == last, now - timedelta(hours=4 * (size.runs - number))
        everything = nightly or busy
        failed = not everything and number % _FAILS == 0
        run = LoadRunFactory(
            run_id="busy" if busy else f"{'night' if nightly else 'run'}-{number:05d}",
            environment=environment,
            status="running" if busy else "failed" if failed else "succeeded",
            scope=_scope("all") if everything else _scope("schema", "rawcore"),
            load_timestamp=at,
            requested_by=None if everything else person,
            requester="system" if everything else "",
            started_at=at,
            heartbeat_at=timezone.now() if busy else at,
            finished_at=None if busy else at + timedelta(minutes=40),
            phase="loading" if busy else "",
            error={"code": "DATASET_FAILED", "message": "1 dataset failed"} if failed else None,
        )
        Job.objects.filter(pk=run.pk).update(requested_at=at)
        first = random.randrange(len(tables))
        rows += _rows(run, tables if everything else tables[first : first + 10], random, number + 1)
    DatasetRun.objects.bulk_create(rows, batch_size=_BATCH)
    events = [
        RunEvent(run=each, attempt=1, dataset_name=table.qualified_name, message=f"{table.qualified_name} is loaded")
        for each in LoadRun.objects.order_by("-pk")[:5]
        for table in tables
    ]
    RunEvent.objects.bulk_create(events, batch_size=_BATCH)
    keys = [state.key for state in tables]
    take_leases(environment=environment, dataset_keys=keys, holder=Holder("load run", run.run_id, 1))
    WorkerFactory(heartbeat_at=timezone.now() + timedelta(days=1))
    return run


def _scope(kind: str, name: str = "") -> dict[str, Any]:
    return {"kind": kind, "name": name, "target_only": False}


def _rows(run: LoadRun, tables: Sequence[DatasetState], random: Random, sequence: int) -> Iterable[DatasetRun]:
    by_key = {state.key for state in tables}
    for ordinal, state in enumerate(tables):
        done = run.status != "running" or ordinal < len(tables) // 2
        failed = run.status == "failed" and ordinal == 0
        loaded = done and not failed
        yield DatasetRun(
            run=run,
            dataset_key=state.key,
            qualified_name=state.qualified_name,
            kind=state.layer,
            ordinal=ordinal,
            depends_on=[key for key in state.inputs if key in by_key],
            sequence=sequence if state.layer == "rawcore" and loaded else None,
            attempt=1,
            status="failed" if failed else "succeeded" if done else "queued",
            counts=COUNTS | {"rows": random.randrange(1000, 5_000_000)} if loaded else {},
            error=REFUSAL if failed else None,
            started_at=run.started_at if done else None,
            finished_at=run.started_at + timedelta(seconds=5) if done else None,
            seconds=round(random.uniform(1, 9), 2) if done else None,
        )


def _schedules(environment: Environment, size: Size, tables: Sequence[DatasetState]) -> None:
    """Write the schedules: one for everything, the others for one dataset each."""
    first = create_schedule(name="schedule 0", cron="0 4 * * *")
    Schedule.objects.bulk_create(
        Schedule(
            environment=environment,
            name=f"schedule {number}",
            cron=f"{number % 60} 4 * * *",
            scope=_scope("dataset", tables[number % len(tables)].qualified_name),
            next_at=first.next_at + timedelta(minutes=number),
        )
        for number in range(1, size.schedules)
    )
