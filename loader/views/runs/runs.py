"""Load runs: the list, one run live, starting, cancelling, running again."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from architecture.report_places import here
from loader.domain.runs.dependencies import Scope
from loader.domain.runs.refusals import Refusal
from loader.filtersets import LoadRunFilter
from loader.models import LoadRun
from loader.selectors import load_runs
from loader.services.runs.runs import request_cancel, request_load_run
from loader.statistics import with_totals
from loader.views.runs.forms import StartLoadForm
from loader.views.runs.run_status import Standing, live_part
from metadata.domain.roles import Permission
from metadata.permissions import may, permitted
from metadata.selectors import schemas, target_datasets
from metadata.views.paging import filtered

START = Permission.START_LOAD
PER_PAGE = 25
SUGGESTED = 500


@never_cache
@require_safe
def run_list(request: HttpRequest) -> HttpResponse:
    """Show load runs, newest first, and the form that starts one."""
    wanted = request.GET.get("start", "")
    initial = {"scope": "dataset", "dataset": wanted} if wanted else None
    return _list(request, StartLoadForm(initial=initial), opened=bool(wanted))


def _list(request: HttpRequest, form: StartLoadForm, *, opened: bool, status: int = 200) -> HttpResponse:
    chosen, page = filtered(request, LoadRunFilter, load_runs(), PER_PAGE)
    names = target_datasets().filter(active=True, history_of__isnull=True, materialization="table")
    context = {
        "filter": chosen,
        "page": page,
        "rows": [(total, Scope.from_json(total.run.scope)) for total in with_totals(page.object_list)],
        "live": any(not run.is_finished for run in page.object_list),
        "form": form,
        "form_opened": opened or form.is_bound,
        "may_start": may(request.user, START, on=here),
        "schemas": list(schemas().order_by("ordinal", "name")),
        "dataset_names": names.order_by("schema__name", "name").values_list("schema__name", "name")[:SUGGESTED],
    }
    return render(request, "loader/run_list.html", context, status=status)


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(START, on=here)
def run_start(request: HttpRequest) -> HttpResponse:
    """Request a load run; a refusal is shown beside its field. The form itself is on the list."""
    if request.method != "POST":
        return redirect("run_list")
    form = StartLoadForm(request.POST)
    if form.is_valid():
        try:
            asked = request_load_run(
                scope=form.scope_chosen(),
                load_timestamp=form.cleaned_data["load_timestamp"],
                run_id=form.cleaned_data["run_id"].strip() or None,
                allow_empty=form.cleaned_data["allow_empty"],
                allow_deletes=form.cleaned_data["allow_deletes"],
                user=request.user,
            )
        except Refusal as refusal:
            form.add_refusal(refusal)
        else:
            tell(request, asked)
            return redirect("run_page", asked.run.run_id)
    return _list(request, form, opened=True, status=422)


def tell(request: HttpRequest, asked: Any) -> None:
    """Add a message about the result of a request where the run's page does not show it."""
    if not asked.requested:
        state = asked.run.get_status_display().lower()
        messages.info(request, f"This run was there already and is {state}; nothing was changed.")
    elif asked.notice:
        messages.warning(request, f"Load run {asked.notice}.")


@never_cache
@require_safe
def run_page(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show one load run."""
    return _shown(request, Standing.of(_run(run_id)), "loader/run_page.html")


@never_cache
@require_safe
def run_live(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show the part of a run's page that changes; nothing (204) while the page is up to date."""
    standing = Standing.of(_run(run_id))
    if standing.seen == request.GET.get("seen") and not standing.run.is_finished:
        return HttpResponse(status=204)
    return _shown(request, standing, "loader/run_live.html")


def _shown(request: HttpRequest, standing: Standing, template: str) -> HttpResponse:
    live, query = live_part(request, standing)
    return render(request, template, {"run": standing.run, "live": live, "seen": standing.seen, "query": query})


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(START, on=here)
def run_cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Ask for confirmation, then stop the run."""
    run = _run(run_id)
    if request.method != "POST":
        return render(request, "loader/run_cancel.html", {"run": run})
    stopped = request_cancel(run=run, user=request.user)
    if stopped.status == LoadRun.Status.CANCELED:
        messages.success(request, "The load run is canceled.")
    elif stopped.is_finished:
        messages.info(request, f"The load run had {stopped.get_status_display().lower()} before.")
    else:
        messages.info(request, "The load run was told to stop.")
    return redirect("run_page", run.run_id)


@require_POST
@permitted(START, on=here)
def run_again(request: HttpRequest, run_id: str) -> HttpResponse:
    """Queue a run again that did not succeed, under its own id: finished datasets are not repeated.

    ``allow_empty`` and ``allow_deletes`` in the form are decisions for this run.
    """
    run = get_object_or_404(LoadRun, run_id=run_id)
    try:
        decisions = {name: name in request.POST for name in ("allow_empty", "allow_deletes")}
        tell(request, request_load_run(run_id=run.run_id, user=request.user, **decisions))
    except Refusal as refusal:
        messages.error(request, refusal.one_line())
    return redirect("run_page", run.run_id)


def _run(run_id: str) -> LoadRun:
    return get_object_or_404(load_runs().select_related("execution"), run_id=run_id)
