"""Load runs: nightly runs of everything, smaller ones in between, and a running one."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.utils import timezone

from architecture.models import Environment, Lease
from bench.web.size import Size
from elevata.jobs.models import Job, Worker
from loader.domain.dependencies import Scope
from loader.models import DatasetRun, LoadRun, RunEvent, Schedule
from loader.schedules.services import create_schedule
from metadata.domain.state import DatasetState

FAILURE = {"code": "BAD_VALUE", "message": "3 values of amount do not fit decimal(14,2)", "row": 1204}
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
    every, rows = max(1, size.runs // max(1, size.nights)), []
    for number in range(size.runs):
        run = _run(number, size.runs - 1, number % every == 0, environment, person, now)
        first = random.randrange(len(tables))
        rows += _rows(run, tables if run.scope["kind"] == "all" else tables[first : first + 10], random, number)
    DatasetRun.objects.bulk_create(rows, batch_size=_BATCH)
    RunEvent.objects.bulk_create(
        (
            RunEvent(run=run, attempt=1, dataset_name=table.qualified_name, message=f"{table.qualified_name} is loaded")
            for run in LoadRun.objects.order_by("-pk")[:5]
            for table in tables
        ),
        batch_size=_BATCH,
    )
    _under_way(environment, run, tables)
    return run


def _run(number: int, last: int, nightly: bool, environment: Environment, person: Any, now: datetime) -> LoadRun:
    at, busy = now - timedelta(hours=4 * (last + 1 - number)), number == last
    everything = nightly or busy
    failed = not everything and number % _FAILS == 0
    run = LoadRun.objects.create(
        run_id="busy" if busy else f"{'night' if nightly else 'run'}-{number:05d}",
        environment=environment,
        status="running" if busy else "failed" if failed else "succeeded",
        scope=Scope("all" if everything else "schema", "" if everything else "rawcore").as_json(),
        load_timestamp=at,
        requested_by=None if everything else person,
        requester="system" if everything else "",
        attempt=1,
        started_at=at,
        heartbeat_at=timezone.now() if busy else at,
        finished_at=None if busy else at + timedelta(minutes=40),
        phase="loading" if busy else "",
        error={"code": "DATASET_FAILED", "message": "1 dataset failed"} if failed else None,
    )
    Job.objects.filter(pk=run.pk).update(requested_at=at)
    return run


def _rows(run: LoadRun, tables: Sequence[DatasetState], random: Random, number: int) -> Iterable[DatasetRun]:
    by_key = {state.key for state in tables}
    for ordinal, state in enumerate(tables):
        done = run.status != "running" or ordinal < len(tables) // 2
        failed = run.status == "failed" and ordinal == 0
        loaded = done and not failed
        rows = random.randrange(1000, 5_000_000)
        counts = {"rows": rows, "duplicates": 0}
        if state.layer != "raw":
            counts |= {"new": rows // 100, "changed": rows // 20, "deleted": 5, "reappeared": 0}
            counts |= {"unchanged": rows - rows // 20, "versions": rows * 3, "open": rows}
        yield DatasetRun(
            run=run,
            dataset_key=state.key,
            qualified_name=state.qualified_name,
            kind=state.layer,
            ordinal=ordinal,
            depends_on=[key for key in state.inputs if key in by_key],
            sequence=number + 1 if state.layer == "rawcore" and loaded else None,
            attempt=1,
            status="failed" if failed else "succeeded" if done else "queued",
            counts=counts if loaded else {},
            error=FAILURE if failed else None,
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
            scope=Scope("dataset", tables[number % len(tables)].qualified_name).as_json(),
            next_at=first.next_at + timedelta(minutes=number),
        )
        for number in range(1, size.schedules)
    )


def _under_way(environment: Environment, busy: LoadRun, tables: Sequence[DatasetState]) -> None:
    """Give the newest run its leases, and mark a worker as alive."""
    now = timezone.now()
    Lease.objects.bulk_create(
        Lease(
            environment=environment,
            dataset_key=state.key,
            holder_kind=Lease.Holder.LOAD_RUN,
            holder_id=busy.run_id,
            holder_attempt=1,
            fence=number + 1,
            taken_at=now,
            heartbeat_at=now,
        )
        for number, state in enumerate(tables)
    )
    Worker.objects.create(name="worker-1@bench", started_at=now, heartbeat_at=now + timedelta(days=1))
