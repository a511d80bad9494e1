"""Load runs, schedules, saved queries, versions of keys, tables as of a time and pages that the search finds."""

import re
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse
from django.utils.dateparse import parse_datetime

from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.web.search import PageEntry, PageKind, Rank, Result, RowKind
from loader.models import LoadRun, Schedule
from loader.selectors.reads import saved_queries
from metadata.models import TargetDataset

_AS_OF = re.compile(r"(?P<name>\S+)(?: (?P<key>.+?))? (?P<day>\d{4}-\d\d-\d\d)(?:[ T](?P<time>\d\d:\d\d))?", re.ASCII)


class AsOfKind:
    """Tables as of a time: ``airport 2024-01-31`` or, with a text of its rows, ``airport LGA 2024-01-31``."""

    name = "as_of"

    def find(self, text: str, user: Any, limit: int) -> list[Result]:
        match = _AS_OF.fullmatch(text)
        at = _moment(match) if match else None
        if match is None or at is None or not may_somewhere(user, Permission.READ_DATA):
            return []
        schema, dot, name = match["name"].rpartition(".")
        rows = TargetDataset.objects.filter(historize=True, active=True, name__icontains=name)
        rows = rows.filter(schema__name__iexact=schema) if dot else rows
        asked = urlencode({"at": f"{at:%Y-%m-%dT%H:%M:%S}", "find": match["key"] or ""})
        return [
            Result(
                self.name,
                "Table as of",
                str(row.key),
                f"{' '.join(filter(None, (row.name, match['key'])))} as of {at:%Y-%m-%d %H:%M}",
                row.schema.name,
                "",
                True,
                int(Rank.EXACT),
                f"{reverse('dataset_as_of', args=[row.key])}?{asked}",
            )
            for row in rows.select_related("schema").order_by("name", "pk")[:limit]
        ]

    def find_similar(self, text: str, user: Any, limit: int) -> list[Result]:
        return []


class VersionsKind:
    """Versions of a key: ``rc_air_airport EDDB``, a historized dataset and how the key begins.

    The first word is the dataset's name, or its end after an underscore: any part of a name would offer versions for
    most texts of two words. A column's name is no key.
    """

    name = "versions"

    def find(self, text: str, user: Any, limit: int) -> list[Result]:
        dataset, _, key = text.partition(" ")
        if not key or not may_somewhere(user, Permission.READ_DATA) or _AS_OF.fullmatch(text):
            return []
        schema, dot, name = dataset.rpartition(".")
        rows = TargetDataset.objects.filter(Q(name__iexact=name) | Q(name__iendswith=f"_{name}"))
        rows = rows.filter(schema__name__iexact=schema) if dot else rows
        rows = rows.filter(historize=True, active=True).exclude(columns__name__iexact=key)
        return [
            Result(
                self.name,
                "Versions",
                str(row.key),
                f"Versions of {key}",
                str(row),
                "",
                True,
                int(Rank.EXACT if row.name.lower() == name.lower() else Rank.PART),
                f"{reverse('dataset_history', args=[row.key])}?{urlencode({'q': key})}",
            )
            for row in rows.select_related("schema").order_by("name", "pk")[:limit]
        ]

    def find_similar(self, text: str, user: Any, limit: int) -> list[Result]:
        return []


def _moment(match: re.Match[str]) -> datetime | None:
    try:
        return parse_datetime(f"{match['day']}T{match['time'] or '00:00'}")
    except ValueError:  # no day of a calendar
        return None


KINDS = (
    AsOfKind(),
    VersionsKind(),
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
        similar=True,
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
        similar=True,
    ),
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Load runs", "run_list", "loads"),
            PageEntry("Charts of load runs", "run_charts", "rows duration changes over time"),
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
