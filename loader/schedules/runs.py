"""Runs of schedules: started at a due time, after the data has arrived, or by a user.

Any number of processes call ``start_due`` repeatedly. The process that advances the schedule's ``next_at`` by
compare-and-set handles the due time. It requests the run in the same transaction, under an id that is computed from
schedule and due time. Several missed due times result in one run.

A schedule with a condition waits from its due time on: ``check_waiting``, called as often, starts the run once the
condition is fulfilled, and skips or starts it at the deadline. Due times that pass meanwhile start no further run.
"""

import logging
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.accounts.access import holders
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.core.database import retried
from elevata.jobs import states
from elevata.jobs.services import mark_lost
from elevata.notifications.kinds import Kind
from elevata.notifications.services import mark_settled, tell
from loader.contract.refusals import Refusal
from loader.domain.dependencies import is_loaded
from loader.models import LoadRun, Schedule
from loader.schedules.services import SUBJECT, timetable_of
from loader.schedules.wait_checks import check_data
from loader.schedules.waits import CHECKED_EVERY, SKIP, START, Answer, Wait
from loader.services.loads.load_runs import Asked, RequestedRun, request_run
from loader.services.loads.plans import plan_load
from loader.services.maintenance.vacuums import request_vacuum
from loader.services.sources.check_requests import request_checks
from metadata.domain.scope import Scope
from metadata.domain.state import DatasetState

log = logging.getLogger(__name__)


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
