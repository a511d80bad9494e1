"""Pages of reports and their parts, and lists of executions."""

import json
from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from architecture.domain import workflow
from architecture.domain.comparison import compare
from architecture.domain.data_contracts import contracts_text
from architecture.domain.report import Scope
from architecture.filtersets import ExecutionFilter, ReportFilter
from architecture.forms import DecisionForm, ScopeForm
from architecture.models import ChangeReport, Execution
from architecture.selectors.environments import executions, records, reports
from architecture.selectors.inbox import refusals_of
from architecture.selectors.report_details import (
    ReportRow,
    changed_size,
    column_impacts,
    downstream_graph,
    environments,
    may_build,
    names_of,
    operation_rows,
    report_rows,
    scope_of,
    steps_by_table,
)
from architecture.selectors.report_state import ReportState, behind
from architecture.services.executions import broken_contracts, rewrites_tables
from architecture.services.previews import dry_run_result
from architecture.services.proof import approval_artifact, record_artifact
from architecture.services.reports import operations_of, report_document
from architecture.services.states import current_environment, seen_at
from elevata.comments.selectors import with_comment_count
from elevata.comments.views import comments_panel
from elevata.lists.columns import Column
from elevata.web.requests import htmx_of
from elevata.web.views import DetailPage, ListPage, RowPage
from metadata.selectors.datasets import target_datasets

PER_PAGE = 25
MAX_SUGGESTIONS = 500
CHANGES_SHOWN = 40
# The change-log entries of a longer report are loaded after its page, because the query takes longer.
MAX_AT_ONCE = 500
OPERATIONS_SHOWN = 100
DATASETS_COMPARED = 20


def _record_of(execution: Execution) -> UUID | None:
    record = getattr(execution, "record", None)
    return record.record_id if record is not None else None


class ReportList(ListPage):
    """Reports, newest first, and the form that creates one."""

    filterset, per_page, template_name = ReportFilter, PER_PAGE, "architecture/report_list.html"
    list_route = "report_list"
    listed = staticmethod(reports)
    columns: ClassVar = (
        Column(
            "Report",
            {"title": "report.title", "report": "report.report_id", "fingerprint": "report.fingerprint"},
            sort="title",
        ),
        Column("State", {"state": "report.status"}, sort="status"),
        Column("Scope", {"scope": "scope"}, sort="scope"),
        Column("Environment", {"environment": "report.environment.name"}, sort="environment"),
        Column("Risk", {"risk": "report.risk"}, sort="risk", descends=True),
        Column("Operations", {"operations": "operation_count"}, kind="num"),
        Column("Authors", {"authors": lambda row: ", ".join(row.report.authors)}),
        Column(
            "Created",
            {"created by": "report.created_by", "created": "report.created_at"},
            sort="created_at",
            descends=True,
        ),
    )

    def detailed(self, rows: Sequence[Any]) -> list[ReportRow]:
        return report_rows(rows)

    @cached_property
    def form(self) -> ScopeForm:
        dataset = self.request.GET.get("dataset", "")
        return ScopeForm.of(Scope("dataset", dataset)) if dataset else ScopeForm()

    def context(self) -> dict[str, Any]:
        all_environments: list[Any] = list(environments())  # Any: they have their number of reports
        datasets = target_datasets().filter(history_of__isnull=True).order_by("schema__name", "name")
        rows = self.detailed_page
        waiting = [
            row.report for row in rows if row.report.status in (workflow.OPEN, workflow.APPROVED) and not row.execution
        ]
        outdated = refusals_of(waiting, check="checked" in self.request.GET)
        return super().context() | {
            "tab": "reports",
            "rows": rows,
            "outdated": outdated,
            "unchecked": "checked" not in self.request.GET and None in outdated.values(),
            "environment_names": [environment.name for environment in all_environments],
            "any_report": any(environment.report_count for environment in all_environments),
            "form": self.form,
            "form_opened": self.form.is_bound or bool(self.form.initial),
            "may_build": may_build(self.request.user),
            "seen_at": seen_at(environment=current_environment()),
            "dataset_names": datasets.values_list("schema__name", "name")[:MAX_SUGGESTIONS],
        }


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


# --- one report ------------------------------------------------------------------------------


def reports_without_content() -> QuerySet[ChangeReport]:
    """Return reports without their long ``content``, which is loaded when it is used."""
    related = ("environment", "created_by", "undo_of__execution", "superseded_by")
    rows = with_comment_count(ChangeReport.objects.select_related(*related), "report", "report_id")
    return rows.defer("content", "superseded_by__content", "superseded_by__document", "undo_of__document")


def find(report_id: UUID) -> ChangeReport:
    return get_object_or_404(reports_without_content(), report_id=report_id)


class ReportPage(RowPage):
    """Base of pages about one report."""

    name, by, page = "report", "report_id", "report_page"
    rows = staticmethod(reports_without_content)


