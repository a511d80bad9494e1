"""Home page, page frame, health, errors and deleted objects."""

import hashlib
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError, InterfaceError, OperationalError
from django.db.models import Exists, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.domain.workflow import YES
from architecture.models import Approval, ChangeReport
from architecture.selectors.environments import reports
from architecture.selectors.inbox import Tasks, tasks_of
from architecture.services.states import current_environment
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import entries
from elevata.core.installation import user_command
from elevata.jobs.registry import live_workers
from elevata.lists.selectors import favourite_rows, favourites_of
from elevata.web import middleware
from elevata.web.middleware import body_too_big
from loader.domain.run_states import LOAD
from loader.models import DatasetRun, SavedQuery
from loader.selectors import charts
from loader.selectors.loads import drift_glance, leases_in_force, warehouse
from loader.selectors.reads import saved_queries
from loader.selectors.runs import (
    active_executions,
    active_runs,
    failing_schedules,
    newest_runs,
    schedules,
    troubles,
    with_totals,
)
from metadata.models import SourceDataset, System, TargetDataset
from metadata.selectors.columns import layer_counts
from metadata.selectors.datasets import source_datasets, systems, target_datasets

# Context of the frame around every page. Its values are computed when a template uses them, so fragments cost nothing.


@dataclass(frozen=True)
class NavItem:
    """Navigation item of a main page. ``active``: the address is this page or below it; ``here``: exactly this page."""

    label: str
    url: str
    icon: str
    active: bool
    here: bool


@dataclass(frozen=True)
class WorkerState:
    """State of the workers, with a sentence for users."""

    alive: bool
    text: str


# Main pages: label, route, icon, and prefixes of further addresses below the page.
_PAGES: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("Home", "home", "home", ()),
    ("Datasets", "dataset_list", "database", ()),
    ("Sources", "source_list", "plug", ("/systems/", "/add-source/")),
    ("SQL", "sql_page", "sql", ()),
    ("Load runs", "run_list", "player-play", ("/schedules/", "/leases/")),
    (
        "Changes",
        "report_list",
        "git-compare",
        ("/executions/", "/drift/", "/policies/", "/changes/", "/refreshes/", "/records/", "/health/"),
    ),
)


class Shell:
    """Frame of a page: navigation, worker state, environment, and the user's number of pending requests."""

    environment = settings.ENVIRONMENT

    def __init__(self, path: str, user: Any = None):
        self._path = path
        self._user = user

    @cached_property
    def nav(self) -> list[NavItem]:
        items = []
        for label, name, icon, also in _PAGES:
            url = reverse(name)
            is_current = self._path == url
            below = self._path.startswith((url, *also)) if url != "/" else False
            items.append(NavItem(label, url, icon, is_current or below, is_current))
        return items

    @cached_property
    def worker(self) -> WorkerState:
        """Return the state of the workers; queried once for a page."""
        names = [worker.name for worker in live_workers()]
        if not names:
            return WorkerState(False, f"No worker is running. Start one with: {user_command('serve')}")
        return WorkerState(True, f"Answering: {', '.join(names)}")

    @cached_property
    def waiting(self) -> int:
        """Return the number of requests that wait for the signed-in user."""
        return self._tasks.count

    @property
    def waiting_page(self) -> str:
        """Return the page of the report that waits for the user, or the inbox if it is not the only request."""
        report_id = self._tasks.report_id
        return reverse("report_page", args=[report_id]) if report_id else reverse("inbox")

    @cached_property
    def _tasks(self) -> Tasks:
        return tasks_of(self._user)


class Can:
    """Permissions that the signed-in user has anywhere, for templates: ``can.change_metadata``."""

    _BY_NAME: ClassVar[dict[str, Permission]] = {permission.rpartition(".")[2]: permission for permission in Permission}

    def __init__(self, user: Any):
        self._user = user

    def __getattr__(self, name: str) -> bool:
        if name not in self._BY_NAME:
            raise AttributeError(name)
        return may_somewhere(self._user, self._BY_NAME[name])


def shell(request: HttpRequest) -> dict[str, Any]:
    """Return ``shell`` and ``can`` for the context of all templates."""
    user = getattr(request, "user", None)
    return {"shell": Shell(request.path, user), "can": Can(user)}


# Deleted objects are found in the change log by the address that they had.


DELETED = ChangeLogEntry.Action.DELETED
# Kinds of objects that have pages, with the list of existing objects: its route and its label.
_LISTS = {
    "dataset": ("dataset_list", "All datasets"),
    "column": ("dataset_list", "All datasets"),
    "source_dataset": ("source_list", "All sources"),
    "source_column": ("source_list", "All sources"),
    "schedule": ("schedule_list", "All schedules"),
    "schema": ("schema_list", "All schemas"),
    "system": ("source_list", "All sources"),
}


