"""Steps of a report that need a worker: a refresh before it is made, preview, dry run, execution."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Refused
from architecture.dry_run_results import rehearsed
from architecture.models import Rehearsal
from architecture.services.executions.executions import request_execution
from architecture.services.reports.dry_runs import request_rehearsal
from architecture.services.reports.previews import newest_preview
from architecture.services.reports.report_inputs import tables_in_scope
from architecture.services.reports.reports import scope_row, tables_of
from architecture.services.states.environments import current_environment
from architecture.views.decisions import builders, permitted
from architecture.views.forms import ScopeForm
from architecture.views.reports import find, list_page, story
from elevata.core.errors import MetadataError
from elevata.jobs.selectors import live_workers
from loader.services.queries.refreshes import DRIFT, PREVIEW, REPORT
from loader.views.queries.refreshes import look_first
from loader.views.reports.report_creation import (
    PREVIEW_SECTION,
    make_preview_of,
    make_report,
    refuse_report,
    to_section,
)
from metadata.domain.roles import Permission

EXECUTE = Permission.EXECUTE_REPORTS


@require_http_methods(["GET", "HEAD", "POST"])
@builders
def report_build(request: HttpRequest) -> HttpResponse:
    """Make a report: refresh the tables first, or (``last``) take the last observations."""
    if request.method != "POST":
        return redirect("report_list")
    form = ScopeForm(request.POST)
    if not form.is_valid():
        return list_page(request, form, opened=True, status=422)
    try:
        scope = form.scope_chosen()
        keys = tables_in_scope(environment=current_environment(), scope=scope)
    except MetadataError as problem:
        return refuse_report(request, form, problem)
    if not keys:
        nothing = Refused("UNKNOWN_DATASET", "no dataset is described yet", "import metadata first")
        return refuse_report(request, form, nothing)
    if "last" in request.POST:
        return make_report(request, scope)
    return look_first(request, keys, {"do": REPORT, "scope": scope_row(scope)})


@require_POST
@permitted(EXECUTE)
def report_preview(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Make a report's preview: refresh its tables first, or (``last``) take the last observations."""
    report = find(report_id)
    if "last" in request.POST:
        return make_preview_of(request, report)
    try:
        keys = tables_of(report)
    except (Refused, MetadataError) as problem:
        return story(request, report, refused=problem, where=PREVIEW_SECTION)
    return look_first(request, keys, {"do": PREVIEW, "report": str(report.report_id)}, sizes=True)


@require_POST
@permitted(EXECUTE)
def drift_look(request: HttpRequest) -> HttpResponse:
    """Refresh every table that was applied or is described, then show the drift."""
    keys = tables_in_scope(environment=current_environment(), scope=Scope())
    return look_first(request, keys, {"do": DRIFT}) if keys else redirect("drift_page")


@require_POST
@permitted(EXECUTE)
def report_rehearse(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Request a dry run of the newest preview on clones."""
    report = find(report_id)
    try:
        preview = newest_preview(report)
        if preview is None:
            raise Refused("NO_PREVIEW")
        asked = request_rehearsal(preview=preview, person=request.user)
    except Refused as refused:
        return story(request, report, refused=refused, where="rehearsal")
    asked.wake_after_commit()
    return to_section(report, "rehearsal")


@never_cache
@require_safe
def rehearsal_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of a report's page about a dry run; nothing (204) while the page is up to date."""
    rehearsal = get_object_or_404(Rehearsal.objects.select_related("preview__report"), pk=pk)
    if request.GET.get("seen") == rehearsal.status:
        return HttpResponse(status=204)
    context = {
        "rehearsal": rehearsal,
        "rehearsed": rehearsed(rehearsal, request.user),
        "alone": not live_workers().exists(),
    }
    return render(request, "architecture/rehearsal.html", context)


@require_POST
@permitted(EXECUTE)
def report_execute(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Execute the report as previewed: the request holds the fingerprint of the preview that the user saw."""
    report = find(report_id)
    try:
        asked = request_execution(
            report=report,
            person=request.user,
            preview_fingerprint=request.POST.get("preview", ""),
            command="page",
        )
    except (Refused, MetadataError) as refused:
        return story(request, report, refused=refused, where="execute")
    asked.wake_after_commit()
    if not asked.requested:
        messages.info(request, "The report is being executed already; this is that execution.")
    return redirect("execution_page", asked.execution.pk)
