"""Creation of reports and previews from the last observations, with the reason where it is refused."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from architecture.domain.reports.scope import Scope
from architecture.domain.reports.workflow import Refused
from architecture.models import ChangeReport
from architecture.services.reports.previews import make_preview
from architecture.services.reports.reports import build_report
from architecture.services.states.environments import current_environment
from architecture.views.decisions import status_of
from architecture.views.forms import ScopeForm
from architecture.views.reports import list_page, story
from elevata.core.errors import MetadataError

PREVIEW_SECTION = "preview"


def make_report(request: HttpRequest, scope: Scope) -> HttpResponse:
    """Make the report of a scope from the last observations; if it is refused, show the form with the reason."""
    try:
        report = build_report(environment=current_environment(), scope=scope, person=request.user)
    except (Refused, MetadataError) as refused:
        return refuse_report(request, ScopeForm.of(scope), refused)
    if report.created_by_id != request.user.pk:
        messages.info(request, "Nothing moved since this report was made, so it is the one to go on with.")
    return redirect("report_page", report.report_id)


def refuse_report(request: HttpRequest, form: ScopeForm, refused: Refused | MetadataError) -> HttpResponse:
    """Show the list with the form and the reason why the report was not made."""
    return list_page(request, form, opened=True, refused=refused, status=status_of(refused))


def make_preview_of(request: HttpRequest, report: ChangeReport) -> HttpResponse:
    """Make the preview of a report from the last observations; if it is refused, show the reason in its section."""
    try:
        make_preview(report=report, person=request.user)
    except (Refused, MetadataError) as refused:
        return story(request, report, refused=refused, where=PREVIEW_SECTION)
    return to_section(report, PREVIEW_SECTION)


def to_section(report: ChangeReport, section: str) -> HttpResponse:
    """Redirect to a section of the report's page."""
    address: Any = redirect("report_page", report.report_id)
    address["Location"] += f"#{section}"
    return address
