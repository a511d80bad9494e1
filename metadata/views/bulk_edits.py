"""Edits of the datasets that are selected in their list, and the undo of an edit."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError, as_sentence
from elevata.core.words import counted
from elevata.web.forms import ProductForm, ReasonField
from elevata.web.views import REFUSED, Page
from metadata.domain.bulk_edits import ACTIONS, MOST_ROWS, RETIRE
from metadata.forms.bulk_edits import BulkEditForm
from metadata.models import TargetDataset
from metadata.selectors.datasets import target_datasets
from metadata.services.bulk_edits import (
    EditsRefused,
    RowEdit,
    apply_edits,
    edits_of,
    preview_edits,
    reader_counts,
    undo_edits,
)
from metadata.views.base import Editing, keys_of, page_of, seen_versions

CONFLICT = 409


@dataclass(frozen=True)
class SelectedRow:
    """Selected dataset with the effect of an action on it, or the reason why there is none."""

    name: str
    effect: str = ""
    reason: str = ""


class SelectedDatasets(Page):
    """Base of pages about the datasets that are selected in their list; the list sends their keys."""

    template_name = "metadata/selected_datasets.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        return redirect("dataset_list")

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        if not self.datasets:
            return self.refuse("Select at least one dataset.")
        if len(self.datasets) > MOST_ROWS:
            return self.refuse(f"At most {MOST_ROWS} datasets are changed at once.")
        return self.handle()

    def handle(self) -> HttpResponse:
        """Return the response for the selected datasets."""
        raise NotImplementedError

    def refuse(self, message: str) -> HttpResponse:
        """Return to the list with an error."""
        messages.error(self.request, message)
        return redirect(self.back)

    @cached_property
    def datasets(self) -> list[TargetDataset]:
        """Return the selected datasets that exist, in the order of names."""
        keys = self.keys()
        return list(target_datasets().filter(key__in=keys).order_by("schema__name", "name")) if keys else []

    def keys(self) -> list[UUID]:
        return keys_of(self.request.POST.getlist("key"))

    @property
    def filters(self) -> str:
        """Return the filters of the list, as a query."""
        return self.request.POST.get("filters", "")[:2000]

    @property
    def back(self) -> str:
        """Return the address of the list with its filters."""
        return reverse("dataset_list") + (f"?{self.filters}" if self.filters else "")

    def context(self) -> dict[str, Any]:
        return super().context() | {"back": self.back, "filters": self.filters, "datasets": self.datasets}


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


class DatasetsEdit(EditsPage, SelectedDatasets):
    """Tag, classify, assign or retire the selected datasets: value, preview by row, and the edit."""

    def handle(self) -> HttpResponse:
        action = self.request.POST.get("do", "")
        if action not in ACTIONS:
            return self.refuse("Choose what to do with the selected datasets.")
        if not {"preview", "save"} & set(self.request.POST) and action != RETIRE:
            edits = [RowEdit(str(row), row, row.version) for row in self.datasets]
            return self.render(form=BulkEditForm(action=action), edits=edits, applies=[])
        form = BulkEditForm(self.request.POST, action=action)
        if not form.is_valid():
            edits = [RowEdit(str(row), row, row.version) for row in self.datasets]
            return self.render(form=form, edits=edits, applies=[], status=REFUSED)
        if "save" in self.request.POST:
            return self.save(form, self.seen())
        edits = preview_edits(edits_of(self.datasets, action, form.value))
        readers = reader_counts(self.datasets) if action == RETIRE else {}
        return self.render(form=form, edits=edits, readers=readers, applies=applicable(edits))

    def keys(self) -> list[UUID]:
        return list(self.seen()) if "save" in self.request.POST else super().keys()

    def save(self, form: BulkEditForm, seen: Mapping[UUID, int]) -> HttpResponse:
        if len(self.datasets) < len(seen):
            return self.refuse("A selected dataset does not exist any more; nothing was changed.")
        try:
            edits = edits_of(self.datasets, form.cleaned_data["do"], form.value, seen)
            self._entry = apply_edits(edits, form.cleaned_data["reason"])
        except MetadataError as problem:
            return self.refused(form, problem)
        self.add_message(f"{counted(len(edits), 'dataset')} changed.")
        return redirect(self.back)


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
        if self.request.GET.get("back") != "dataset":
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
