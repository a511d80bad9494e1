"""Form of one column, and the effects of its changes."""

from typing import Any

from django.contrib import messages
from django.http import HttpResponse
from django.urls import reverse

from elevata.web.views import CreatePage, DetailPage, EditPage
from metadata.domain.impact import DROP, RENAME, RETYPE
from metadata.forms.columns import ColumnForm, NewColumnForm
from metadata.models import SourceColumn, TargetColumn
from metadata.selectors.impact import Downstream, impact_of
from metadata.services.datasets.targets import create_target_column, update_target_column
from metadata.views.base import ColumnPage, DatasetPage, Editing, page_of


class ColumnEdit(Editing, ColumnPage, EditPage):
    """Edit a column, except its name and its place."""

    form_class, service = ColumnForm, staticmethod(update_target_column)
    template_name, message = "metadata/column_form.html", "{row.name} is saved."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"dataset": self.row.dataset}

    def context(self) -> dict[str, Any]:
        return super().context() | {"known_types": ColumnForm.known_types}


_IMPACTS = {DROP: "If you drop it", RENAME: "If you rename it", RETYPE: "If you change its type"}


class ColumnImpact(ColumnPage, DetailPage):
    """Effects of dropping, renaming and retyping a column; htmx receives the part of the column's form."""

    template_name, part_template = "metadata/column_impact_page.html", "metadata/column_impact.html"

    def context(self) -> dict[str, Any]:
        downstream = Downstream(self.row)
        parts = [(title, impact_of(self.row, each, downstream=downstream)) for each, title in _IMPACTS.items()]
        return super().context() | {"parts": parts}


class SourceColumnImpact(DetailPage):
    """Effects of dropping, renaming and retyping a column of a source on the columns that read it."""

    model, name, template_name = SourceColumn, "column", "metadata/column_impact_page.html"

    def rows(self) -> Any:
        return super().rows().select_related("dataset__system")

    def context(self) -> dict[str, Any]:
        downstream = Downstream(self.row)
        parts = [(title, downstream.impact(each)) for each, title in _IMPACTS.items()]
        return super().context() | {"source": self.row.dataset, "parts": parts}


class ColumnCreate(Editing, CreatePage, DatasetPage):
    """Add a column to a dataset, after the existing ones."""

    form_class, template_name = NewColumnForm, "metadata/column_form.html"
    message = "{row.name} is added."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        return {"dataset": self.row}

    def context(self) -> dict[str, Any]:
        back = reverse("dataset_page", args=[self.row.key])
        return super().context() | {"known_types": NewColumnForm.known_types, "back": back}

    def save(self, form: NewColumnForm) -> TargetColumn:
        return create_target_column(dataset=self.row, **form.given())

    def after_save(self, form: NewColumnForm, row: TargetColumn) -> HttpResponse:
        is_fed = self.row.select or row.expression or row.inputs.exists()
        if self.row.inputs.exists() and not is_fed:
            text = f"Nothing fills {row.name}: its rows have NULL until it has an expression or reads a column."
            messages.warning(self.request, text)
        return super().after_save(form, row)

    def address(self, row: TargetColumn) -> str:
        return reverse("column_create", args=[self.row.key]) if "another" in self.request.POST else page_of(row)

    def line(self, row: TargetColumn) -> str:
        return page_of(row)
