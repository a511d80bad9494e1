"""Load runs: nightly runs of everything, smaller ones in between, and a running one."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from random import Random
from typing import Any

from django.utils import timezone

from architecture.models import Environment, Lease
from bench.web.described import stored
from bench.web.size import Size
from elevata.jobs.models import Job, Worker
from loader.models import DatasetRun, LoadRun, RunEvent, Schedule
from loader.schedules.services import create_schedule
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState

FAILURE = {"code": "BAD_VALUE", "message": "3 values of amount do not fit decimal(14,2)", "row": 1204}
# In this many small runs there is one that failed; nights fail more seldom.
_FAILS = 11


def load(
    environment: Environment, states: Sequence[DatasetState], people: Sequence[Any], size: Size, *, now: datetime
) -> LoadRun:
    """Write runs, schedules and worker; return the running load run."""
    random = Random(size.seed + 4)
    tables = [state for state in states if state.active and state.materialization == "table"]
    _schedules(environment, size, tables)
    runs = list(_runs(environment, people, size, random, now))
    for run in runs:
        run.save()
        Job.objects.filter(pk=run.pk).update(requested_at=run.load_timestamp)
    stored(
        row
        for number, run in enumerate(runs)
        for row in _rows(run, tables if run.scope["kind"] == "all" else _some(tables, random), random, number)
    )
    stored(
        RunEvent(run=run, attempt=1, dataset_name=table.qualified_name, message=f"{table.qualified_name} is loaded")
        for run in runs[-5:]
        for table in tables
    )
    busy = runs[-1]
    _under_way(environment, busy, tables)
    return busy


def _runs(
    environment: Environment, people: Sequence[Any], size: Size, random: Random, now: datetime
) -> Iterable[LoadRun]:
    every = max(1, size.runs // max(1, size.nights))
    for number in range(size.runs):
        nightly = number % every == 0 or number == size.runs - 1
        at = now - timedelta(hours=4 * (size.runs - number))
        failed = not nightly and number % _FAILS == 0
        last = number == size.runs - 1
        kind = "all" if nightly else "schema"
        yield LoadRun(
            run_id=f"{'night' if nightly else 'run'}-{number:05d}",
            environment=environment,
            status="running" if last else "failed" if failed else "succeeded",
            scope=Scope(kind, "" if nightly else "rawcore").as_json(),
            load_timestamp=at,
            requested_by=random.choice(people) if not nightly else None,
            requester="" if not nightly else "system",
            attempt=1,
            started_at=at,
            heartbeat_at=timezone.now() if last else at,
            finished_at=None if last else at + timedelta(minutes=40),
            phase="loading" if last else "",
            error={"code": "DATASET_FAILED", "message": "1 dataset failed"} if failed else None,
        )


def _some(tables: Sequence[DatasetState], random: Random) -> list[DatasetState]:
    start = random.randrange(len(tables))
    return list(tables[start : start + 10]) or [tables[0]]


def _rows(run: LoadRun, tables: Sequence[DatasetState], random: Random, number: int) -> Iterable[DatasetRun]:
    busy = run.status == "running"
    by_key = {state.key for state in tables}
    for ordinal, state in enumerate(tables):
        done = not busy or ordinal < len(tables) // 2
        failed = run.status == "failed" and ordinal == 0
        yield DatasetRun(
            run=run,
            dataset_key=state.key,
            qualified_name=state.qualified_name,
            kind=state.layer,
            ordinal=ordinal,
            depends_on=[key for key in state.inputs if key in by_key],
            sequence=number + 1 if state.layer == "rawcore" and done and not failed else None,
            attempt=1,
            status="failed" if failed else "succeeded" if done else "queued",
            counts=_counts(state, random) if done and not failed else {},
            error=FAILURE if failed else None,
            started_at=run.started_at if done else None,
            finished_at=run.started_at + timedelta(seconds=5) if done else None,
            seconds=round(random.uniform(1, 9), 2) if done else None,
        )


def _counts(state: DatasetState, random: Random) -> dict[str, int]:
    rows = random.randrange(1000, 5_000_000)
    if state.layer == "raw":
        return {"rows": rows, "duplicates": 0}
    changed = rows // 20
    return {
        **{"rows": rows, "duplicates": 0, "new": rows // 100, "changed": changed, "deleted": 5, "reappeared": 0},
        **{"unchanged": rows - changed, "versions": rows * 3, "open": rows},
    }


def _schedules(environment: Environment, size: Size, tables: Sequence[DatasetState]) -> None:
    """Write the schedules: one for everything, the others for one dataset each."""
    first = create_schedule(name="schedule 0", cron="0 4 * * *")
    stored(
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
    stored(
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
