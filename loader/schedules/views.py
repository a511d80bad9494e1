"""Pages of schedules."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from elevata.accounts.permissions import may
from elevata.accounts.services.preferences import SESSION_KEY
from elevata.audit.selectors import of_row
from elevata.core.errors import MetadataError, as_sentence
from elevata.jobs.registry import live_workers
from elevata.lists.columns import Column, yes_no
from elevata.web.list_pages import ListPage
from elevata.web.views import ButtonPage, CreatePage, DeletePage, DetailPage, EditPage, FormPage, RowPage
from loader.filtersets import ScheduleFilter
from loader.models import Schedule
from loader.schedules.cron import Timetable, read
from loader.schedules.forms import NewScheduleForm, ScheduleForm, TimesForm, zone_names
from loader.schedules.runs import run_now
from loader.schedules.selectors import schedules
from loader.schedules.services import create_schedule, delete_schedule, timetable_of, update_schedule
from loader.schedules.wait_checks import sources_of_waits
from loader.schedules.waits import Wait
from loader.selectors.runs import newest_runs, with_totals
from loader.views.runs.load_runs import START, ForStarters, loadable_names, run_address
from metadata.domain.scope import Scope
from metadata.models import SourceDataset
from metadata.permissions import here
from metadata.selectors.change_log import shown_entries

TIMES = 5
LATEST = 10
# Days of the week as cron counts them.
DAYS = ((1, "Mon"), (2, "Tue"), (3, "Wed"), (4, "Thu"), (5, "Fri"), (6, "Sat"), (0, "Sun"))


class ScheduleList(ListPage):
    """List of the schedules of this environment, with last run and next time."""

    filterset, template_name = ScheduleFilter, "loader/schedules/schedule_list.html"
    columns: ClassVar = (
        Column("Schedule", {"schedule": itemgetter("schedule")}, sort="name"),
        Column("State", {"active": lambda row: yes_no(row["schedule"].active)}, sort="active", descends=True),
        Column("Loads", {"loads": itemgetter("scope")}),
        Column(
            "When",
            {
                "when": itemgetter("words"),
                "cron": lambda row: row["schedule"].cron,
                "time zone": lambda row: row["schedule"].time_zone,
            },
        ),
        Column("Next", {"next": itemgetter("next")}, sort="next_at"),
        Column("Last run", {"last run": lambda row: row["schedule"].last_run}, sort="last_run", descends=True),
    )

    def listed(self) -> QuerySet[Schedule]:
        return schedules()

    def detailed(self, rows: Sequence[Schedule]) -> Sequence[dict[str, Any]]:
        sources = sources_of_waits(rows)
        return [_row(schedule, sources) for schedule in rows]

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "rows": self.detailed_page,
            "may_edit": may(self.request.user, START, on=here),
            "alone": _no_worker(),
        }


class SchedulePage(RowPage):
    """Base of pages about one schedule."""

    name, page = "schedule", "schedule_page"

    def rows(self) -> QuerySet[Schedule]:
        return schedules()


class ScheduleDetail(SchedulePage, DetailPage):
    """Page of a schedule: next times, latest runs and changes."""

    template_name = "loader/schedules/schedule_page.html"

    def context(self) -> dict[str, Any]:
        schedule = self.row
        return _row(schedule) | {
            "times": _times(timetable_of(schedule)) if schedule.active else [],
            "runs": with_totals(newest_runs().filter(schedule=schedule)[:LATEST]),
            "changes": shown_entries(of_row(schedule)[:LATEST]),
            "may_edit": may(self.request.user, START, on=here),
            "alone": _no_worker(),
        }


class ScheduleFormPage(ForStarters, FormPage):
    """Base of pages with the form of a schedule."""

    template_name = "loader/schedules/schedule_form.html"

    def show(self, form: Any, *, status: int = 200) -> HttpResponse:
        preview = _preview(form["cron"].value() or "", form["time_zone"].value() or "")
        names: dict[str, Any] = {"zones": zone_names(), "dataset_names": loadable_names()}
        names["wait_fields"] = [form[name] for name in form.WAIT]
        names |= {"days": DAYS, "month_days": range(1, 32)}
        return self.render(form=form, status=status, **names, **preview)


class ScheduleCreate(ScheduleFormPage, CreatePage):
    """Page to create a schedule."""

    form_class, service, page = NewScheduleForm, staticmethod(create_schedule), "schedule_page"
    message = "Schedule {row.name} created."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return super().options() | {"zone": self.request.session.get(SESSION_KEY, "")}


class ScheduleEdit(ScheduleFormPage, SchedulePage, EditPage):
    """Page to edit a schedule."""

    form_class, service = ScheduleForm, staticmethod(update_schedule)
    message = "Schedule {row.name} is saved."


class ScheduleDelete(ForStarters, SchedulePage, DeletePage):
    """Page to delete a schedule; its runs stay."""

    service, list_page = staticmethod(delete_schedule), "schedule_list"
    template_name = "loader/schedules/schedule_delete.html"
    message = "Schedule {row.name} is deleted. The runs it started stay."

    def context(self) -> dict[str, Any]:
        return super().context() | _row(self.row) | {"run_count": self.row.runs.count()}


class ScheduleRun(ForStarters, SchedulePage, ButtonPage):
    """Button that starts a run of the schedule now."""

    def act(self) -> str:
        return run_address(self.request, run_now(schedule=self.row, user=self.request.user))


@require_safe
def schedule_times(request: HttpRequest) -> HttpResponse:
    """Show the next times of a schedule in its form, or the error."""
    form = TimesForm(request.GET)
    fields = form.cleaned_data if form.is_valid() else {}
    preview = _preview(fields.get("cron", ""), fields.get("time_zone", ""))
    return render(request, "loader/schedules/schedule_times.html", preview)


def _row(schedule: Schedule, sources: Mapping[str, SourceDataset] | None = None) -> dict[str, Any]:
    """Return the context of a schedule that all pages share; ``sources`` are those that several schedules wait for."""
    timetable = timetable_of(schedule)
    run = schedule.last_run
    wait = Wait.from_json(schedule.wait)
    known = sources_of_waits([schedule]) if sources is None else sources
    source = known.get(wait.source) if wait is not None else None
    due = datetime.fromisoformat(schedule.waiting["due"]) if wait is not None and schedule.waiting else None
    checked = schedule.waiting["checked_at"] if due is not None and schedule.waiting else None
    return {
        "wait": wait.words(str(source or "a deleted source")) if wait is not None else "",
        "wait_source": source,
        "waiting_since": due,
        "deadline": wait.deadline(due) if wait is not None and due is not None else None,
        "checked_at": datetime.fromisoformat(checked) if checked else None,
        "schedule": schedule,
        "scope": Scope.from_json(schedule.scope),
        "words": timetable.words,
        "next": _local(schedule.next_at, timetable),
        "going": run is not None and not run.is_finished,
    }


def _local(instant: datetime | None, timetable: Timetable) -> datetime | None:
    return instant.astimezone(timetable.zone) if instant is not None else None


def _preview(cron: str, time_zone: str) -> dict[str, Any]:
    """Return a cron expression in words with its next times, or its ``problem``; empty without an expression."""
    if not cron.strip():
        return {}
    try:
        timetable = read(cron, time_zone.strip())
    except MetadataError as error:
        return {"problem": as_sentence(error.message)}
    return {"words": timetable.words, "times": _times(timetable), "zone": time_zone}


def _times(timetable: Timetable) -> list[tuple[datetime, datetime]]:
    """Return the next times, each in the schedule's zone and in UTC."""
    return [(time, time.astimezone(UTC)) for time in timetable.first(TIMES, after=timezone.now())]


def _no_worker() -> bool:
    """Return True if no worker is alive, so that due schedules are not started."""
    return not live_workers()
