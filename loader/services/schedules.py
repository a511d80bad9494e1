"""Schedules of load runs, and the periodic sweep.

Any number of processes call ``start_due`` repeatedly. The process that advances the schedule's ``next_at`` by
compare-and-set handles the due time. It requests the run in the same transaction, under an id that is computed from
schedule and due time. Several missed due times result in one run.

A schedule with a condition waits from its due time on: ``check_waiting``, called as often, starts the run once the
condition is fulfilled, and skips or starts it at the deadline. Due times that pass meanwhile start no further run.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from architecture.services.outdated import check_reports
from architecture.services.states import current_environment
from elevata.accounts.access import holders
from elevata.accounts.roles import Permission, Place
from elevata.api.services import delete_old_responses
from elevata.audit.services import chain
from elevata.audit.services.change_log import assign, check_fields, claim, record_change, writing
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.services import RESENT_AFTER, Swept, mark_lost, sweep_jobs
from elevata.lists.services import delete_favourites_of
from elevata.notifications.kinds import Kind
from elevata.notifications.services import forget_old_events, mark_settled, tell
from loader.cron import Timetable, read
from loader.domain.dependencies import Scope, is_loaded
from loader.domain.refusals import Refusal
from loader.domain.vacuum import refuse_short
from loader.domain.waits import CHECKED_EVERY, SKIP, START, Answer, Wait
from loader.models import LoadRun, Schedule
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_load
from loader.services.maintenance.vacuums import request_vacuum
from loader.services.reads.read_requests import end_old_reads
from loader.services.schedule_waits import check_data, check_wait
from loader.services.sources.checks import request_checks
from loader.services.sources.observations import settle_proposals
from loader.services.uploads import sweep_uploads
from metadata.domain.state import DatasetState
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


# --- by users ----------------------------------------------------------------------------------


def create_schedule(*, name: str, cron: str, **described: Any) -> Schedule:
    """Create a schedule in this installation's environment.

    Optional are ``time_zone`` (UTC), ``scope`` (everything), ``active`` (true) and ``allow_empty`` (false). Raise
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


def run_now(*, schedule: Schedule, user: Any, reason: str = "") -> RequestedRun:
    """Start the schedule's load at any time, active or not. Due times are unchanged.

    ``reason`` is stored with the run. Raise Refusal STILL_GOING while the previous run is active, and Refusal if its
    scope has become empty.
    """
    if schedule.kind == Schedule.Kind.CHECK:
        raise Refusal(
            "NO_LOAD_RUN",
            f"schedule {schedule} checks sources, which is no load run",
            hint="Check a source on its page, or all by manage.py check_sources.",
        )
    with transaction.atomic():
        row = Schedule.objects.select_for_update().get(pk=schedule.pk)
        active = _active_run(row)
        if active is not None:
            raise Refusal("STILL_GOING", f"load run {active} of this schedule is still {active.status}")
        (requested, *_), _refused = _start(row, user=user, reason=reason)
        if row.waiting:
            delivery = row.waiting["signature"] or row.last_delivery
            Schedule.objects.filter(pk=row.pk).update(
                waiting=None, outcome=Schedule.Outcome.STARTED, last_delivery=delivery
            )
        return requested


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


# --- by due time -------------------------------------------------------------------------------


def start_due(*, now: datetime | None = None) -> list[LoadRun]:
    """Start the runs that are due in this installation's environment, and return them.

    Runs that another process started are not returned. A schedule that fails does not delay the others.
    """
    now = now or timezone.now()
    due = Schedule.objects.filter(environment=current_environment(), active=True, next_at__lte=now)
    started = []
    for pk, at in due.order_by("next_at", "pk").values_list("pk", "next_at"):
        assert at is not None  # by the filter
        try:
            started += retried(partial(_start_due, pk, at, now))
        except Exception:
            log.exception("schedule %s, due at %s, was not started; the next call tries again", pk, at)
    return started


@transaction.atomic
def _start_due(pk: int, due: datetime, now: datetime) -> list[LoadRun]:
    """Start the runs of one due time, or skip it while the previous run is active.

    Return nothing if another process handles the due time.
    """
    row = Schedule.objects.select_for_update().filter(pk=pk, active=True, next_at=due).first()
    if row is None:
        return []
    following = timetable_of(row).next_after(now)
    unchanged = Schedule.objects.filter(pk=pk, active=True, next_at=due)
    if not unchanged.update(next_at=following, last_due_at=due):
        return []
    if row.wait:
        if row.waiting is None:
            state = {"due": due.isoformat(), "checked_at": None, "answer": "", "signature": ""}
            Schedule.objects.filter(pk=pk).update(waiting=state, outcome=Schedule.Outcome.WAITING, remark=None)
        return []
    return _start_at(row, due)