class ReportDetail(ReportPage, DetailPage):
    """Page of a report: its operations, approvals, preview, dry run and executions."""

    template_name = "architecture/report_page.html"

    def context(self) -> dict[str, Any]:
        report, state = self.row, ReportState(self.row)
        preview = state.preview
        tables = steps_by_table(preview) if preview is not None else []
        dry_run = preview.dry_runs.order_by("-pk").first() if preview is not None else None
        count = len(report.document["rows"])
        return super().context() | {
            "tab": "reports",
            "scope": scope_of(report),
            "operations": operation_rows(report, limit=None if "all" in self.request.GET else OPERATIONS_SHOWN),
            "operation_count": count,
            "warnings": report.document.get("warnings", []),
            "behind": behind(report, limit=CHANGES_SHOWN) if count <= MAX_AT_ONCE else None,
            "preview": preview,
            "tables": tables,
            "changed_size": changed_size(preview, tables) if preview is not None else None,
            "dry_run": dry_run,
            "dry_run_result": dry_run_result(dry_run, self.request.user),
            "executions": state.executions,
            "supersedes": list(report.supersedes.defer("document", "content").order_by("-pk")),
            "refused": None,
            "where": "",
            "note": "",
            "note_help": DecisionForm.base_fields["note"].help_text,
            "acceptable": _acceptable(report),
            **comments_panel(self.request.user, "report", report.report_id),
            **state.context(self.request.user),
        }


def _acceptable(report: ChangeReport) -> list[tuple[str, str, str]]:
    """Return the consequences that an approval can accept: field, label and help text."""
    fields, broken = DecisionForm.base_fields, broken_contracts(report)
    more = {"readers_lost": ""} if rewrites_tables(report) else {}
    more |= {"contracts_broken": f" The report breaks {contracts_text(broken)}."} if broken else {}
    return [(name, str(fields[name].label), f"{fields[name].help_text}{text}") for name, text in more.items()]


# --- files -----------------------------------------------------------------------------------


@require_safe
def report_file(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Return the report as a ``change-report/v1`` file."""
    report = find(report_id)
    return json_file(report_document(report), f"report-{report.fingerprint[:12]}.json")


@require_safe
def report_approvals(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Return the report and its approvals as a file for ``verify_artifact``."""
    report = find(report_id)
    return json_file(approval_artifact(report), f"approvals-{report.fingerprint[:12]}.json")


@require_safe
def record_file(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """Return a record as a file for ``verify_artifact``."""
    record = get_object_or_404(records(), record_id=record_id)
    return json_file(record_artifact(record), f"record-{record.record_id}.json")


def json_file(document: dict[str, Any], name: str) -> HttpResponse:
    """Return a document as a file to download."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


# --- parts that are loaded after the page ----------------------------------------------------


class ReportStatus(ReportPage, DetailPage):
    """State of the report: up to date or outdated. The response is empty (204) if the page shows this state already.

    ``seen`` and ``mark`` in the query name the state that the page shows. If it is not the present one, the buttons
    are sent, too.
    """

    template_name = "architecture/report_status.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        state = ReportState(self.row)
        if state.alive and request.GET.get("seen") == f"{state.mark}.{state.signal}":
            return HttpResponse(status=204)
        changed = request.GET.get("mark", state.mark) != state.mark
        context = state.context(request.user, ask=True)
        # Buttons of a report that is up to date are not replaced: a user may be about to press one.
        replace_buttons = changed or not state.alive or context["refusal"] or "was" in request.GET
        swap = bool(htmx_of(request) and replace_buttons)
        return self.render(**context, preview=state.preview, changed=changed, oob=swap)


class ReportPart(ReportPage, DetailPage):
    """Base of the parts of a report's page; without scripts each is a page of its own."""

    part: ClassVar[str]

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        template = f"architecture/report_{self.part}.html"
        if htmx_of(request):
            return self.render(template)
        return self.render("architecture/report_part.html", part=template, scope=scope_of(self.row))


class ReportBehind(ReportPart):
    """Change-log entries whose changes the report applies to the warehouse."""

    part = "behind"

    def context(self) -> dict[str, Any]:
        return super().context() | {"behind": behind(self.row, limit=CHANGES_SHOWN)}


class ReportDifferences(ReportPart):
    """Datasets that the report changes, before and after."""

    part = "differences"

    def context(self) -> dict[str, Any]:
        page = Paginator(compare(self.row.content), DATASETS_COMPARED).get_page(self.request.GET.get("page"))
        names = names_of({key for pair in page.object_list for key in pair.input_keys})
        return super().context() | {
            "comparisons": [pair.rendered(names) for pair in page.object_list],
            "page": page,
            "by_number": dict(enumerate(operations_of(self.row), start=1)),
            "operations_shown": OPERATIONS_SHOWN,
        }


class ReportDownstream(ReportPart):
    """Datasets that the report changes and all that read them, on the lineage graph."""

    part = "downstream"

    def context(self) -> dict[str, Any]:
        return super().context() | {"downstream": downstream_graph(self.row), "impacts": column_impacts(self.row)}
