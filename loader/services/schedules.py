"""Schedules of load runs, and the periodic sweep.

``start_due`` is called repeatedly, by any number of processes. A due time belongs to the one that
moves the schedule's ``next_at`` on by compare-and-set, and its run is requested in the same transaction,
under an id that follows from schedule and due time. Due times that no process handled result in one run.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from architecture.services.states import current_environment
from elevata.api.services import delete_old_responses
from elevata.audit.services import chain
from elevata.audit.services.change_log import assign, check_fields, claim, record_change, writing
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.services import RESENT_AFTER, Swept, mark_lost, sweep_jobs
from elevata.notifications.services import forget_old_events
from loader.cron import Timetable, read
from loader.domain.dependencies import Scope, is_loaded
from loader.domain.refusals import Refusal
from loader.domain.vacuum import refuse_short
from loader.models import LoadRun, Schedule
from loader.services.load_runs import Asked, RequestedRun, request_run
from loader.services.maintenance_runs import request_vacuum
from loader.services.manifests import plan_load
from loader.services.reads.read_requests import end_old_reads
from loader.services.uploads import sweep_uploads
from metadata.domain.state import DatasetState
from metadata.services.row_changes import remove, store

log = logging.getLogger(__name__)

SUBJECT = "schedule"
FIELDS = ("name", "active", "cron", "time_zone", "kind", "scope", "allow_empty", "retention_hours")
# Fields of the scope's refusals.
_FIELDS = {"UNKNOWN_SCHEMA": "schema", "UNKNOWN_DATASET": "dataset", "RETIRED": "dataset", "BY_BATCH_FILES": "dataset"}


# --- by users ----------------------------------------------------------------------------------


def create_schedule(*, name: str, cron: str, **described: Any) -> Schedule:
    """Create a schedule in this installation's environment.

    Optional are ``time_zone`` (UTC), ``scope`` (everything), ``active`` (true) and ``allow_empty`` (false). Raise
    MetadataError at an invalid field.
    """
    with writing():
        schedule = Schedule(environment=current_environment(), scope=Scope().as_json())
        assign(schedule, _plain({"name": name, "cron": cron, **described}), FIELDS)
        _check(schedule)
        _set_next(schedule)
        store(schedule)
        _log("created", schedule, after=told(schedule))
        return schedule


def update_schedule(*, schedule: Schedule, expected_version: int, **changes: Any) -> Schedule:
    """Change fields of a schedule. Raise StaleVersion if it was changed meanwhile.

    With other times, or active again, due times count from now on. Otherwise the next one stays.
    """
    with writing():
        row = claim(schedule, expected_version)
        before = told(row)
        if not assign(row, _plain(changes), FIELDS):
            return row
        _check(row)
        after = told(row)
        if any(before[name] != after[name] for name in ("active", "cron", "time_zone")):
            _set_next(row)
        store(row)
        _log("renamed" if before["name"] != after["name"] else "changed", row, before=before, after=after)
        return row


def delete_schedule(*, schedule: Schedule, expected_version: int) -> None:
    """Remove a schedule; the runs it started stay."""
    with writing():
        row = claim(schedule, expected_version)
        # Runs are many, and they are no metadata: detached in one statement.
        LoadRun.objects.filter(schedule=row).update(schedule=None)
        _log("deleted", row, before=told(row))
        remove([row])


def run_now(*, schedule: Schedule, user: Any, reason: str = "") -> RequestedRun:
    """Start the schedule's load at any time, active or not. Due times are unchanged.

    ``reason`` is stored with the run. Raises Refusal STILL_GOING while the previous run is active, and Refusal if
    its scope is empty by now.
    """
    with transaction.atomic():
        row = Schedule.objects.select_for_update().get(pk=schedule.pk)
        going = _still_going(row)
        if going is not None:
            raise Refusal("STILL_GOING", f"load run {going} of this schedule is still {going.status}")
        (asked, *_), _refused = _start(row, user=user, reason=reason)
        return asked


def told(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as the change log records it."""
    return {
        "name": schedule.name,
        "environment": schedule.environment.name,
        "active": schedule.active,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "kind": str(schedule.kind),
        "scope": str(Scope.from_json(schedule.scope)),
        "allow_empty": schedule.allow_empty,
        "retention_hours": schedule.retention_hours,
    }