def _start_at(row: Schedule, due: datetime) -> list[LoadRun]:
    """Start the runs of one due time, and note the outcome: skipped while the previous run is active."""
    if row.kind == Schedule.Kind.CHECK:
        return _check_sources(row)
    active = _active_run(row)
    if active is not None:
        remark = {"code": "STILL_GOING", "message": f"load run {active} was still {active.status}"}
        _note(row, Schedule.Outcome.SKIPPED, remark)
        return []
    try:
        requests, refused = _start(row, run_id=_run_id(row, due), requester=f"schedule {row.name}")
    except Refusal as refusal:
        _note(row, Schedule.Outcome.SKIPPED, refusal.as_json())
        return []
    _note(row, Schedule.Outcome.STARTED, refused.as_json() if refused else None)
    return [request.run for request in requests]


def _check_sources(row: Schedule) -> list[LoadRun]:
    """Request the checks of the sources in a schedule's scope, which start no load run."""
    try:
        request_checks(scope=Scope.from_json(row.scope), requester=f"schedule {row.name}")
    except Refusal as refusal:
        _note(row, Schedule.Outcome.SKIPPED, refusal.as_json())
    else:
        _note(row, Schedule.Outcome.STARTED)
    return []


# --- by a condition after the due time ---------------------------------------------------------


def check_waiting(*, now: datetime | None = None) -> list[LoadRun]:
    """Check the data that schedules wait for; start the runs whose condition is fulfilled, and return them.

    The data is read outside of a transaction. A schedule that fails does not delay the others.
    """
    now = now or timezone.now()
    started = []
    for row in Schedule.objects.filter(environment=current_environment(), active=True, waiting__isnull=False):
        try:
            wait = Wait.from_json(row.wait)
            assert wait is not None
            assert row.waiting is not None
            checked = row.waiting["checked_at"]
            if checked and now < datetime.fromisoformat(checked) + CHECKED_EVERY[wait.kind]:
                continue
            started += retried(partial(_after_check, row, wait, _checked(row, wait), now))
        except Exception:
            log.exception("the wait of schedule %s was not advanced; the next call tries again", row.pk)
    return started


def _checked(row: Schedule, wait: Wait) -> Answer:
    try:
        return check_data(row, wait, last_check=(row.waiting or {})["signature"])
    except Exception:  # the deadline holds, whatever the source raises
        log.exception("the data of schedule %s was not checked; the next call tries again", row.pk)
        return Answer("The check failed; the log of the worker has the reason.")


@transaction.atomic
def _after_check(seen: Schedule, wait: Wait, answer: Answer, now: datetime) -> list[LoadRun]:
    """Start, skip or go on waiting after a check. Return nothing if another process handled the check meanwhile."""
    row = Schedule.objects.select_for_update().filter(pk=seen.pk, active=True).first()
    if row is None or row.waiting is None or (row.waiting, row.wait) != (seen.waiting, seen.wait):
        return []
    due = datetime.fromisoformat(row.waiting["due"])
    active = _active_run(row) if answer.fulfilled else None
    if active is not None:
        answer = replace(answer, text=f"{answer.text}; load run {active} is still {active.status}", fulfilled=False)
    is_late = not answer.fulfilled and now >= wait.deadline(due)
    if not answer.fulfilled and not is_late:
        state = row.waiting | {"checked_at": now.isoformat(), "answer": answer.text, "signature": answer.signature}
        Schedule.objects.filter(pk=row.pk).update(waiting=state)
        return []
    Schedule.objects.filter(pk=row.pk).update(waiting=None)
    if not is_late:
        mark_settled(subject_kind=SUBJECT, subject_key=str(row.key), kinds=(Kind.SCHEDULE_LATE,))
    if is_late:
        _tell_late(row, wait, answer)
        if wait.then == SKIP:
            message = f"the data did not arrive within {wait.minutes:,} minutes. Last check: {answer.text}"
            _note(row, Schedule.Outcome.SKIPPED, {"code": "DATA_LATE", "message": message})
            return []
    runs = _start_at(row, due)
    if runs and answer.signature:  # files of a skipped run are still new
        Schedule.objects.filter(pk=row.pk).update(last_delivery=answer.signature)
    return runs