@dataclass(frozen=True)
class Gone:
    """Deleted object. ``went_with`` names the dataset with which it was deleted.

    ``log``, ``part_of`` and ``others`` are addresses of the change log, of its dataset and of the list of its kind.
    """

    kind: str
    name: str
    by: str
    at: datetime
    reason: str
    went_with: str
    log: str
    part_of: str
    others: str
    others_called: str


def what_is_gone(request: HttpRequest) -> Gone | None:
    """Return the deleted object that had the request's address; None for users who are not signed in."""
    match = request.resolver_match
    keys = [str(match.kwargs[name]) for name in ("key", "name") if name in match.kwargs] if match else []
    try:
        if not keys or not request.user.is_authenticated:
            return None
        return _deleted_object(keys)
    except DatabaseError:
        # The page "Not found" is shown without the deleted object.
        return None


def _deleted_object(keys: Iterable[str]) -> Gone | None:
    last = entries().filter(subject_kind__in=_LISTS, subject_key__in=list(keys)).first()
    if last is None:
        return None
    deletion = last if last.action == DELETED else _deletion_of(last.dataset_key)
    if deletion is None:
        return None
    others, called = _LISTS[last.subject_kind]
    return Gone(
        kind=last.subject_kind,
        name=last.subject_name,
        by=deletion.actor,
        at=deletion.at,
        reason=deletion.reason,
        went_with=deletion.subject_name if deletion is not last else "",
        log=f"{reverse('change_list')}?{urlencode({'q': deletion.subject_name})}",
        part_of=_page_of(last.dataset_key),
        others=reverse(others),
        others_called=called,
    )


def _deletion_of(dataset_key: UUID | None) -> ChangeLogEntry | None:
    """Return the entry of a dataset's deletion, if it is the dataset's newest entry."""
    kinds = ("dataset", "source_dataset")
    last = entries().filter(subject_kind__in=kinds, subject_key=str(dataset_key)).first()
    return last if last is not None and last.action == DELETED else None


def _page_of(dataset_key: UUID | None) -> str:
    if dataset_key is None:
        return ""
    if TargetDataset.objects.filter(key=dataset_key).exists():
        return reverse("dataset_page", args=[dataset_key])
    if SourceDataset.objects.filter(key=dataset_key).exists():
        return reverse("source_page", args=[dataset_key])
    return ""


LATEST, COMING, DRAWN, FAVOURITES = 8, 5, 25, 12


@never_cache
@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """Show the home page.

    It has the number of datasets, active work, problems, and first steps in an empty installation.
    """
    context = {"system_count": systems().count(), "layers": layer_counts(), **_active_work(request)}
    context["first_steps"] = first_steps(request.user)
    context["favourites"] = favourites(request.user)
    return render(request, "home/page.html", context)


@never_cache
@require_safe
def home_now(request: HttpRequest) -> HttpResponse:
    """Show the part of the home page that is refreshed; 204 if it has not changed."""
    context = _active_work(request)
    if context["seen"] == request.GET.get("seen") and context["busy"]:
        return HttpResponse(status=204)
    return render(request, "home/now.html", context)


@never_cache
@require_safe
def home_warehouse(request: HttpRequest) -> HttpResponse:
    """Show the warehouse on the home page; loaded after the page, because it takes longer."""
    context = {"warehouse": warehouse(), "drift": drift_glance(current_environment())}
    return render(request, "home/warehouse.html", context)


@dataclass(frozen=True)
class FirstStep:
    """Step of the set-up of a warehouse, with the page where it is taken."""

    label: str
    url: str
    done: bool


def first_steps(user: Any) -> list[FirstStep]:
    """Return the steps from an empty installation to the first load; empty once data was loaded."""
    loaded = DatasetRun.objects.filter(status=DatasetRun.Status.SUCCEEDED, run__kind=LOAD)
    conditions = {
        "system": Exists(System.objects.all()),
        "source": Exists(SourceDataset.objects.all()),
        "dataset": Exists(TargetDataset.objects.all()),
        "report": Exists(ChangeReport.objects.all()),
        "approved": Exists(Approval.objects.filter(decision=YES)),
        "loaded": Exists(loaded),
    }
    # One query, of a row that every installation has.
    done = get_user_model().objects.filter(pk=user.pk).annotate(**conditions).values(*conditions).get()
    if done["loaded"]:
        return []
    sources, reports = reverse("source_list"), reverse("report_list")
    return [
        FirstStep("Add a system", reverse("source_add"), done["system"]),
        FirstStep("Add a source", reverse("source_add"), done["source"]),
        FirstStep("Generate its datasets", sources, done["dataset"]),
        FirstStep("Create a change report", f"{reports}#build", done["report"]),
        FirstStep("Approve it, where the change policy asks for it", reports, done["approved"]),
        FirstStep("Load", f"{reverse('run_list')}?start=#start", done["loaded"]),
    ]


