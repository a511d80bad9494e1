"""Bases of the pages about datasets, columns and references."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse

from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.transactions import writing
from elevata.web.views import Page, RowPage, route_of
from metadata.models import Reference, SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.column_grid import column_of
from metadata.selectors.columns import headed
from metadata.services.bulk_undo import is_undoable, undoable_entry

TABLES_CHANGE = "The tables have not changed yet; the page names the next step."


def dataset_here(key: UUID) -> TargetDataset:
    """Return the dataset of an address, with the fields that the head of its pages shows."""
    return get_object_or_404(headed(), key=key)


def column_here(key: UUID) -> TargetColumn:
    """Return the column of an address, with its dataset and its inputs."""
    return get_object_or_404(column_of(key))


def page_of(row: TargetDataset | TargetColumn | Reference) -> str:
    """Return the address of a dataset's page; of a column or reference, of its line there."""
    if isinstance(row, TargetDataset):
        return reverse("dataset_page", args=[row.key])
    if isinstance(row, Reference):
        return f"{page_of(row.child)}#reference-{row.key}"
    return f"{page_of(row.dataset)}#column-{row.key}"


def keys_of(texts: Iterable[str]) -> list[UUID]:
    """Return the valid keys among the sent texts."""
    keys = []
    for text in texts:
        try:
            keys.append(UUID(text))
        except ValueError:
            continue
    return keys


def seen_versions(texts: Iterable[str]) -> dict[UUID, int]:
    """Return the versions that the user saw, by key, from texts like ``KEY:3``; other texts are left out."""
    seen: dict[UUID, int] = {}
    for text in texts:
        key, _, version = text.partition(":")
        if version.isascii() and version.isdigit() and len(version) < 10:
            seen |= dict.fromkeys(keys_of([key]), int(version))
    return seen


def undo_links(entry: ChangeLogEntry | None) -> list[tuple[str, str]]:
    """Return the link, with its label, that undoes the changes made together with this entry, if they can be."""
    if entry is None or not is_undoable(entry):
        return []
    return [("Undo", reverse("change_undo", args=[entry.pk]))]


class Editing(Page):
    """Base of pages that need the permission to change metadata.

    The message after a form was saved has the link that undoes it, if it can be undone.
    """

    permissions = (Permission.CHANGE_METADATA,)
    _entry: ChangeLogEntry | None = None

    def store(self, form: Any) -> Any:
        """Save the form in one unit of work, and remember its entry."""
        page: Any = super()  # Any: a page with a form
        with writing() as unit:
            result = page.store(form)
        self._entry = unit.entry and undoable_entry(unit.entry, getattr(getattr(self, "row", None), "key", None))
        return result

    def add_message(self, message: str, links: Sequence[tuple[str, str]] = ()) -> None:
        super().add_message(message, [*links, *undo_links(self._entry)])


class SourceEditing(Editing):
    """Base of pages that change, read or replace something of a source or its system.

    These are in no schema, so a role for one place is not enough, even where no row is written.
    """

    place = Place


class DatasetPage(RowPage):
    """Base of pages about one target dataset."""

    name, page = "dataset", "dataset_page"
    rows = staticmethod(headed)


class DatasetPartPage(RowPage):
    """Base of pages about a row of one target dataset."""

    def context(self) -> dict[str, Any]:
        return super().context() | {"dataset": self.row.dataset}


class ColumnPage(DatasetPartPage):
    """Base of pages about one target column."""

    name = "column"
    address = staticmethod(page_of)

    def rows(self) -> QuerySet[TargetColumn]:
        return column_of(self.kwargs["key"])


class SourceDatasetPage(RowPage):
    """Base of pages about one source dataset, with its system."""

    model, name, page = SourceDataset, "source", "source_page"

    def rows(self) -> QuerySet[SourceDataset]:
        return SourceDataset.objects.select_related("system")


class ReferencePage(RowPage):
    """Base of pages about one reference."""

    name = "reference"
    address = staticmethod(page_of)

    def rows(self) -> QuerySet[Reference]:
        return Reference.objects.select_related("child__schema", "parent__schema")


class BaseDatasetPage(DatasetPage):
    """Base of pages that histories do not have: a history's address redirects to the page of its base."""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        page: Any = super()  # Any: a page that answers GET
        return self._to_base() or page.get(request, **kwargs)

    def post(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        page: Any = super()  # Any: a page that answers POST
        return self._to_base() or page.post(request, **kwargs)

    def _to_base(self) -> HttpResponse | None:
        base = self.row.history_of
        return redirect(route_of(self.request), base.key) if base is not None else None
