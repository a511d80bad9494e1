"""Pages of reports: the list, and one report."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404

from architecture.domain import report_states
from architecture.domain.data_contracts import contracts_text
from architecture.filtersets import ReportFilter
from architecture.forms import DecisionForm, ScopeForm
from architecture.models import ChangeReport
from architecture.permissions import may_build
from architecture.selectors.dry_run_results import dry_run_result
from architecture.selectors.environments import environments
from architecture.selectors.outdated_reports import refusals_of
from architecture.selectors.preview_steps import changed_size, steps_by_table
from architecture.selectors.report_details import operation_rows
from architecture.selectors.report_state import ReportState, behind
from architecture.selectors.reports import ReportRow, report_rows, reports, scope_of
from architecture.services.approvals import broken_contracts, rewrites_tables
from architecture.services.environments import current_environment
from architecture.services.observations import seen_at
from elevata.comments.selectors import with_comment_count
from elevata.comments.views import comments_panel
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from elevata.web.views import DetailPage, RowPage
from metadata.domain.scope import Scope
from metadata.selectors.datasets import target_datasets

PER_PAGE = 25
MAX_SUGGESTIONS = 500
CHANGES_SHOWN = 40
# The change-log entries of a longer report are loaded after its page, because the query takes longer.
MAX_AT_ONCE = 500
OPERATIONS_SHOWN = 100
DATASETS_COMPARED = 20


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
        pending = (report_states.OPEN, report_states.APPROVED)
        waiting = [row.report for row in rows if row.report.status in pending and not row.execution]
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