def _tell_late(row: Schedule, wait: Wait, answer: Answer) -> None:
    """Notify operators that a deadline passed."""
    result = "the run was started anyway" if wait.then == START else "the run was skipped"
    environment = row.environment.name
    tell(
        event=Kind.SCHEDULE_LATE,
        subject_kind=SUBJECT,
        subject_key=str(row.key),
        subject_name=row.name,
        title=f"Schedule {row.name} in {environment} waited {wait.minutes:,} minutes for its data; {result}",
        link=reverse("schedule_page", args=[row.key]),
        users=holders(Permission.START_LOAD, Place(environment=environment)),
        environment=environment,
        facts={"answer": answer.text, "then": wait.then},
    )


def _run_id(schedule: Schedule, due: datetime) -> str:
    """Return the run id of a due time, computed from schedule and time, so that no due time has two runs."""
    return f"{due:%Y%m%dT%H%M%SZ}-{schedule.key.hex[:12]}"


def _start(
    schedule: Schedule, *, run_id: str | None = None, user: Any = None, requester: str = "", reason: str = ""
) -> tuple[list[RequestedRun], Refusal | None]:
    """Request the schedule's runs: a load of its scope, or a vacuum of each dataset in it.

    Return the runs, and the refusal of the first dataset that cannot be vacuumed. Raise Refusal if no run is requested.
    """
    if schedule.kind == Schedule.Kind.LOAD:
        existing = LoadRun.objects.filter(run_id=run_id).first() if run_id else None
        wanted = _load_request(schedule)
        if run_id is None:  # requested by a user, who sees the refusal
            assert wanted.scope is not None
            wanted = replace(wanted, check=partial(plan_load, wanted.scope), reason=reason)
        requested = (
            [RequestedRun(existing)]
            if existing
            else [request_run(wanted, run_id=run_id, user=user, requester=requester)]
        )
        _link(schedule, requested[0].run)
        return requested, None
    requested, refused = [], None
    for state in _loaded_datasets(Scope.from_json(schedule.scope)):
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
        _link(schedule, vacuum.run)
        requested.append(vacuum)
    if not requested:
        raise refused or Refusal("NOTHING_LOADED", "no dataset in the schedule's scope has a table of its own")
    return requested, refused


def _loaded_datasets(scope: Scope) -> list[DatasetState]:
    plan = plan_load(scope)
    return [state for state in (*(step.dataset for step in plan.steps), *plan.left_out) if is_loaded(state)]


def _load_request(schedule: Schedule) -> Asked:
    """Return the request for a load, dated by its start, so that loads since the due time are dated earlier."""
    return Asked(scope=Scope.from_json(schedule.scope), allow_empty=schedule.allow_empty)


def _active_run(schedule: Schedule) -> LoadRun | None:
    """Return an active run of the schedule, if there is one."""
    active = LoadRun.objects.filter(schedule=schedule, status__in=states.ACTIVE)
    for pk in active.values_list("pk", flat=True):
        mark_lost(job_pk=pk)
    return active.first()


def _note(schedule: Schedule, outcome: str, remark: dict[str, Any] | None = None) -> None:
    Schedule.objects.filter(pk=schedule.pk).update(outcome=outcome, remark=remark)


def _link(schedule: Schedule, run: LoadRun) -> None:
    """Link run and schedule to each other. The schedule's version is unchanged, because no user edited it."""
    LoadRun.objects.filter(pk=run.pk).update(schedule=schedule)
    run.schedule = schedule
    Schedule.objects.filter(pk=schedule.pk).update(last_run=run)


# Periodic sweep: the queue of jobs, and rows with limited retention.


def sweep(*, resent_after: timedelta = RESENT_AFTER) -> Swept:
    """Sweep once. Sweeps may run concurrently, since rows change by compare-and-set only."""
    end_old_reads()
    settle_proposals()
    swept = sweep_jobs(resent_after=resent_after)
    delete_old_responses()
    sweep_uploads()
    forget_old_events()
    check_reports()
    # A process that died may have committed entries without sealing them.
    chain.seal()
    return swept
