"""Pages of executions: the list, and one with live steps and log."""

import hashlib
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Page as RowsPage
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from architecture.domain.refusals import Refused
from architecture.filtersets import ExecutionFilter
from architecture.forms import ReasonForm, UndoForm
from architecture.models import Execution
from architecture.permissions import may_build, place_of_execution
from architecture.selectors.environments import environments
from architecture.selectors.executions import execution_events, executions, lines_after, newest_lines
from architecture.selectors.undo_forecasts import forecasts
from architecture.services.executions import Requested, abandon_execution, cancel_execution, resume_execution
from architecture.services.record_verification import verify_record
from architecture.services.undo import undo_report
from architecture.views.refusals import ForBuilders, as_shown
from architecture.views.reports import PER_PAGE
from elevata.accounts.permissions import may, may_somewhere
from elevata.accounts.roles import Permission
from elevata.core.database import shared_now
from elevata.core.errors import ProductError
from elevata.jobs import states
from elevata.jobs.registry import live_workers
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from elevata.web.views import ActionPage, DetailPage, RowPage

EXECUTE = Permission.EXECUTE_REPORTS
STEPS_SHOWN = 50


@require_safe
def execution_log(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the lines after ``after``; nothing (204) while there are none and more may come."""
    execution = get_object_or_404(Execution, pk=pk)
    after = request.GET.get("after", "")
    part = lines_after(execution, int(after) if after.isdecimal() and len(after) < 19 else 0)
    if not part.lines and part.more:
        return HttpResponse(status=204)
    return render(request, "architecture/execution_lines.html", {"execution": execution, "log": part})


@require_safe
def execution_log_file(request: HttpRequest, pk: int) -> HttpResponse:
    """Return the whole log as text: time (UTC), attempt, level, message."""
    execution = get_object_or_404(Execution, pk=pk)
    lines = [
        f"{line.at:%Y-%m-%dT%H:%M:%S.%f}Z attempt {line.attempt} {line.level:<7} {line.message}\n"
        for line in execution_events(execution=execution)
    ]
    response = HttpResponse("".join(lines), content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="execution-{execution.pk}.log"'
    return response


class ExecutionPage(RowPage):
    """Base of pages about one execution."""

    name, by, page = "execution", "pk", "execution_page"

    def rows(self) -> QuerySet[Execution]:
        return executions()

    @cached_property
    def live(self) -> tuple[str, str, str]:
        """Return the changing part as HTML, a digest of it, and the query that shows the same steps again."""
        return _live(self.request, self.row)

    def context(self) -> dict[str, Any]:
        return super().context() | {"tab": "executions"}


class ExecutionDetail(ExecutionPage, DetailPage):
    """One execution: its steps, log, record and possible undo."""

    template_name = "architecture/execution_page.html"
    undo: UndoForm | None = None

    def context(self) -> dict[str, Any]:
        live, seen, query = self.live
        return super().context() | {
            **undo_context(self.row, self.request.user, self.undo),
            "live": live,
            "seen": seen,
            "query": query,
            "log": newest_lines(self.row),
        }

    def refuse(self, error: ProductError, where: str = "") -> HttpResponse:
        """Show the page as it is now, with the reason of a refusal in the section ``where``."""
        self.row = self.find()
        return self.render(status=error.status, refused=as_shown(error, self.request.user), where=where)


def undo_context(execution: Execution, user: Any, form: UndoForm | None = None) -> dict[str, Any]:
    """Return the context of the section *Undo*; ``form`` is the form that was sent."""
    record = getattr(execution, "record", None)
    options = forecasts(record) if record is not None else ()
    sent: list[str] | None = None
    if form is not None:
        data: Any = form.data  # a QueryDict
        sent = data.getlist("operation")
    return {
        "record": record,
        "undo_options": [(option, sent is None or str(option.offer.ordinals[0]) in sent) for option in options],
        "any_option": any(option.possible for option in options),
        "undo": form,
        "undone_by": list(record.undo_reports.order_by("-pk")) if record is not None else [],
        "may_build": may_build(user, place_of_execution(execution)),
        "may_edit": may_somewhere(user, Permission.CHANGE_METADATA),
        "undoes_metadata": form is None or bool(form.data.get("metadata")),
    }


class ExecutionLive(ExecutionPage, DetailPage):
    """The part of an execution's page that changes; nothing (204) while the page is up to date."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        live, seen, query = self.live
        if seen == request.GET.get("seen") and not self.row.is_finished:
            return HttpResponse(status=204)
        undo = undo_context(self.row, request.user) | {"oob": True} if self.row.is_finished else {}
        return self.render("architecture/execution_live.html", live=live, seen=seen, query=query, **undo)


class ExecutionCancel(ExecutionPage, ActionPage):
    """Ask for confirmation, then stop the execution between two steps."""

    permissions, template_name = (EXECUTE,), "architecture/execution_cancel.html"

    def act(self, form: Any) -> HttpResponse:
        execution = cancel_execution(execution=self.row, user=self.request.user)
        if execution.status == states.CANCELED:
            messages.success(self.request, "The execution is canceled.")
        elif execution.is_finished:
            messages.info(self.request, f"The execution had {execution.get_status_display().lower()} before.")
        else:
            messages.info(self.request, "Cancel requested. The execution stops after the running step.")
        return redirect(self.address(execution))


class ExecutionAbandon(ExecutionPage, ActionPage):
    """Ask for a reason, then end the execution for good and seal its record."""

    permissions, form_class, template_name = (EXECUTE,), ReasonForm, "architecture/execution_abandon.html"

    def context(self) -> dict[str, Any]:
        is_possible = self.row.status in states.RESTARTABLE and self.row.report_id is not None
        return super().context() | {"possible": is_possible}

    def act(self, form: ReasonForm) -> HttpResponse:
        try:
            abandon_execution(execution=self.row, user=self.request.user, reason=form.cleaned_data["reason"])
        except Refused:
            self.row, self.refused = self.find(), Refused.STATUS
            raise
        messages.success(self.request, "Execution abandoned. See its record.")
        return redirect(self.address(self.row))


class ExecutionVerify(ExecutionDetail):
    """The page of an execution with the result of verifying its record now."""

    part_template = "architecture/record_verified.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        record = getattr(self.row, "record", None)
        if record is None:
            return self.refuse(Refused("NO_RECORD", "the execution has no sealed record yet", "wait for its end"))
        return self.render(verified=verify_record(record))


class ExecutionResume(ExecutionDetail):
    """Queue a failed, cancelled or lost execution again; finished steps are not repeated."""

    http_method_names = ["post"]
    permissions = (EXECUTE,)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            resumed = resume_execution(execution=self.row, user=request.user)
        except ProductError as error:
            return self.refuse(error)
        Requested(resumed).wake_after_commit()
        return redirect(self.address(self.row))


class ExecutionUndo(ForBuilders, ExecutionDetail):
    """Create the report that undoes a sealed execution, or (``choose``) the operations that are ticked."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        self.undo = form = UndoForm(request.POST) if "choose" in request.POST else None
        if form is not None and not form.is_valid():
            return self.render(status=422, where="undo")
        try:
            if getattr(self.row, "record", None) is None:
                hint = "wait for its end, or abandon it"
                raise Refused("NOTHING_TO_UNDO", "the execution has no sealed record yet", hint)
            operations = form.cleaned_data["operation"] if form is not None else None
            metadata = form is not None and form.cleaned_data["metadata"]
            record = self.row.record
            report = undo_report(record=record, user=request.user, operations=operations, metadata=metadata)
        except ProductError as error:
            return self.refuse(error, "undo")
        return redirect("report_page", report.report_id)


def _live(request: HttpRequest, execution: Execution) -> tuple[str, str, str]:
    workers = len(live_workers()) if execution.status in states.ACTIVE else 0
    wait = states.wait_of(
        status=execution.status,
        queued_at=execution.queued_at,
        heartbeat_at=execution.heartbeat_at,
        phase=execution.phase,
        workers=workers,
        now=shared_now(),
    )
    gone = wait is not None and wait.code == states.GONE
    planned = execution.operations.filter(status="planned").order_by("ordinal")
    current = planned.values_list("ordinal", flat=True).first() if execution.status in states.HELD else None
    steps, query = _steps(request, execution, current)
    context: dict[str, Any] = {
        "execution": execution,
        "record": getattr(execution, "record", None),
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


def _steps(request: HttpRequest, execution: Execution, current: int | None) -> tuple[RowsPage, str]:
    """Return the requested page of steps (by page or step), else that of the current or failed step; its query."""
    pages = Paginator(execution.operations.order_by("ordinal"), STEPS_SHOWN)
    number, step = request.GET.get("page", ""), request.GET.get("step", "")
    if step.isdecimal() and len(step) < 10 and not number.isdecimal():
        number = str(int(step) // STEPS_SHOWN + 1)
    if number.isdecimal():
        page = pages.get_page(number)
        return page, f"page={page.number}"
    if current is None:
        failed = execution.operations.filter(status="failed").order_by("ordinal")
        current = failed.values_list("ordinal", flat=True).first()
    return pages.get_page((current or 0) // STEPS_SHOWN + 1), ""


def _record_of(execution: Execution) -> UUID | None:
    record = getattr(execution, "record", None)
    return record.record_id if record is not None else None


class ExecutionList(ListPage):
    """Executions, newest first, with their records."""

    filterset, per_page, template_name = ExecutionFilter, PER_PAGE, "architecture/execution_list.html"
    listed = staticmethod(executions)
    columns: ClassVar = (
        Column("Execution", {"execution": "pk"}, sort="id", descends=True),
        Column("State", {"state": "status"}, sort="status"),
        Column("Report", {"report": lambda row: row.report.report_id if row.report else None}, sort="report"),
        Column("Environment", {"environment": "environment.name"}, sort="environment"),
        Column(
            "Steps",
            {"steps": "operation_count", "done": "done_count", "failed": "failed_count"},
            sort="steps",
            descends=True,
        ),
        Column("Requested", {"requested": "requested_at", "by": "who"}, sort="requested_at", descends=True),
        Column("Took", {"seconds": "seconds"}, sort="took", descends=True, kind="num"),
        Column(
            "Record",
            {"record": _record_of},
            sort="record",
            descends=True,
        ),
    )

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "tab": "executions",
            "environment_names": [environment.name for environment in environments()],
            "live": any(not execution.is_finished for execution in self.rows_page.object_list),
        }
