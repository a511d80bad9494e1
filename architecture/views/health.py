"""Health page: findings about metadata, and their safe changes."""

from typing import Any, ClassVar

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from architecture.domain.health import FIXES, Severity
from architecture.filtersets import FindingFilter
from architecture.models import HealthFinding
from architecture.selectors import health
from architecture.services.health import fix_finding, refresh_findings
from elevata.accounts.roles import Permission
from elevata.core.words import counted
from elevata.lists.columns import Column
from elevata.web.list_pages import ListPage
from elevata.web.views import ButtonPage, Page


class HealthPage(ListPage):
    """Findings, the most severe first."""

    filterset, template_name = FindingFilter, "architecture/health_page.html"
    listed = staticmethod(health.findings)
    columns: ClassVar = (
        Column("Severity", {"severity": "severity"}, sort="severity"),
        Column("Rule", {"rule": "code"}, sort="code"),
        Column("Where", {"dataset": "dataset", "column": lambda row: row.column and row.column.name}, sort="dataset"),
        Column("Finding", {"finding": "text", "field": "field"}, sort="text"),
    )
    file_name = "findings"

    def context(self) -> dict[str, Any]:
        context = super().context()
        is_whole = not context["filter"].leaves_out and context["page"].number == 1
        return context | {
            "tab": "health",
            "counts": health.counts(),
            "concerns": health.concerns() if is_whole else [],
            "rows": [(finding, health.link_of(finding), FIXES.get(finding.fix)) for finding in context["page"]],
            "severities": [(level.value, level.value) for level in Severity],
        }


class HealthCheck(Page):
    """Button that computes the findings of all metadata anew."""

    http_method_names = ["post"]
    permissions = (Permission.CHANGE_METADATA,)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        refresh_findings()
        messages.success(request, f"All metadata is checked: {counted(health.findings().count(), 'finding')}.")
        return redirect("health_page")


class HealthFix(ButtonPage):
    """Button that makes the safe change of a finding."""

    permissions = (Permission.CHANGE_METADATA,)
    model, name, by = HealthFinding, "finding", "pk"

    def rows(self) -> Any:
        return health.findings()

    def address(self, row: HealthFinding) -> str:
        return reverse("health_page")

    def act(self) -> None:
        dataset = fix_finding(finding=self.row)
        messages.success(self.request, f"Done for {dataset}: {FIXES[self.row.fix].lower()}.")
