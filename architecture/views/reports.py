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
from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Refused
from architecture.dry_run_results import rehearsed
from architecture.filtersets import ReportFilter
from architecture.models import ChangeReport
from architecture.report_details import (
    environments,
    may_build,
    operation_rows,
    report_rows,
    scope_of,
    steps_by_table,
    touched,
)
from architecture.selectors import reports
from architecture.services.executions.records import approval_artifact
from architecture.services.reports.approvals import approve, reject
from architecture.services.reports.reports import shown
from architecture.services.states.environments import current_environment
from architecture.services.states.observed_states import seen_at
from architecture.views.decisions import as_shown, permitted, status_of
from architecture.views.forms import DecisionForm, ScopeForm
from architecture.views.report_status import state_of
from elevata.core.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.selectors import schemas, target_datasets
from metadata.views.paging import filtered

PER_PAGE = 25
SUGGESTED = 500
CHANGES_SHOWN = 40
# What stands behind a longer report takes longer to find than its page may take: it follows.
_TOLD_AT_ONCE = 500
OPERATIONS_SHOWN = 100


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
        "seen_at": seen_at(environment=current_environment()),
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
    """The report; 404 if there is none. Its ``content`` is long, and loaded only when it is asked for."""
    related = ("environment", "created_by", "undo_of__execution", "superseded_by")
    found = ChangeReport.objects.select_related(*related)
    found = found.defer("content", "superseded_by__content", "superseded_by__document", "undo_of__document")
    return get_object_or_404(found, report_id=report_id)


def story(
    request: HttpRequest,
    report: ChangeReport,
    *,
    refused: Refused | MetadataError | None = None,
    where: str = "",
    note: str = "",
) -> HttpResponse:
    """A report's page. ``refused`` is shown in the section ``where`` the person acted; ``note`` is what they typed."""
    now = state_of(report)
    preview = now.preview
    tables = steps_by_table(preview) if preview is not None else []
    rehearsal = preview.rehearsals.order_by("-pk").first() if preview is not None else None
    operation_count = len(report.document["rows"])
    context = {
        "tab": "reports",
        "report": report,
        "scope": scope_of(report),
        "operations": operation_rows(report, limit=None if "all" in request.GET else OPERATIONS_SHOWN),
        "operation_count": operation_count,
        "warnings": report.document.get("warnings", []),
        "behind": change_log.behind(report, limit=CHANGES_SHOWN) if operation_count <= _TOLD_AT_ONCE else None,
        "preview": preview,
        "tables": tables,
        "touched": touched(preview, tables) if preview is not None else None,
        "rehearsal": rehearsal,
        "rehearsed": rehearsed(rehearsal, request.user),
        "executions": now.executions,
        "supersedes": list(report.supersedes.defer("document", "content").order_by("-pk")),
        "refused": as_shown(refused, request.user) if refused is not None else None,
        "where": where,
        "note": note,
        "note_help": DecisionForm.base_fields["note"].help_text,
    }
    context |= now.context(request.user)
    return render(
        request, "architecture/report_page.html", context, status=status_of(refused) if refused is not None else 200
    )


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
