"""Schedules: load runs that are started automatically, each due time exactly once.

``start_due`` is called repeatedly, by any number of processes. A due time belongs to the one that
moves the schedule's ``next_at`` on by compare-and-set, and its run is requested in the same transaction,
under an id that follows from schedule and due time. Due times that no process handled result in one run.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.utils import timezone

from architecture.services import current_environment
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.services import mark_lost
from loader.cron import Timetable, read
from loader.domain.runs.dependencies import Scope
from loader.domain.runs.refusals import Refusal
from loader.models import LoadRun, Schedule
from loader.services.runs.manifests import plan_load
from loader.services.runs.runs import Asked, RequestedRun, request_run
from metadata.services.changelog import record_change
from metadata.services.common import assign, check_fields, claim, remove, store, writing

log = logging.getLogger(__name__)

SUBJECT = "schedule"
FIELDS = ("name", "active", "cron", "time_zone", "scope", "allow_empty")
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
    """Start the schedule's load at any time, active or not. Due times stay as they are.

    ``reason`` stays with the run. Raise Refusal STILL_GOING while the run before is under way, and Refusal for a scope
    that names nothing any more.
    """
    with transaction.atomic():
        row = Schedule.objects.select_for_update().get(pk=schedule.pk)
        going = _still_going(row)
        if going is not None:
            raise Refusal("STILL_GOING", f"load run {going} of this schedule is still {going.status}")
        wanted = _asked(row)
        asked = request_run(replace(wanted, check=partial(plan_load, wanted.scope), reason=reason), user=user)
        _hold_on_to(row, asked.run)
        return asked


def told(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as the change log records it."""
    return {
        "name": schedule.name,
        "environment": schedule.environment.name,
        "active": schedule.active,
        "cron": schedule.cron,
        "time_zone": schedule.time_zone,
        "scope": str(Scope.from_json(schedule.scope)),
        "allow_empty": schedule.allow_empty,
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
        plan_load(Scope.from_json(schedule.scope))
    except Refusal as refusal:
        said = "; ".join(part for part in (refusal.message, refusal.hint) if part)
        raise MetadataError(refusal.code.lower(), said, _FIELDS.get(refusal.code, "scope")) from refusal


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

    The run itself finds out whether there is still something to load. A schedule that fails does not delay the others.
    """
    now = now or timezone.now()
    due = Schedule.objects.filter(environment=current_environment(), active=True, next_at__lte=now)
    started = []
    for pk, at in due.order_by("next_at", "pk").values_list("pk", "next_at"):
        try:
            run = retried(partial(_start_due, pk, at, now))
        except Exception:
            log.exception("schedule %s, due at %s, was not started; it is tried again", pk, at)
        else:
            started += [run] if run is not None else []
    return started


@transaction.atomic
def _start_due(pk: int, due: datetime, now: datetime) -> LoadRun | None:
    """Handle one due time, if no other process did: start its run, or skip it while the one before goes on."""
    row = Schedule.objects.select_for_update().filter(pk=pk, active=True, next_at=due).first()
    if row is None:
        return None
    following = timetable_of(row).next_after(now)
    mine = Schedule.objects.filter(pk=pk, active=True, next_at=due)
    if not mine.update(next_at=following, last_due_at=due):
        return None
    going = _still_going(row)
    if going is not None:
        remark = {"code": "STILL_GOING", "message": f"load run {going} was still {going.status}"}
        _note(row, Schedule.Outcome.SKIPPED, remark)
        return None
    run = _run_of(row, due)
    _note(row, Schedule.Outcome.STARTED)
    _hold_on_to(row, run)
    return run


def _run_of(schedule: Schedule, due: datetime) -> LoadRun:
    """Return the run of a due time. Its id follows from both, so there can never be a second one."""
    run_id = f"{due:%Y%m%dT%H%M%SZ}-{schedule.key.hex[:12]}"
    known = LoadRun.objects.filter(run_id=run_id).first()
    if known is not None:
        return known
    return request_run(_asked(schedule), run_id=run_id, requester=f"schedule {schedule.name}").run


def _asked(schedule: Schedule) -> Asked:
    """Return the run to request, dated by its start, not its due time: a load in between must be dated earlier."""
    return Asked(scope=Scope.from_json(schedule.scope), allow_empty=schedule.allow_empty)


def _still_going(schedule: Schedule) -> LoadRun | None:
    """Return the schedule's newest run, if it is queued or under way."""
    if schedule.last_run_id is None:
        return None
    mark_lost(job_pk=schedule.last_run_id)
    return LoadRun.objects.filter(pk=schedule.last_run_id, status__in=states.ACTIVE).first()


def _note(schedule: Schedule, outcome: str, remark: dict[str, Any] | None = None) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(outcome=outcome, remark=remark)


def _hold_on_to(schedule: Schedule, run: LoadRun) -> None:
    """Link run and schedule to each other. The schedule's version stays: no user edited it."""
    LoadRun.objects.filter(pk=run.pk).update(schedule=schedule)
    run.schedule = schedule
    Schedule.objects.filter(pk=schedule.pk).update(last_run=run)
