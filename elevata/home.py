"""Home page, page frame, health, errors and deleted objects."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.decorators import login_not_required
from django.db.models import Exists, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.domain.decisions import YES
from architecture.models import Approval, ChangeReport
from architecture.selectors.reports import reports
from architecture.services.environments import current_environment
from elevata.accounts.permissions import may_somewhere
from elevata.accounts.roles import Permission
from elevata.jobs.registry import live_workers
from elevata.lists.selectors import favourite_rows, favourites_of
from elevata.page_frame import Shell
from loader.contract.run_states import LOAD
from loader.models import DatasetRun, SavedQuery
from loader.schedules.selectors import failing_schedules, schedules
from loader.selectors import charts
from loader.selectors.loads import drift_glance, leases_in_force, warehouse
from loader.selectors.reads import saved_queries
from loader.selectors.runs import active_executions, active_runs, newest_runs, troubles, with_totals
from metadata.models import SourceDataset, System, TargetDataset
from metadata.selectors.columns import layer_counts
from metadata.selectors.datasets import source_datasets, systems, target_datasets

LATEST, COMING, DRAWN, FAVOURITES = 8, 5, 50, 12


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
    newest = list(newest_runs().filter(environment=environment, finished_at__isnull=False)[:DRAWN])
    runs = charts.largest_comparable_group(newest)
    whole = (charts.freshness_chart(environment), charts.warehouse_disk_chart(environment))
    drawn = [*charts.run_charts(with_totals(runs)), *filter(None, whole)]
    return render(request, "home/charts.html", {"charts": drawn, "run": runs[0] if runs else None})


def _active_work(request: HttpRequest) -> dict[str, Any]:
    """Return the context of active work: HTML, a digest for the next request, and ``busy`` if there is any."""
    environment = current_environment()
    runs = list(active_runs()[:LATEST])
    executions = list(active_executions(environment=environment)[:LATEST])
    leases = leases_in_force(environment)
    due = schedules(environment=environment).filter(active=True).order_by("next_at", "pk")
    coming = list(due[:COMING])
    context = {
        "shell": Shell(request.path, request.user),
        "latest": with_totals(newest_runs()[:LATEST]),
        "runs": runs,
        "executions": executions,
        "leases": leases,
        "coming": coming,
        "has_schedules": bool(coming) or schedules(environment=environment).exists(),
        "troubles": troubles(),
        "failing": failing_schedules(environment),
        "alive": bool(live_workers()),
    }
    html = render_to_string("home/state.html", context, request=request)
    seen = hashlib.sha256(html.encode()).hexdigest()[:16]
    busy = bool(runs or executions or leases.count)
    # The frame of the page shows the same shell, so that its queries are run once.
    return {"now": html, "seen": seen, "busy": busy, "shell": context["shell"]}


@login_not_required
@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the web process runs, without a check of database or worker."""
    return HttpResponse("ok\n", content_type="text/plain")
