"""Steps of a report: build, approve, preview, dry run and execution."""

from collections.abc import Callable
from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.http import require_safe

from architecture.domain import report_states
from architecture.domain.refusals import Refused
from architecture.forms import DecisionForm, ReasonForm, ScopeForm
from architecture.models import DryRun
from architecture.selectors.dry_run_results import dry_run_result
from architecture.services.approvals import approve, may_withdraw, reject, withdraw_report
from architecture.services.dry_runs import request_dry_run
from architecture.services.environments import current_environment
from architecture.services.executions import request_execution
from architecture.services.previews import build_previewed_report, make_preview, newest_preview
from architecture.services.report_basis import named_scope, tables_in_scope
from architecture.services.reports import authors_of_report, tables_of
from architecture.views.refreshes import PREVIEW, REPORT, refresh_first, to_report, to_section
from architecture.views.refusals import ForBuilders, as_shown
from architecture.views.reports import ReportDetail, ReportList, ReportPage
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError, ProductError
from elevata.jobs.registry import live_workers
from elevata.web.views import ActionPage
from metadata.domain.scope import Scope


def begin_report(request: HttpRequest, scope: Scope, *, last: bool = False) -> HttpResponse:
    """Create a report of a scope after a refresh of its tables, or of the last observations; redirect to it.

    Raise ProductError if it cannot be created.
    """
    environment = current_environment()
    scope = named_scope(environment=environment, scope=scope)
    keys = tables_in_scope(environment=environment, scope=scope)
    if not keys:
        raise Refused("UNKNOWN_DATASET", "no dataset is described yet", "import metadata first")
    if not last:
        return refresh_first(request, keys, REPORT, scope=scope.as_json(), sizes=True)
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
    permissions = (Permission.EXECUTE_REPORTS,)
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


class ReportWithdraw(ForBuilders, ReportPage, ActionPage):
    """Ask for a reason, then withdraw a blocked report."""

    form_class, template_name = ReasonForm, "architecture/report_withdraw.html"
    refusal = "Withdrawing reports needs the editor, approver or operator role."

    def context(self) -> dict[str, Any]:
        report, user = self.row, self.request.user
        possible = report.status == report_states.BLOCKED and may_withdraw(report, user, authors_of_report(report))
        return super().context() | {"tab": "reports", "possible": possible}

    def act(self, form: ReasonForm) -> HttpResponse:
        withdraw_report(report=self.row, user=self.request.user, reason=form.cleaned_data["reason"])
        messages.success(self.request, "Report withdrawn.")
        return redirect(self.address(self.row))


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


@require_safe
def dry_run_live(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the part of a report's page about a dry run; nothing (204) while the page is up to date."""
    dry_run = get_object_or_404(DryRun.objects.select_related("preview__report"), pk=pk)
    if request.GET.get("seen") == dry_run.status:
        return HttpResponse(status=204)
    result = dry_run_result(dry_run, request.user)
    context = {"dry_run": dry_run, "dry_run_result": result, "alone": not live_workers()}
    return render(request, "architecture/dry_run.html", context)
