"""Edits of the datasets, sources or columns that are selected in a list, and the undo of an edit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError, as_sentence
from elevata.core.words import counted
from elevata.web.forms import ProductForm, ReasonField
from elevata.web.views import CONFLICT, REFUSED, Page
from metadata.domain.bulk_edits import ACTIONS, COLUMN_ACTIONS, MOST_ROWS, RETIRE, SOURCE_ACTIONS
from metadata.forms.bulk_edits import BulkEditForm
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.datasets import source_datasets, target_datasets
from metadata.services.bulk_edits import EditsRefused, RowEdit, apply_edits, edits_of, preview_edits, reader_counts
from metadata.services.bulk_undo import undo_edits
from metadata.views.base import BaseDatasetPage, Editing, keys_of, page_of, seen_versions


@dataclass(frozen=True)
class SelectedRow:
    """Selected dataset with the effect of an action on it, or the reason why there is none."""

    name: str
    effect: str = ""
    reason: str = ""


class SelectedRows(Page):
    """Base of pages about the rows that are selected in a list; the list sends their keys."""

    template_name = "metadata/selected_rows.html"
    noun: ClassVar[str]
    list_page: ClassVar[str]
    list_label: ClassVar[str]

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return redirect(self.list_page)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not self.selected:
            return self.refuse(f"Select at least one {self.noun}.")
        if len(self.selected) > MOST_ROWS:
            return self.refuse(f"At most {MOST_ROWS} {self.noun}s are changed at once.")
        return self.handle()

    def handle(self) -> HttpResponse:
        """Return the response for the selected rows."""
        raise NotImplementedError

    def refuse(self, message: str) -> HttpResponse:
        """Return to the list with an error."""
        messages.error(self.request, message)
        return redirect(self.back)

    def rows_of(self, keys: list[UUID]) -> QuerySet:
        """Return the rows of the list with these keys, in the order of names."""
        raise NotImplementedError

    @cached_property
    def selected(self) -> list[Any]:
        """Return the selected rows that exist."""
        keys = self.keys()
        return list(self.rows_of(keys)) if keys else []

    def keys(self) -> list[UUID]:
        return keys_of(self.request.POST.getlist("key"))

    @property
    def filters(self) -> str:
        """Return the filters of the list, as a query."""
        return self.request.POST.get("filters", "")[:2000]

    @property
    def back(self) -> str:
        """Return the address of the list with its filters."""
        return reverse(self.list_page) + (f"?{self.filters}" if self.filters else "")

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "back": self.back,
            "filters": self.filters,
            "selected": self.selected,
            "noun": self.noun,
            "list_label": self.list_label,
        }


class SelectedDatasets(SelectedRows):
    """Base of pages about the datasets that are selected in their list."""

    noun, list_page, list_label = "dataset", "dataset_list", "Datasets"

    def rows_of(self, keys: list[UUID]) -> QuerySet[TargetDataset]:
        return target_datasets().filter(key__in=keys).order_by("schema__name", "name")


class EditsPage(Editing):
    """Base of pages that preview edits by row, and make those that the user saw."""

    def seen(self) -> dict[UUID, int]:
        """Return the versions of the rows that the user saw, by key."""
        return seen_versions(self.request.POST.getlist("seen")[: MOST_ROWS + 1])

    def refused(self, form: ProductForm, problem: MetadataError) -> HttpResponse:
        """Show the rows with the reasons for which nothing was changed."""
        edits = problem.edits if isinstance(problem, EditsRefused) else ()
        return self.render(
            form=form,
            edits=edits,
            refused=as_sentence(problem.message),
            applies=[],
            status=CONFLICT if edits else REFUSED,
        )


class SelectedEdit(EditsPage, SelectedRows):
    """Base of edits of selected rows: value, preview by row, and the edit."""

    actions: ClassVar[Mapping[str, str]]

    def handle(self) -> HttpResponse:
        action = self.request.POST.get("do", "")
        if action not in self.actions:
            return self.refuse(f"Choose what to do with the selected {self.noun}s.")
        if not {"preview", "save"} & set(self.request.POST) and action != RETIRE:
            return self.render(form=BulkEditForm(action=action), edits=self.unchanged(), applies=[])
        form = BulkEditForm(self.request.POST, action=action)
        if not form.is_valid():
            return self.render(form=form, edits=self.unchanged(), applies=[], status=REFUSED)
        if "save" in self.request.POST:
            return self.save(form, self.seen())
        edits = preview_edits(edits_of(self.selected, action, form.value))
        readers = reader_counts(self.selected) if action == RETIRE else {}
        return self.render(form=form, edits=edits, readers=readers, applies=applicable(edits))

    def unchanged(self) -> list[RowEdit]:
        """Return the selected rows before a value is chosen."""
        return [RowEdit(str(row), row, row.version) for row in self.selected]

    def keys(self) -> list[UUID]:
        return list(self.seen()) if "save" in self.request.POST else super().keys()

    def save(self, form: BulkEditForm, seen: Mapping[UUID, int]) -> HttpResponse:
        if len(self.selected) < len(seen):
            return self.refuse(f"A selected {self.noun} does not exist any more; nothing was changed.")
        try:
            edits = edits_of(self.selected, form.cleaned_data["do"], form.value, seen)
            self._entry = apply_edits(edits, form.cleaned_data["reason"])
        except MetadataError as problem:
            return self.refused(form, problem)
        self.add_message(f"{counted(len(edits), self.noun)} changed.")
        return redirect(self.back)


class DatasetsEdit(SelectedEdit, SelectedDatasets):
    """Tag, classify, assign or retire the selected datasets."""

    actions = ACTIONS


class SourcesEdit(SelectedEdit):
    """Tag or assign the selected source datasets."""

    noun, list_page, list_label, actions = "source", "source_list", "Sources", SOURCE_ACTIONS

    def rows_of(self, keys: list[UUID]) -> QuerySet[SourceDataset]:
        return source_datasets().filter(key__in=keys).order_by("system__short_name", "name")


class ListedColumnsEdit(SelectedEdit):
    """Tag, assign or classify the columns, of any datasets, that are selected in their list."""

    noun, list_page, list_label, actions = "column", "column_list", "Columns", COLUMN_ACTIONS

    def rows_of(self, keys: list[UUID]) -> QuerySet[TargetColumn]:
        rows = TargetColumn.objects.select_related("dataset__schema").filter(key__in=keys, active=True)
        return rows.order_by("dataset__schema__name", "dataset__name", "ordinal")


class ColumnsEdit(SelectedEdit, BaseDatasetPage):
    """Columns of a dataset to select from, and their tags, owner and classification."""

    noun, actions = "column", COLUMN_ACTIONS

    @property
    def back(self) -> str:
        return page_of(self.row)

    @property
    def list_label(self) -> str:  # type: ignore[override]  # it depends on the row
        return str(self.row)

    def rows_of(self, keys: list[UUID]) -> QuerySet[TargetColumn]:
        return self.columns().filter(key__in=keys)

    def columns(self) -> QuerySet[TargetColumn]:
        rows = TargetColumn.objects.select_related("dataset__schema").filter(dataset=self.row, active=True)
        return rows.order_by("ordinal", "pk")

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        actions = {"edits": self.actions}
        return self._to_base() or self.render("metadata/columns_edit.html", columns=self.columns(), actions=actions)


class UndoForm(ProductForm):
    """Reason of an undo."""

    reason = ReasonField(required=False)


class ChangeUndo(EditsPage):
    """Undo all changes that were made together with one of the change log: preview by row, and the undo."""

    template_name = "metadata/change_undo.html"

    @cached_property
    def entry(self) -> ChangeLogEntry:
        return get_object_or_404(ChangeLogEntry, pk=self.kwargs["pk"])

    @cached_property
    def dataset(self) -> TargetDataset | None:
        """Return the changed dataset if the user came from its page."""
        if self.request.GET.get("back") != "dataset" or self.entry.dataset_key is None:
            return None
        return target_datasets().filter(key=self.entry.dataset_key).first()

    @property
    def back(self) -> str:
        """Return the page to show afterwards."""
        return reverse("change_list") if self.dataset is None else page_of(self.dataset)

    def context(self) -> dict[str, Any]:
        return super().context() | {"entry": self.entry, "back": self.back, "dataset": self.dataset}

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        try:
            edits = preview_edits(undo_edits(self.entry))
        except MetadataError as problem:
            return self.refused(UndoForm(), problem)
        return self.render(form=UndoForm(), edits=edits, applies=applicable(edits))

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        form = UndoForm(request.POST)
        if not (form.is_valid() and self.seen()):
            return redirect(request.get_full_path())
        try:
            edits = undo_edits(self.entry, self.seen())
            self._entry = apply_edits(edits, form.cleaned_data["reason"] or f"Undo of change {self.entry.pk}")
        except MetadataError as problem:
            return self.refused(form, problem)
        self.add_message(f"{counted(len(edits), 'change')} undone.")
        return redirect(self.back)


def applicable(edits: list[RowEdit]) -> list[RowEdit]:
    """Return the edits that can be made."""
    return [edit for edit in edits if edit.problem is None and edit.row is not None]
