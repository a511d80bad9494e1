"""Refreshes before reports, previews and drift: their submission, and the page that waits for one."""

from collections.abc import Collection
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRedirect

from architecture.forms import ScopeForm
from architecture.models import ChangeReport, Refresh
from architecture.services.environments import current_environment
from architecture.services.refreshes import refreshes_of, request_refresh
from architecture.services.report_basis import tables_in_scope
from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import permitted
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.web.views import Page, RowPage
from metadata.domain.scope import Scope
from metadata.permissions import here

REPORT, PREVIEW, DRIFT = Refresh.Purpose.REPORT, Refresh.Purpose.PREVIEW, Refresh.Purpose.DRIFT
_TITLES = {REPORT: "Create report", PREVIEW: "Create preview", DRIFT: "Check drift"}


def to_report(request: HttpRequest, report: ChangeReport) -> HttpResponse:
    """Redirect to a requested report; add a message if another user had created it before."""
    if report.created_by_id != request.user.pk:
        messages.info(request, "Nothing changed since this report; continue with it.")
    return redirect("report_page", report.report_id)


def to_section(report: ChangeReport, section: str) -> HttpResponse:
    """Redirect to a section of the report's page."""
    return redirect(f"{reverse('report_page', args=[report.report_id])}#{section}")


def refresh_first(request: HttpRequest, keys: Collection[str], purpose: str, **options: Any) -> HttpResponse:
    """Submit a refresh of these tables, and redirect to the page that waits for it."""
    submitted = request_refresh(keys=keys, purpose=purpose, user=request.user, **options)
    return redirect("refresh_page", submitted.job.pk)


@require_POST
@permitted(Permission.EXECUTE_REPORTS, on=here)
def drift_refresh(request: HttpRequest) -> HttpResponse:
    """Refresh every table that was applied or is described, then show the drift."""
    keys = tables_in_scope(environment=current_environment(), scope=Scope())
    return refresh_first(request, keys, DRIFT) if keys else redirect("drift_page")


class RefreshPage(RowPage, Page):
    """The page that waits for a refresh; once that has succeeded, it redirects to the result."""

    name, by, template_name = "refresh", "pk", "architecture/refresh_page.html"

    def rows(self) -> QuerySet[Refresh]:
        return refreshes_of(self.request.user)

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return self.to_result() if self.row.status == states.SUCCEEDED else self.render()

    def to_result(self) -> HttpResponse:
        """Redirect to the object that the refresh was requested for."""
        if self.row.purpose == REPORT:
            return to_report(self.request, self.row.report)
        if self.row.purpose == PREVIEW:
            return to_section(self.row.report, "preview")
        return redirect("drift_page")

    @property
    def seen(self) -> str:
        """Show the state of the report; 204 until it changes."""
        return f"{self.row.status}-{'alive' if live_workers() else 'alone'}"

    def context(self) -> dict[str, Any]:
        refresh = self.row
        title = _TITLES.get(refresh.purpose, "Refresh")
        context = super().context() | {"title": title, "tables": len(refresh.tables)}
        if refresh.is_finished:
            scope = None if refresh.scope is None else Scope.from_json(refresh.scope)
            return context | {"form": scope and ScopeForm.of(scope)}
        seen = self.seen
        return context | {"seen": seen, "alone": seen.endswith("alone")}


class RefreshLive(RefreshPage):
    """The part of that page that changes; nothing (204) while the page is up to date."""

    template_name = "architecture/refresh_live.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if self.row.status == states.SUCCEEDED:
            return HttpResponseClientRedirect(self.to_result()["Location"])
        if not self.row.is_finished and request.GET.get("seen") == self.seen:
            return HttpResponse(status=204)
        return self.render()
