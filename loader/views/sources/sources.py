"""Page of a source dataset, and the form that adds a column to its contract."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from elevata.web.requests import htmx_of
from elevata.web.views import ActionPage, DetailPage
from loader.domain.sources.proposal_states import OPEN
from loader.selectors.source_state import (
    DELIVERIES,
    deliveries,
    drift,
    freshness,
    loaded_dataset,
    newest_success,
    proposals,
    refusals,
    rows_ahead,
    schema_changes,
)
from loader.services.sources.uploads import takes_uploads
from metadata.domain.sources.reading_options import shown_options
from metadata.forms.imports import NewColumnForm
from metadata.permissions import here
from metadata.selectors.change_log import shown_entries
from metadata.selectors.datasets import source_dataset_detail
from metadata.services.source_contracts import ContractChanges, ImportedColumn, change_contract
from metadata.views.base import SourceDatasetPage, SourceEditing

CHANGES, PROPOSALS = 15, 6


class SourceDetail(DetailPage):
    """A source dataset: freshness, deliveries, refusals, contract, schema history and targets.

    The page comes at once; the freshness follows, because the files are listed for it.
    """

    name, template_name = "source", "loader/sources/source_page.html"
    part_template = "loader/sources/freshness_part.html"
    rows = staticmethod(source_dataset_detail)

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if htmx_of(request):
            return self.render(freshness=freshness(self.row))
        shown: dict[str, Any] = {"freshness": freshness(self.row)} if "show" in request.GET else {}
        return self.render(**self._parts(), **shown)

    def _parts(self) -> dict[str, Any]:
        columns = list(self.row.columns.all())
        keys = [column for column in columns if column.key_ordinal and column.active]
        newest = list(deliveries(self.row)[:DELIVERIES])
        known = list(proposals(self.row)[:PROPOSALS])
        return {
            "columns": columns,
            "business_key": sorted(keys, key=lambda column: column.key_ordinal),
            "options": shown_options(self.row.options),
            "deliveries": newest,
            "loaded": loaded_dataset(self.row),
            "uploadable": takes_uploads(self.row),
            "may_start": may(self.request.user, Permission.START_LOAD, on=here),
            "ahead": rows_ahead(newest_success(newest)),
            "refusals": refusals(self.row),
            "drift": drift(self.row, newest),
            "proposal": next((row for row in known if row.status == OPEN), None),
            "decided": [row for row in known if row.status != OPEN],
            "changes": shown_entries(schema_changes(self.row)[:CHANGES]),
            "may_edit": may(self.request.user, Permission.CHANGE_METADATA),
        }


class SourceColumnAdd(SourceEditing, SourceDatasetPage, ActionPage):
    """Form of a new column of a contract; name and type come from the report of a load."""

    form_class, template_name = NewColumnForm, "loader/sources/column_add.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {"back": self.address(self.row)}

    def initial_form(self) -> NewColumnForm:
        given = {name: self.request.GET[name][:200] for name in ("name", "type") if name in self.request.GET}
        return NewColumnForm(initial={"nullable": True, **given})

    def act(self, form: NewColumnForm) -> HttpResponse:
        column = ImportedColumn(**form.given())
        change_contract(source_dataset=self.row, changes=ContractChanges(add=(column,)))
        messages.success(self.request, f"{column.name} is in the contract. Review its targets.")
        return redirect("source_generate", self.row.key)
