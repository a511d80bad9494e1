"""Load runs, schedules, saved queries and pages about loading that the search finds."""

from django.urls import reverse

from elevata.accounts.roles import Permission
from elevata.web.search import PageEntry, PageKind, RowKind
from loader.models import LoadRun, Schedule
from loader.selectors import saved_queries

KINDS = (
    RowKind(
        "load_run",
        lambda row: f"{row.get_kind_display()} run",
        lambda user: LoadRun.objects.select_related("environment").defer("details"),
        key=lambda row: row.run_id,
        page=lambda row: reverse("run_page", args=[row.run_id]),
        called="run_id",
        texts=(),
        within=lambda row: row.environment.name,
        api="api-load-run-detail",
    ),
    RowKind(
        "schedule",
        "Schedule",
        lambda user: Schedule.objects.select_related("environment"),
        page=lambda row: reverse("schedule_page", args=[row.key]),
        texts=(),
        within=lambda row: row.environment.name,
        api="api-schedule-detail",
    ),
    RowKind(
        "saved_query",
        "Saved query",
        saved_queries,
        page=lambda row: f"{reverse('sql_page')}?saved={row.key}",
        texts=("text",),
        within=lambda row: row.owner.get_username(),
        permission=Permission.READ_DATA,
    ),
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Load runs", "run_list", "loads"),
            PageEntry("Schedules", "schedule_list", "cron times"),
            PageEntry("Leases", "lease_list", "locks"),
            PageEntry("SQL", "sql_page", "query select warehouse"),
            PageEntry("Saved queries", "saved_query_list", "sql"),
        ),
    ),
    PageKind(
        "action",
        "Action",
        (
            PageEntry("Start load", "run_start", "run"),
            PageEntry("Add source", "source_add", "new create system import file database"),
            PageEntry("New schedule", "schedule_new", "create add cron"),
            PageEntry("Try a model", "trial_page", "select sql"),
        ),
    ),
)