def timetable_of(schedule: Schedule) -> Timetable:
    """Return the schedule's timetable. Raise MetadataError if the time zone is not known here any more."""
    return read(schedule.cron, schedule.time_zone)


def _plain(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as a row holds them: the scope as JSON, texts without needless white space."""
    values = {name: " ".join(value.split()) if isinstance(value, str) else value for name, value in described.items()}
    return values | ({"scope": values["scope"].as_json()} if isinstance(values.get("scope"), Scope) else {})


def _check(schedule: Schedule) -> None:
    if not schedule.name:
        raise MetadataError("invalid", "needs a name", "name")
    same = Schedule.objects.filter(environment=schedule.environment, name=schedule.name)
    if same.exclude(pk=schedule.pk).exists():
        raise MetadataError("name_taken", f"there is a schedule {schedule.name} already", "name")
    for name in ("name", "cron", "time_zone"):
        longest = Schedule._meta.get_field(name).max_length
        if len(getattr(schedule, name)) > longest:
            raise MetadataError("invalid", f"is longer than {longest} characters", name)
    try:
        refuse_short(schedule.retention_hours, (), now=timezone.now())
    except Refusal as refusal:
        raise MetadataError(refusal.code.lower(), refusal.message, "retention_hours") from refusal
    try:
        plan_load(Scope.from_json(schedule.scope))
    except Refusal as refusal:
        message = "; ".join(part for part in (refusal.message, refusal.hint) if part)
        raise MetadataError(refusal.code.lower(), message, _FIELDS.get(refusal.code, "scope")) from refusal


def _set_next(schedule: Schedule) -> None:
    timetable = timetable_of(schedule)
    schedule.next_at = timetable.next_after(timezone.now()) if schedule.active else None
    check_fields(schedule, schedule.name)


def _log(action: str, schedule: Schedule, **sides: dict[str, Any]) -> None:
    record_change(
        action=action,
        subject_kind=SUBJECT,
        subject_key=str(schedule.key),
        subject_name=f"{schedule.name} in {schedule.environment}",
        **sides,
    )


# --- by due time -------------------------------------------------------------------------------


def start_due(*, now: datetime | None = None) -> list[LoadRun]:
    """Start the runs that are due in this installation's environment; return those that were started here.

    The run itself checks whether there is still something to load. A schedule that fails does not delay the others.
    """
    now = now or timezone.now()
    due = Schedule.objects.filter(environment=current_environment(), active=True, next_at__lte=now)
    started = []
    for pk, at in due.order_by("next_at", "pk").values_list("pk", "next_at"):
        try:
            started += retried(partial(_start_due, pk, at, now))
        except Exception:
            log.exception("schedule %s, due at %s, was not started; it is tried again", pk, at)
    return started


@transaction.atomic
def _start_due(pk: int, due: datetime, now: datetime) -> list[LoadRun]:
    """Handle one due time, if no other process did: start its runs, or skip it while the previous one is active."""
    row = Schedule.objects.select_for_update().filter(pk=pk, active=True, next_at=due).first()
    if row is None:
        return []
    following = timetable_of(row).next_after(now)
    mine = Schedule.objects.filter(pk=pk, active=True, next_at=due)
    if not mine.update(next_at=following, last_due_at=due):
        return []
    going = _still_going(row)
    if going is not None:
        remark = {"code": "STILL_GOING", "message": f"load run {going} was still {going.status}"}
        _note(row, Schedule.Outcome.SKIPPED, remark)
        return []
    try:
        asked, refused = _start(row, run_id=_run_id(row, due), requester=f"schedule {row.name}")
    except Refusal as refusal:
        _note(row, Schedule.Outcome.SKIPPED, refusal.as_json())
        return []
    _note(row, Schedule.Outcome.STARTED, refused.as_json() if refused else None)
    return [requested.run for requested in asked]


def _run_id(schedule: Schedule, due: datetime) -> str:
    """Return the run id of a due time. It follows from schedule and time, so there can never be a second run."""
    return f"{due:%Y%m%dT%H%M%SZ}-{schedule.key.hex[:12]}"


def _start(
    schedule: Schedule, *, run_id: str | None = None, user: Any = None, requester: str = "", reason: str = ""
) -> tuple[list[RequestedRun], Refusal | None]:
    """Request the schedule's runs: a load of its scope, or a vacuum of each dataset in it.

    Return them with the refusal of the first dataset that cannot be vacuumed now. Raise Refusal if none is started.
    """
    if schedule.kind == Schedule.Kind.LOAD:
        known = LoadRun.objects.filter(run_id=run_id).first() if run_id else None
        wanted = _asked(schedule)
        if run_id is None:  # requested by a user, who sees the refusal
            wanted = replace(wanted, check=partial(plan_load, wanted.scope), reason=reason)
        asked = [RequestedRun(known)] if known else [request_run(wanted, run_id=run_id, user=user, requester=requester)]
        _hold_on_to(schedule, asked[0].run)
        return asked, None
    asked, refused = [], None
    for state in _loaded_in(Scope.from_json(schedule.scope)):
        try:
            vacuum = request_vacuum(
                dataset=state.qualified_name,
                reason=reason or f"schedule {schedule.name}",
                retention_hours=schedule.retention_hours,
                run_id=f"{run_id}-{state.key[:8]}" if run_id else None,
                user=user,
                requester=requester,
            )
        except Refusal as refusal:
            refused = refused or refusal
            continue
        _hold_on_to(schedule, vacuum.run)
        asked.append(vacuum)
    if not asked:
        raise refused or Refusal("NOTHING_LOADED", "no dataset in the schedule's scope has a table of its own")
    return asked, refused


def _loaded_in(scope: Scope) -> list[DatasetState]:
    plan = plan_load(scope)
    return [state for state in (*(step.dataset for step in plan.steps), *plan.left_out) if is_loaded(state)]


def _asked(schedule: Schedule) -> Asked:
    """Return the run to request, dated by its start, not its due time: a load in between must be dated earlier."""
    return Asked(scope=Scope.from_json(schedule.scope), allow_empty=schedule.allow_empty)


def _still_going(schedule: Schedule) -> LoadRun | None:
    """Return a run of the schedule that is queued or under way."""
    active = LoadRun.objects.filter(schedule=schedule, status__in=states.ACTIVE)
    for pk in active.values_list("pk", flat=True):
        mark_lost(job_pk=pk)
    return active.first()


def _note(schedule: Schedule, outcome: str, remark: dict[str, Any] | None = None) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(outcome=outcome, remark=remark)


def _hold_on_to(schedule: Schedule, run: LoadRun) -> None:
    """Link run and schedule to each other. The schedule's version stays: no user edited it."""
    LoadRun.objects.filter(pk=run.pk).update(schedule=schedule)
    run.schedule = schedule
    Schedule.objects.filter(pk=schedule.pk).update(last_run=run)


# Periodic sweep: the queue of jobs, and rows with limited retention.


def sweep(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once; any number of sweeps at once do no harm, since rows change by compare-and-set only."""
    end_old_reads()
    swept = sweep_jobs(resent_after=resent_after)
    delete_old_responses()
    sweep_uploads()
    forget_old_events()
    # Entries that a process committed and, because it died, did not seal.
    chain.seal()
    return swept