def favourites(user: Any) -> list[tuple[str, str]]:
    """Return favourites of a user, of each kind the last marked: addresses and names."""
    marked = set(favourites_of(user).order_by().values_list("subject_kind", flat=True).distinct())
    return [
        (address(row), name(row))
        for kind, (rows, key, address, name) in _FAVOURITES.items()
        if kind in marked
        for row in favourite_rows(rows(user), user, kind, key)[:FAVOURITES]
    ]


# Rows that the user may see, field that favourites refer to, address and name, by kind.
_FAVOURITES: dict[str, tuple[Callable[[Any], QuerySet], str, Callable[[Any], str], Callable[[Any], str]]] = {
    "dataset": (lambda _: target_datasets(), "key", lambda row: reverse("dataset_page", args=[row.key]), str),
    "report": (
        lambda _: reports().prefetch_related(None),
        "report_id",
        lambda row: reverse("report_page", args=[row.report_id]),
        lambda row: f"Report of {row.title}",
    ),
    "source": (lambda _: source_datasets(), "key", lambda row: reverse("source_page", args=[row.key]), str),
    "schedule": (
        lambda _: schedules(),
        "key",
        lambda row: reverse("schedule_page", args=[row.key]),
        lambda row: f"Schedule {row.name}",
    ),
    "saved_query": (
        lambda user: saved_queries(user) if may_somewhere(user, Permission.READ_DATA) else SavedQuery.objects.none(),
        "key",
        lambda row: f"{reverse('sql_page')}?saved={row.key}",
        lambda row: f"Query {row.name}",
    ),
}


@never_cache
@require_safe
def home_charts(request: HttpRequest) -> HttpResponse:
    """Show the charts on the home page; loaded after the page, because they take longer."""
    environment = current_environment()
    runs = newest_runs().filter(environment=environment, finished_at__isnull=False)[:DRAWN]
    whole = (charts.freshness_chart(environment), charts.warehouse_disk_chart(environment))
    drawn = [*charts.run_charts(with_totals(runs)), *filter(None, whole)]
    return render(request, "home/charts.html", {"charts": drawn})


def _active_work(request: HttpRequest) -> dict[str, Any]:
    """Return the context of active work: HTML, a digest for the next request, and ``busy`` if there is any."""
    environment = current_environment()
    runs = list(active_runs()[:LATEST])
    executions = list(active_executions(environment=environment)[:LATEST])
    leases = leases_in_force(environment)
    due = schedules(environment=environment).filter(active=True).order_by("next_at", "pk")
    context = {
        "latest": with_totals(newest_runs()[:LATEST]),
        "runs": runs,
        "executions": executions,
        "leases": leases,
        "coming": list(due[:COMING]),
        "troubles": troubles(),
        "failing": failing_schedules(environment),
        "alive": bool(live_workers()),
    }
    html = render_to_string("home/state.html", context, request=request)
    seen = hashlib.sha256(html.encode()).hexdigest()[:16]
    return {"now": html, "seen": seen, "busy": bool(runs or executions or leases.count)}


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the web process runs, without a check of database or worker."""
    return HttpResponse("ok\n", content_type="text/plain")


# --- errors ----------------------------------------------------------------------------------


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        return body_too_big(request, settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    return middleware.answer(
        request, status=400, title="Bad request", detail="The request could not be understood.", code="bad_request"
    )


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 403 with the account, the missing permission and the contact."""
    message, more = str(exception), {"account": request.user.get_username(), "contact": settings.CONTACT}
    return middleware.answer(
        request, status=403, title="Not allowed", detail=message, code="permission_denied", more=more
    )


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Return 404; of a deleted object with its name, the user who deleted it, and the time."""
    message = "There is nothing at this address."
    more = {"gone": what_is_gone(request)}
    return middleware.answer(request, status=404, title="Not found", detail=message, code="not_found", more=more)


def server_error(request: HttpRequest) -> HttpResponse:
    """Return 500, or 503 if the control database does not respond."""
    error = sys.exc_info()[1]
    if isinstance(error, OperationalError | InterfaceError):
        return middleware.database_down(request, error)
    return middleware.answer(request, status=500, title="Server error", detail="", code="server_error")
