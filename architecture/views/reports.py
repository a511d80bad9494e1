"""Change reports: the list, and the whole story of one on one page. Making one is the loader's: it looks first."""

import json
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from architecture import change_log
from architecture.domain import workflow
from architecture.domain.scope import Scope
from architecture.domain.workflow import Refused
from architecture.filtersets import ReportFilter
from architecture.models import ChangeReport
from architecture.rehearsed import rehearsed
from architecture.selectors import reports
from architecture.services.approvals import approve, reject
from architecture.services.environments import current_environment
from architecture.services.observing import last_seen
from architecture.services.previews import newest_preview
from architecture.services.records import approval_artifact
from architecture.services.reports import is_stale, shown
from architecture.shown import (
    environments,
    may_build,
    operation_rows,
    report_rows,
    scope_of,
    standing,
    steps_by_table,
    touched,
)
from architecture.views.deciding import as_shown, permitted, status_of
from architecture.views.forms import DecisionForm, ScopeForm
from metadata.domain.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.selectors import schemas, target_datasets
from metadata.views.paging import filtered

PER_PAGE = 25
SUGGESTED = 500
CHANGES_SHOWN = 40
# Reports in these states may still be carried out, so whether they still hold matters.
_ALIVE = (workflow.OPEN, workflow.APPROVED, workflow.BLOCKED, workflow.NO_CHANGES)
# With these nothing can be done any more; nothing happens in a report without changes either.
_CLOSED = (workflow.BLOCKED, workflow.REJECTED, workflow.SUPERSEDED, workflow.NO_CHANGES)


# --- the list --------------------------------------------------------------------------------


@never_cache
@require_safe
def report_list(request: HttpRequest) -> HttpResponse:
    """Reports, newest first, and the form that makes one."""
    wanted = request.GET.get("dataset", "")
    form = ScopeForm.of(Scope("dataset", wanted)) if wanted else ScopeForm()
    return list_page(request, form, opened=bool(wanted))


def list_page(
    request: HttpRequest,
    form: ScopeForm,
    *,
    opened: bool = False,
    refused: Refused | MetadataError | None = None,
    status: int = 200,
) -> HttpResponse:
    """The list; ``refused`` is why the report that was just asked for was not made."""
    chosen, page = filtered(request, ReportFilter, reports(), PER_PAGE)
    names = target_datasets().filter(history_of__isnull=True)
    known = list(environments())
    context = {
        "tab": "reports",
        "filter": chosen,
        "page": page,
        "rows": report_rows(page.object_list),
        "environments": known,
        "any_report": any(one.report_count for one in known),
        "form": form,
        "form_opened": opened or form.is_bound or refused is not None,
        "refused": as_shown(refused, request.user) if refused is not None else None,
        "may_build": may_build(request.user),
        "seen_at": last_seen(environment=current_environment()).at,
        "schemas": list(schemas()),
        "dataset_names": names.order_by("schema__name", "name").values_list("schema__name", "name")[:SUGGESTED],
    }
    return render(request, "architecture/report_list.html", context, status=status)


# --- one report ------------------------------------------------------------------------------


@never_cache
@require_safe
def report_page(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """The whole story of one report."""
    return story(request, find(report_id))


def find(report_id: UUID) -> ChangeReport:
    """The report with its documents; 404 if there is none."""
    related = ("environment", "created_by", "undo_of__execution", "superseded_by")
    return get_object_or_404(ChangeReport.objects.select_related(*related), report_id=report_id)


def story(
    request: HttpRequest,
    report: ChangeReport,
    *,
    refused: Refused | MetadataError | None = None,
    where: str = "",
    note: str = "",
) -> HttpResponse:
    """A report's page. ``refused`` is shown in the section ``where`` the person acted; ``note`` is what they typed."""
    preview = newest_preview(report)
    tables = steps_by_table(preview) if preview is not None else []
    rehearsal = preview.rehearsals.order_by("-pk").first() if preview is not None else None
    executions = list(report.executions.select_related("requested_by", "record").order_by("-pk"))
    execution = next((one for one in executions if one.status != workflow.ABANDONED), None)
    context = {
        "tab": "reports",
        "report": report,
        "scope": scope_of(report),
        "operations": operation_rows(report),
        "warnings": report.document.get("warnings", []),
        "behind": change_log.behind(report, limit=CHANGES_SHOWN),
        "standing": standing(report, request.user),
        "alive": report.status in _ALIVE and execution is None,
        "preview": preview,
        "tables": tables,
        "touched": touched(preview, tables) if preview is not None else None,
        "rehearsal": rehearsal,
        "rehearsed": rehearsed(rehearsal),
        "execution": execution,
        "executions": executions,
        "supersedes": list(report.supersedes.order_by("-pk")),
        "decidable": report.status == workflow.OPEN,
        "closed": report.status in _CLOSED,
        "refused": as_shown(refused, request.user) if refused is not None else None,
        "where": where,
        "note": note,
    }
    return render(
        request, "architecture/report_page.html", context, status=status_of(refused) if refused is not None else 200
    )


@never_cache
@require_safe
def report_standing(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Whether the report still holds: it is made again and compared. A part of its page, brought in later."""
    report = find(report_id)
    try:
        code = is_stale(report)
    except MetadataError as problem:  # what its scope names is gone
        return render(request, "architecture/report_standing.html", {"error": as_shown(problem), "report": report})
    error = as_shown(Refused(code)) if code else None
    return render(request, "architecture/report_standing.html", {"error": error, "report": report})


@require_POST
@permitted(Permission.APPROVE_REPORTS)
def report_approve(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Say yes to a report."""
    return _decide(request, find(report_id), approve, "Your approval is recorded.")


@require_POST
@permitted(Permission.APPROVE_REPORTS)
def report_reject(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Say no to a report, which ends it."""
    return _decide(request, find(report_id), reject, "The report is rejected; your note stays with it.")


def _decide(request: HttpRequest, report: ChangeReport, decide: Any, said: str) -> HttpResponse:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        problem = MetadataError("invalid", " ".join(form.errors["note"]), "note")
        return story(request, report, refused=problem, where="approvals", note=form["note"].value() or "")
    try:
        decide(report=report, person=request.user, note=form.cleaned_data["note"])
    except Refused as refused:
        return story(request, report, refused=refused, where="approvals", note=form.cleaned_data["note"])
    messages.success(request, said)
    return redirect("report_page", report.report_id)


# --- files -----------------------------------------------------------------------------------


@never_cache
@require_safe
def report_file(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """The report as ``change-report/v1``."""
    report = find(report_id)
    return json_file(shown(report), f"report-{report.fingerprint[:12]}.json")


@never_cache
@require_safe
def report_approvals(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """The report and what people decided on it, as a file that ``verify_artifact`` takes."""
    report = find(report_id)
    return json_file(approval_artifact(report), f"approvals-{report.fingerprint[:12]}.json")


def json_file(document: dict[str, Any], name: str) -> HttpResponse:
    """A document as a file to keep."""
    answer = HttpResponse(
        json.dumps(document, indent=2, ensure_ascii=False) + "\n", content_type="application/json; charset=utf-8"
    )
    answer.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer
