"""Steps of a report: build, approve, preview, dry run and execution; refreshes before them."""

from collections.abc import Callable, Collection
from typing import Any, ClassVar

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe
from django_htmx.http import HttpResponseClientRedirect

from architecture.domain.report import Scope
from architecture.domain.workflow import Refused
from architecture.forms import DecisionForm, ScopeForm
from architecture.models import ChangeReport, DryRun, Refresh
from architecture.services.executions import approve, reject, request_execution
from architecture.services.previews import (
    build_previewed_report,
    dry_run_result,
    make_preview,
    newest_preview,
    request_dry_run,
)
from architecture.services.refreshes import refreshes_of, request_refresh
from architecture.services.reports import scope_row, tables_in_scope, tables_of
from architecture.services.states import current_environment
from architecture.views.refusals import ForBuilders, as_shown
from architecture.views.reports import ReportDetail, ReportList
from elevata.accounts.permissions import permitted
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError, ProductError
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.web.views import Page, RowPage
from metadata.permissions import here

EXECUTE = Permission.EXECUTE_REPORTS
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


def begin_report(request: HttpRequest, scope: Scope, *, last: bool = False) -> HttpResponse:
    """Create a report of a scope after a refresh of its tables, or of the last observations; redirect to it.

    Raise ProductError if it cannot be created.
    """
    environment = current_environment()
    keys = tables_in_scope(environment=environment, scope=scope)
    if not keys:
        raise Refused("UNKNOWN_DATASET", "no dataset is described yet", "import metadata first")
    if not last:
        return refresh_first(request, keys, REPORT, scope=scope_row(scope), sizes=True)
    report = build_previewed_report(environment=environment, scope=scope, user=request.user)
    return to_report(request, report)


class ReportBuild(ForBuilders, ReportList):
    """Create a report: refresh the tables first, or (``last``) use the last observations.

    The form is on the list, which is shown again with the reason of a refusal.
    """

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return redirect("report_list")

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        self.form = form = ScopeForm(request.POST)
        if not form.is_valid():
            return self.render(status=422)
        try:
            return begin_report(request, form.scope_chosen(), last="last" in request.POST)
        except ProductError as error:
            return self.render(status=error.status, refused=as_shown(error, request.user))


class ReportStep(ReportDetail):
    """Base of the steps of a report: POST performs one; a refusal is shown in the section ``where`` of the page."""

    http_method_names = ["post"]
    permissions = (EXECUTE,)
    where: ClassVar[str]
    note = ""

    def act(self) -> HttpResponse:
        """Perform the step. ProductError is shown on the page."""
        raise NotImplementedError

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            return self.act()
        except ProductError as error:
            refused = as_shown(error, request.user)
            return self.render(status=error.status, refused=refused, where=self.where, note=self.note)


class ReportDecision(ReportStep):
    """Base of approval and rejection."""

    permissions, where = (Permission.APPROVE_REPORTS,), "approvals"
    decide: ClassVar[Callable[..., Any]]
    message: ClassVar[str]

    def act(self) -> HttpResponse:
        form = DecisionForm(self.request.POST)
        self.note = form["note"].value() or ""
        if not form.is_valid():
            raise MetadataError("invalid", " ".join(map(str, form.errors["note"])), "note")
        self.decide(report=self.row, user=self.request.user, note=form.cleaned_data["note"], **self.accepted(form))
        messages.success(self.request, self.message)
        return redirect(self.address(self.row))

    def accepted(self, form: DecisionForm) -> dict[str, bool]:
        """Return the consequences that the user accepts with the decision."""
        return {}


class ReportApprove(ReportDecision):
    """Approve a report."""

    decide, message = staticmethod(approve), "Report approved."

    def accepted(self, form: DecisionForm) -> dict[str, bool]:
        return form.accepted()


class ReportReject(ReportDecision):
    """Reject a report, which ends it."""

    decide, message = staticmethod(reject), "Report rejected."


class ReportPreview(ReportStep):
    """Create a report's preview: refresh its tables first, or (``last``) use the last observations."""

    where = "preview"

    def act(self) -> HttpResponse:
        if "last" not in self.request.POST:
            return refresh_first(self.request, tables_of(self.row), PREVIEW, report=self.row, sizes=True)
        make_preview(report=self.row, user=self.request.user)
        return to_section(self.row, "preview")


class ReportDryRun(ReportStep):
    """Request a dry run of the newest preview on clones."""

    where = "dry_run"

    def act(self) -> HttpResponse:
        preview = newest_preview(self.row)
        if preview is None:
            raise Refused("NO_PREVIEW")
        request_dry_run(preview=preview, user=self.request.user).wake_after_commit()
        return to_section(self.row, "dry-run")


class ReportExecute(ReportStep):
    """Execute the report as previewed: the request holds the fingerprint of the preview that the user saw."""

    where = "execute"

    def act(self) -> HttpResponse:
        fingerprint = self.request.POST.get("preview", "")
        requested = request_execution(
            report=self.row, user=self.request.user, preview_fingerprint=fingerprint, command="page"
        )
        requested.wake_after_commit()
        if not requested.requested:
            messages.info(self.request, "The report is already being executed. This is its execution.")
        return redirect("execution_page", requested.execution.pk)


# --- refreshes and dry runs ------------------------------------------------------------------


@require_POST
@permitted(EXECUTE, on=here)
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
            return context | {"form": ScopeForm.of(Scope(**refresh.scope)) if refresh.scope is not None else None}
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


@require_safe
def dry_run_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of a report's page about a dry run; nothing (204) while the page is up to date."""
    dry_run = get_object_or_404(DryRun.objects.select_related("preview__report"), pk=pk)
    if request.GET.get("seen") == dry_run.status:
        return HttpResponse(status=204)
    result = dry_run_result(dry_run, request.user)
    context = {"dry_run": dry_run, "dry_run_result": result, "alone": not live_workers()}
    return render(request, "architecture/dry_run.html", context)
