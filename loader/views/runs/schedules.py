"""Schedules: the list, one with its next times and last runs, editing, running now."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from architecture.report_places import here
from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from elevata.jobs.selectors import live_workers
from loader.cron import Timetable, read
from loader.domain.runs.dependencies import Scope
from loader.domain.runs.refusals import Refusal
from loader.models import Schedule
from loader.selectors import newest_runs, schedules
from loader.services.runs.schedules import create_schedule, delete_schedule, run_now, timetable_of, update_schedule
from loader.statistics import with_totals
from loader.views.runs.runs import SUGGESTED, tell
from loader.views.runs.schedule_forms import DeleteForm, NewScheduleForm, ScheduleForm, TimesForm, zone_names
from metadata.change_log import of_row, shown
from metadata.domain.roles import Permission
from metadata.permissions import may, permitted
from metadata.selectors import target_datasets
from metadata.views.conflict import conflict, goes_on

START = Permission.START_LOAD
TIMES = 5
LATEST = 10


@never_cache
@require_safe
def schedule_list(request: HttpRequest) -> HttpResponse:
    """Show the schedules of this environment, each with its last run and its next time."""
    rows = [_row(schedule) for schedule in schedules()]
    context = {"rows": rows, "may_edit": may(request.user, START, on=here), "alone": _alone()}
    return render(request, "loader/schedule_list.html", context)


@never_cache
@require_safe
def schedule_page(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show one schedule: its next times, its last runs, its changes."""
    schedule = _schedule(key)
    runs = newest_runs().filter(schedule=schedule)[:LATEST]
    context = _row(schedule) | {
        "times": _times(timetable_of(schedule)) if schedule.active else [],
        "runs": with_totals(runs),
        "changes": shown(of_row(schedule)[:LATEST]),
        "may_edit": may(request.user, START, on=here),
        "alone": _alone(),
    }
    return render(request, "loader/schedule_page.html", context)


@require_safe
def schedule_times(request: HttpRequest) -> HttpResponse:
    """Show the part of a form with the next times of the schedule, or its error."""
    form = TimesForm(request.GET)
    typed = form.cleaned_data if form.is_valid() else {}
    return render(request, "loader/schedule_times.html", _preview(typed.get("cron", ""), typed.get("time_zone", "")))


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(START, on=here)
def schedule_new(request: HttpRequest) -> HttpResponse:
    """Create a schedule."""
    if request.method != "POST":
        return _form_page(request, NewScheduleForm())
    form = NewScheduleForm(request.POST)
    made = form.attempt(lambda: create_schedule(**form.described()))
    if made is None:
        return _form_page(request, form, status=422)
    messages.success(request, f"Schedule {made.name} is there.")
    return redirect("schedule_page", made.key)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(START, on=here)
def schedule_edit(request: HttpRequest, key: UUID) -> HttpResponse:
    """Change a schedule. If another user changed it meanwhile, show both users' values."""
    schedule = _schedule(key)
    if request.method != "POST":
        return _form_page(request, ScheduleForm.of(schedule), schedule)
    form = ScheduleForm(request.POST)
    if goes_on(request):
        return _form_page(request, form, schedule)
    try:
        saved = form.attempt(lambda: update_schedule(schedule=schedule, expected_version=form.over, **form.changes()))
    except StaleVersion:
        now = _schedule(key)
        return conflict(request, form=form, now=ScheduleForm.of(now), row=now, back=_address(now))
    if saved is None:
        return _form_page(request, form, schedule, status=422)
    messages.success(request, f"Schedule {saved.name} is saved.")
    return redirect("schedule_page", key)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(START, on=here)
def schedule_delete(request: HttpRequest, key: UUID) -> HttpResponse:
    """Ask for confirmation, then delete the schedule; its runs stay."""
    schedule = _schedule(key)
    if request.method != "POST":
        context = _row(schedule) | {"form": DeleteForm.of(schedule), "run_count": schedule.runs.count()}
        return render(request, "loader/schedule_delete.html", context)
    form = DeleteForm(request.POST)
    if not form.is_valid():
        return redirect("schedule_delete", key)
    try:
        delete_schedule(schedule=schedule, expected_version=form.over)
    except StaleVersion:
        now = _schedule(key)
        again = DeleteForm.of(now)
        return conflict(request, form=form, now=again, row=now, back=_address(now), verb="Delete it all the same")
    messages.success(request, f"Schedule {schedule.name} is deleted. The runs it started stay.")
    return redirect("schedule_list")


@require_POST
@permitted(START, on=here)
def schedule_run(request: HttpRequest, key: UUID) -> HttpResponse:
    """Start the schedule's load now."""
    try:
        asked = run_now(schedule=_schedule(key), user=request.user)
    except Refusal as refusal:
        messages.error(request, as_sentence(refusal.one_line()))
        return redirect("schedule_page", key)
    tell(request, asked)
    return redirect("run_page", asked.run.run_id)


def _schedule(key: UUID) -> Schedule:
    return get_object_or_404(schedules(), key=key)


def _address(schedule: Schedule) -> str:
    return redirect("schedule_page", schedule.key).url


def _form_page(
    request: HttpRequest, form: NewScheduleForm | ScheduleForm, schedule: Schedule | None = None, *, status: int = 200
) -> HttpResponse:
    names = target_datasets().filter(active=True, history_of__isnull=True, materialization="table")
    context = {
        "form": form,
        "schedule": schedule,
        "zones": zone_names(),
        "dataset_names": names.order_by("schema__name", "name").values_list("schema__name", "name")[:SUGGESTED],
        **_preview(form["cron"].value() or "", form["time_zone"].value() or ""),
    }
    return render(request, "loader/schedule_form.html", context, status=status)


def _row(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule with the facts that every page shows of it."""
    timetable = timetable_of(schedule)
    run = schedule.last_run
    return {
        "schedule": schedule,
        "scope": Scope.from_json(schedule.scope),
        "words": timetable.words,
        "next": _local(schedule.next_at, timetable),
        "going": run is not None and not run.is_finished,
    }


def _local(instant: datetime | None, timetable: Timetable) -> datetime | None:
    return instant.astimezone(timetable.zone) if instant is not None else None


def _preview(cron: str, time_zone: str) -> dict[str, Any]:
    """Return a cron expression in words and its next times, or its ``problem``; empty while nothing is typed."""
    if not cron.strip():
        return {}
    try:
        timetable = read(cron, time_zone.strip())
    except MetadataError as problem:
        return {"problem": as_sentence(problem.message)}
    return {"words": timetable.words, "times": _times(timetable), "zone": time_zone}


def _times(timetable: Timetable) -> list[tuple[datetime, datetime]]:
    """Return the next times, each in the schedule's zone and in UTC."""
    return [(time, time.astimezone(UTC)) for time in timetable.first(TIMES, after=timezone.now())]


def _alone() -> bool:
    """Return whether no worker would start what is due: the scheduler's sweep is a worker's task."""
    return not live_workers().exists()
