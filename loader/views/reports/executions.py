"""Pages of an execution: live steps, cancelling, resuming, abandoning and undoing it."""

import hashlib
from typing import Any

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from architecture.domain.reports.workflow import Refused
from architecture.models import Execution
from architecture.report_details import may_build, scope_of
from architecture.report_places import place_of_execution
from architecture.selectors import executions
from architecture.services.executions.executions import (
    Requested,
    abandon_execution,
    cancel_execution,
    resume_execution,
)
from architecture.services.reports.undo_options import offered
from architecture.services.reports.undo_reports import undo_report
from architecture.views.decisions import as_shown, builders, permitted, status_of
from architecture.views.forms import ReasonForm, UndoForm
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.selectors import live_workers
from loader.domain.runs import wait_reasons
from loader.views.reports.execution_log import newest_lines
from metadata.domain.roles import Permission
from metadata.permissions import may

EXECUTE = Permission.EXECUTE_REPORTS
STEPS_SHOWN = 50


@never_cache
@require_safe
def execution_page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show one execution."""
    return _page(request, _execution(pk))


def _page(
    request: HttpRequest,
    execution: Execution,
    *,
    refused: Refused | MetadataError | None = None,
    where: str = "",
    undo: UndoForm | None = None,
) -> HttpResponse:
    """Render the page; ``undo`` is the form as it was sent, where it was refused."""
    live, seen, query = _live(request, execution)
    record = getattr(execution, "record", None)
    ways = offered(record) if record is not None else ()
    sent = undo.data.getlist("operation") if undo is not None else None
    context = {
        "tab": "executions",
        "record": record,
        "ways_back": [(one, sent is None or str(one.ordinals[0]) in sent) for one in ways],
        "any_way": any(one.refused is None for one in ways),
        "undo": undo,
        "undone_by": list(record.undo_reports.order_by("-pk")) if record is not None else [],
        "may_build": may_build(request.user),
        "execution": execution,
        "live": live,
        "seen": seen,
        "query": query,
        "log": newest_lines(execution),
        "refused": as_shown(refused, request.user) if refused is not None else None,
        "where": where,
    }
    status = status_of(refused) if refused is not None else 422 if undo is not None and undo.errors else 200
    return render(request, "architecture/execution_page.html", context, status=status)


@never_cache
@require_safe
def execution_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of an execution's page that changes; nothing (204) while the page is up to date."""
    execution = _execution(pk)
    live, seen, query = _live(request, execution)
    if seen == request.GET.get("seen") and not execution.is_finished:
        return HttpResponse(status=204)
    context = {"execution": execution, "live": live, "seen": seen, "query": query}
    return render(request, "architecture/execution_live.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(EXECUTE)
def execution_cancel(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for confirmation, then stop the execution between two steps."""
    execution = _execution(pk)
    if request.method != "POST":
        return render(request, "architecture/execution_cancel.html", {"tab": "executions", "execution": execution})
    stopped = cancel_execution(execution=execution, person=request.user)
    if stopped.status == states.CANCELED:
        messages.success(request, "The execution is canceled.")
    elif stopped.is_finished:
        messages.info(request, f"The execution had {stopped.get_status_display().lower()} before.")
    else:
        messages.info(request, "The execution was told to stop: it does so after the step that is under way.")
    return redirect("execution_page", pk)


@require_POST
@permitted(EXECUTE)
def execution_resume(request: HttpRequest, pk: int) -> HttpResponse:
    """Queue a failed, cancelled or lost execution again; finished steps are not repeated."""
    execution = _execution(pk)
    try:
        resumed = resume_execution(execution=execution, person=request.user)
    except (Refused, MetadataError) as refused:
        return _page(request, _execution(pk), refused=refused)
    Requested(resumed).wake_after_commit()
    return redirect("execution_page", pk)


@require_http_methods(["GET", "HEAD", "POST"])
@permitted(EXECUTE)
def execution_abandon(request: HttpRequest, pk: int) -> HttpResponse:
    """Ask for a reason, then end the execution for good and seal its record."""
    execution = _execution(pk)
    form = ReasonForm(request.POST or None)
    context = {
        "tab": "executions",
        "execution": execution,
        "form": form,
        "possible": execution.status in states.RESTARTABLE and execution.report_id is not None,
    }
    if request.method != "POST":
        return render(request, "architecture/execution_abandon.html", context)
    if not form.is_valid():
        return render(request, "architecture/execution_abandon.html", context, status=422)
    try:
        abandon_execution(execution=execution, person=request.user, reason=form.cleaned_data["reason"])
    except Refused as refused:
        return _page(request, _execution(pk), refused=refused)
    messages.success(request, "The execution is given up; its record says what it did.")
    return redirect("execution_page", pk)


@require_POST
@builders
def execution_undo(request: HttpRequest, pk: int) -> HttpResponse:
    """Make the report that undoes a sealed execution, or (``choose``) the operations that are ticked."""
    execution = _execution(pk)
    form = UndoForm(request.POST) if "choose" in request.POST else None
    if form is not None and not form.is_valid():
        return _page(request, execution, where="undo", undo=form)
    try:
        if getattr(execution, "record", None) is None:
            raise Refused("NOTHING_TO_UNDO", "the execution has no sealed record yet", "let it end, or give it up")
        operations = form.cleaned_data["operation"] if form is not None else None
        report = undo_report(record=execution.record, person=request.user, operations=operations)
    except (Refused, MetadataError) as refused:
        return _page(request, execution, refused=refused, where="undo", undo=form)
    return redirect("report_page", report.report_id)


def _execution(pk: int) -> Execution:
    return get_object_or_404(executions(), pk=pk)


def _live(request: HttpRequest, execution: Execution) -> tuple[str, str, str]:
    """Return the changing part as HTML, a digest of it, and the query that shows the same steps again."""
    held = execution.status in states.HELD
    workers = live_workers().count() if execution.status in states.ACTIVE else 0
    wait = _wait(execution, workers)
    gone = wait is not None and wait.code == wait_reasons.GONE
    planned = execution.operations.filter(status="planned").order_by("ordinal")
    current = planned.values_list("ordinal", flat=True).first() if held else None
    steps, query = _steps(request, execution, current)
    context: dict[str, Any] = {
        "execution": execution,
        "record": getattr(execution, "record", None),
        "scope": _scope(execution),
        "steps": steps,
        "chosen": bool(query),
        "current": current,
        "wait": wait,
        "workers": workers,
        "may_execute": may(request.user, EXECUTE, on=place_of_execution(execution)),
        "cancelable": execution.status in (states.QUEUED, states.RUNNING),
        "resumable": (execution.status in states.RESTARTABLE or gone) and execution.report_id is not None,
        "gone": gone,
    }
    html = render_to_string("architecture/execution_state.html", context)
    return html, hashlib.sha256(html.encode()).hexdigest()[:16], query


def _wait(execution: Execution, workers: int) -> wait_reasons.Wait | None:
    return wait_reasons.wait_of(
        status=execution.status,
        queued_at=execution.queued_at,
        heartbeat_at=execution.heartbeat_at,
        phase=execution.phase,
        workers=workers,
        now=timezone.now(),
    )


def _steps(request: HttpRequest, execution: Execution, current: int | None) -> tuple[Page, str]:
    """Return the requested page of steps (by page or step), else that of the current or failed step; its query."""
    pages = Paginator(execution.operations.order_by("ordinal"), STEPS_SHOWN)
    page, step = request.GET.get("page", ""), request.GET.get("step", "")
    if page.isdecimal():
        found = pages.get_page(page)
        return found, f"page={found.number}"
    if step.isdecimal() and len(step) < 10:
        found = pages.get_page(int(step) // STEPS_SHOWN + 1)
        return found, f"page={found.number}"
    if current is None:
        failed = execution.operations.filter(status="failed").order_by("ordinal")
        current = failed.values_list("ordinal", flat=True).first()
    return pages.get_page((current or 0) // STEPS_SHOWN + 1), ""


def _scope(execution: Execution) -> str:
    if execution.report is not None:
        return scope_of(execution.report)
    return ""
