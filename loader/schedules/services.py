"""Schedules of load runs: created, changed and deleted by users."""

import logging
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.audit.services.change_log import record_change
from elevata.audit.services.transactions import assign, check_fields, claim, writing
from elevata.core.errors import MetadataError
from elevata.lists.services import delete_favourites_of
from elevata.notifications.kinds import Kind
from elevata.notifications.services import mark_settled
from loader.contract.refusals import Refusal
from loader.domain.vacuum import refuse_short
from loader.models import LoadRun, Schedule
from loader.schedules.cron import Timetable, read
from loader.schedules.wait_checks import check_wait
from loader.schedules.waits import Wait
from loader.services.loads.plans import plan_load
from metadata.domain.scope import Scope
from metadata.services.rows.row_changes import remove, store

log = logging.getLogger(__name__)

SUBJECT = "schedule"
FIELDS = ("name", "active", "cron", "time_zone", "kind", "scope", "allow_empty", "retention_hours", "wait")
# Fields of the scope's refusals.
_FIELDS = {
    "UNKNOWN_SCHEMA": "schema",
    "UNKNOWN_DATASET": "dataset",
    "RETIRED": "dataset",
    "BY_BATCH_FILES": "dataset",
    "NOTHING_SELECTED": "selection",
}


def create_schedule(*, name: str, cron: str, **described: Any) -> Schedule:
    """Create a schedule in this installation's environment.

    Optional are ``time_zone`` (UTC), ``scope`` (all datasets), ``active`` (true) and ``allow_empty`` (false). Raise
    MetadataError for an invalid field.
    """
    with writing():
        schedule = Schedule(environment=current_environment(), scope=Scope().as_json())
        assign(schedule, _field_values({"name": name, "cron": cron, **described}), FIELDS)
        _check(schedule)
        _set_next(schedule)
        store(schedule)
        _log("created", schedule, after=logged_values(schedule))
        return schedule


def update_schedule(*, schedule: Schedule, expected_version: int, **changes: Any) -> Schedule:
    """Change fields of a schedule. Raise StaleVersion if it was changed meanwhile.

    After a change of times, or when the schedule becomes active, the next due time is computed anew.
    """
    with writing():
        row = claim(schedule, expected_version)
        before = logged_values(row)
        if not assign(row, _field_values(changes), FIELDS):
            return row
        _check(row)
        after = logged_values(row)
        if any(before[name] != after[name] for name in ("active", "cron", "time_zone")):
            _set_next(row)
        if row.waiting and any(before[name] != after[name] for name in ("active", "scope", "wait")):
            row.waiting, row.outcome = None, Schedule.Outcome.NOTHING
        store(row)
        _log("renamed" if before["name"] != after["name"] else "changed", row, before=before, after=after)
        return row


def delete_schedule(*, schedule: Schedule, expected_version: int) -> None:
    """Delete a schedule; the runs it started stay."""
    with writing():
        row = claim(schedule, expected_version)
        # One statement, because a schedule may have many runs; runs have no change log.
        LoadRun.objects.filter(schedule=row).update(schedule=None)
        _log("deleted", row, before=logged_values(row))
        mark_settled(subject_kind=SUBJECT, subject_key=str(row.key), kinds=(Kind.SCHEDULE_LATE,))
        delete_favourites_of(kind="schedule", keys=[row.key])
        remove([row])


def logged_values(schedule: Schedule) -> dict[str, Any]:
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
        "wait": schedule.wait,
    }


def timetable_of(schedule: Schedule) -> Timetable:
    """Return the schedule's timetable. Raise MetadataError if this machine does not know its time zone."""
    return read(schedule.cron, schedule.time_zone)


def _field_values(described: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as values of a row: the scope as JSON, texts without superfluous white space."""
    values: dict[str, Any]
    values = {name: " ".join(value.split()) if isinstance(value, str) else value for name, value in described.items()}
    if isinstance(values.get("scope"), Scope):
        values["scope"] = values["scope"].as_json()
    if "wait" in values:
        wait = Wait.from_json(values["wait"])
        values["wait"] = wait.as_json() if wait is not None else {}
    return values


def _check(schedule: Schedule) -> None:
    if not schedule.name:
        raise MetadataError("invalid", "needs a name", "name")
    same = Schedule.objects.filter(environment=schedule.environment, name=schedule.name)
    if same.exclude(pk=schedule.pk).exists():
        raise MetadataError("name_taken", f"there is a schedule {schedule.name} already", "name")
    for name in ("name", "cron", "time_zone"):
        field: Any = Schedule._meta.get_field(name)  # a CharField
        longest = field.max_length
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
    check_wait(schedule)


def _set_next(schedule: Schedule) -> None:
    timetable = timetable_of(schedule)
    schedule.next_at = timetable.next_after(timezone.now()) if schedule.active else None
    check_fields(schedule, schedule.name)


def _log(action: str, schedule: Schedule, **sides: Any) -> None:
    record_change(
        action=action,
        subject_kind=SUBJECT,
        subject_key=str(schedule.key),
        subject_name=f"{schedule.name} in {schedule.environment}",
        **sides,
    )
