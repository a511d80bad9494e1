"""Lineage by column."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from elevata.web.paging import one_page
from elevata.web.requests import htmx_of
from elevata.web.views import TemplatePage
from metadata.domain.column_lineage import SOURCE, ColumnLineage, ColumnNode, ExposureNode
from metadata.forms.lineage import LineageForm
from metadata.selectors.lineage import of_columns
from metadata.selectors.requested_lineage import DRAWN, requested, suggestions

# Number of columns on a page of the table.
COLUMNS_SHOWN = 100
# Number of columns in the list of those that decide rows.
DECIDING_SHOWN = 200


@dataclass(frozen=True)
class LineageRow:
    """Column or exposure in the table: its page or path, and the columns that it reads."""

    node: ColumnNode | ExposureNode
    url: str
    reads: list[tuple[ColumnNode, str]]
    here: bool


class ColumnLineagePage(TemplatePage):
    """Lineage by column: the picture, and a table of the path of the chosen column.

    htmx receives the table only. The picture has the dataset or column that is typed, else the chosen column, else
    everything.
    """

    template_name, part_template = "metadata/column_lineage.html", "metadata/column_lineage_path.html"

    @cached_property
    def values(self) -> dict[str, Any]:
        return LineageForm.values_of(self.request.GET)

    @cached_property
    def table(self) -> ColumnLineage | None:
        """Return the path of the chosen column, or else what the picture shows."""
        return requested(**self.values)

    @cached_property
    def picture(self) -> ColumnLineage | None:
        values = self.values
        return requested(**values | {"column": ""}) if values["column"] and values["focus"] else self.table

    def column_url(self, node: ColumnNode) -> str:
        return f"{self.request.path}?{urlencode(_given(self.values | {'column': node.id}))}"

    def context(self) -> dict[str, Any]:
        table, chosen = self.table or ColumnLineage(), self.values["column"]
        page = one_page(self.request, (*table.nodes, *table.exposures), COLUMNS_SHOWN)
        rows = [
            LineageRow(
                node,
                _page_of_exposure(node) if isinstance(node, ExposureNode) else self.column_url(node),
                [(each, self.column_url(each)) for each in table.reads.get(node.id, ())],
                node.id == chosen,
            )
            for node in page.object_list
        ]
        return {
            "page": page,
            "rows": rows,
            "chosen": table.by_id.get(chosen),
            "is_unknown": self.table is None and bool(self.values["focus"] or chosen),
            "cycles": table.cycles,
            "deciding": [
                (each, f"{self.request.path}?{urlencode(_given(self.values | {'column': each.column}))}")
                for each in table.row_inputs[:DECIDING_SHOWN]
            ],
            "deciding_count": len(table.row_inputs),
            "query": urlencode(_given(self.values)),
            "all_url": f"{self.request.path}?{urlencode(_given(self.values | {'column': ''}))}",
            **({} if htmx_of(self.request) else self._picture_context()),
        }

    def _picture_context(self) -> dict[str, Any]:
        lineage, focus = self.picture or ColumnLineage(), self.values["focus"]
        graph = of_columns(lineage, _page_of_box, self.column_url, {self.values["column"]})
        return {
            "form": LineageForm(self.request.GET if self.request.GET else None, initial=self.values),
            "graph": graph,
            "is_drawn": 0 < len(graph.nodes) <= DRAWN,
            "most_drawn": DRAWN,
            "is_cut": self.picture is None and not focus and not self.values["column"],
            "suggestions": suggestions(focus) if self.picture is None and focus else [],
        }


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters that differ from their defaults, for an address."""
    defaults = LineageForm.values_of({})
    return {name: value for name, value in values.items() if value != defaults[name]}


def _page_of_box(node: ColumnNode | ExposureNode) -> str:
    if isinstance(node, ExposureNode):
        return _page_of_exposure(node)
    return reverse("source_page" if node.kind == SOURCE else "dataset_lineage", args=[node.dataset_key])


def _page_of_exposure(node: ExposureNode) -> str:
    return reverse("dataset_contract", args=[node.dataset_key])


@require_safe
def column_lineage_file(request: HttpRequest) -> HttpResponse:
    """Return the lineage of the address as JSON."""
    lineage = requested(**LineageForm.values_of(request.GET)) or ColumnLineage()
    return lineage_file(lineage.as_json(), "column-lineage.json")


def lineage_file(document: Any, name: str) -> HttpResponse:
    """Return a document as a JSON file to download."""
    response = JsonResponse(document, safe=False, json_dumps_params={"ensure_ascii": False, "indent": 2})
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
