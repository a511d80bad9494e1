"""Parts of a report's page that are loaded after it."""

from typing import Any, ClassVar

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse

from architecture.domain.comparison import compare
from architecture.selectors.column_impacts import column_impacts
from architecture.selectors.downstream_graph import downstream_graph
from architecture.selectors.report_details import names_of
from architecture.selectors.report_state import ReportState, behind
from architecture.selectors.reports import scope_of
from architecture.services.reports import operations_of
from architecture.views.reports import CHANGES_SHOWN, DATASETS_COMPARED, OPERATIONS_SHOWN, ReportPage
from elevata.web.requests import htmx_of
from elevata.web.views import DetailPage


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
