"""A dataset's columns: the grid's cells, moves and pastes, and the form of one column."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import reswap, retarget

from elevata.accounts.permissions import permitted
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import writing
from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from elevata.web.conflict import conflict
from elevata.web.requests import htmx_of
from elevata.web.views import REFUSED, CreatePage, DetailPage, EditPage, with_links
from metadata.domain.grid import BOOLEAN, BY_NAME, CELLS, cell_text, moved_item, read_cell
from metadata.domain.impact import DROP, RENAME, RETYPE
from metadata.domain.sensitivity import LEVELS
from metadata.forms.columns import ColumnForm, NewColumnForm
from metadata.models import SourceColumn, TargetColumn, TargetDataset
from metadata.selectors.columns import column_of, details, grid_row, grid_rows, retired_columns, role_options, values_of
from metadata.selectors.impact import Downstream, impact_of
from metadata.services.datasets.column_batches import apply, prepare
from metadata.services.datasets.targets import create_target_column, order_target_columns, update_target_column
from metadata.views.base import (
    ColumnPage,
    DatasetPage,
    Editing,
    column_here,
    dataset_here,
    page_of,
    seen_versions,
    undo_links,
)

MAX_MOVE = 5_000


def panel_context(dataset: TargetDataset) -> dict[str, Any]:
    """Return the template context of the grid. ``dataset`` comes from ``metadata.selectors.columns.details``."""
    rows = grid_rows(dataset)
    return {
        "dataset": dataset,
        "rows": rows,
        "no_columns": not any(row.cells for row in rows),
        "retired": retired_columns(dataset),
        "roles": role_options(list(dataset.columns.all())),
        "known_types": NewColumnForm.known_types,
        "paste_cells": CELLS,
        "sensitivities": LEVELS,
        "may_edit": True,
    }


# --- one cell ----------------------------------------------------------------------------------


@require_POST
@permitted(Permission.CHANGE_METADATA)
def column_cell(request: HttpRequest, key: UUID) -> HttpResponse:
    """Save one cell of the grid; return its row, or the conflict.

    The header ``Undo-Address`` has the page that undoes the save.
    """
    column = column_here(key)
    name, text = request.POST.get("cell", ""), request.POST.get("value", "")
    if name not in BY_NAME:
        raise BadRequest(f"There is no cell {name!r}.")
    try:
        with writing() as unit:
            saved = update_target_column(
                column=column, expected_version=_number(request.POST.get("version")), **read_cell(name, text)
            )
    except StaleVersion:
        return _cell_conflict(request, key, name, text)
    except MetadataError as problem:
        message = problem.message if problem.field in (name, "key_ordinal") else problem.one_line()
        return _row_response(request, column, typed={name: text}, problem=as_sentence(message))
    if name == "role" and column.role != saved.role:
        response = retarget(reswap(_panel_response(request, column.dataset), "outerHTML"), "#columns")
    else:
        response = _row_response(request, column_here(key))
    for _, address in undo_links(unit.entry):
        response.headers["Undo-Address"] = f"{address}?back=dataset"
    return response


def _row_response(
    request: HttpRequest, column: TargetColumn, *, typed: dict[str, str] | None = None, problem: str = ""
) -> HttpResponse:
    context = {"row": grid_row(column, typed, problem), "dataset": column.dataset}
    return render(request, "metadata/column_row.html", context, status=REFUSED if problem else 200)


def _panel_response(
    request: HttpRequest, dataset: TargetDataset, *, error: str = "", status: int = 200
) -> HttpResponse:
    detailed = get_object_or_404(details(), key=dataset.key)
    context = panel_context(detailed) | {"error": error}
    return render(request, "metadata/columns_panel.html", context, status=status)


def _cell_conflict(request: HttpRequest, key: UUID, name: str, text: str) -> HttpResponse:
    """Return the conflict of one cell: a form in which only this field was changed."""
    column, version = column_of(key).get(), _number(request.POST.get("version"))
    current = ColumnForm.of(column, dataset=column.dataset)
    changes = read_cell(name, text)
    typed = {name: changes[name] if name in BOOLEAN else cell_text(name, values_of(column) | changes)}
    posted = current.as_posted(typed | {"version": version}, ColumnForm.values_before(column, version))
    form = ColumnForm(posted, dataset=column.dataset)
    form.full_clean()
    action = reverse("column_edit", args=[key])
    response = conflict(request, form=form, now=current, row=column, back=page_of(column), action=action)
    return retarget(reswap(response, "innerHTML"), "#grid-answer")


def _number(text: str | None) -> int:
    """Return the version that the user saw; for an invalid number 0, which is no row's version."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


# --- moving ------------------------------------------------------------------------------------


@require_POST
@permitted(Permission.CHANGE_METADATA)
def column_move(request: HttpRequest, key: UUID) -> HttpResponse:
    """Move a column up (``by`` below zero) or down among those of its role."""
    column = column_here(key)
    text = request.POST.get("by", "")
    by = _number(text.removeprefix("-")) * (-1 if text.startswith("-") else 1)
    seen = list(column.dataset.columns.filter(active=True).order_by("ordinal", "id"))
    error, status = "", 200
    if column in seen and by:
        by = max(min(by, MAX_MOVE), -MAX_MOVE)
        order = moved_item(seen, column, by, lambda other: other.role == column.role)
        try:
            order_target_columns(dataset=column.dataset, order=order, seen=seen)
        except MetadataError as problem:
            error, status = as_sentence(problem.message), 409
    if htmx_of(request):
        return _panel_response(request, column.dataset, error=error, status=status)
    if error:
        messages.error(request, error)
    return redirect(page_of(column))


# --- form of one column ------------------------------------------------------------------------


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


# --- pasting -----------------------------------------------------------------------------------


@require_POST
@permitted(Permission.CHANGE_METADATA)
def columns_paste(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the changes that a pasted block makes; with ``save``, make all of them or none."""
    dataset = dataset_here(key)
    text, column, cell = (request.POST.get(name, "") for name in ("text", "column", "cell"))
    seen = seen_versions(request.POST.get("versions", "").split()) if "save" in request.POST else None
    quoted_name = "quoted_name" in request.POST
    paste = prepare(dataset, text, column=column, cell=cell or "name", seen=seen, quoted_name=quoted_name)
    if "save" in request.POST and paste.edits and not paste.refused and not paste.problem:
        with writing() as unit:
            is_applied = apply(paste)
        if is_applied:
            summary = _summary(len(paste.edits) - paste.added, paste.added)
            messages.success(request, with_links(summary, undo_links(unit.entry)))
            return redirect("dataset_page", key)
    if paste.stale:  # the user now sees the current values, so their versions become the expected ones
        paste = prepare(dataset, text, column=column, cell=cell or "name")
        paste.stale = True
    context = {
        "dataset": dataset,
        "paste": paste,
        "text": text,
        "column": column,
        "cell": cell,
        "versions": " ".join(f"{key}:{version}" for key, version in paste.versions.items()),
        "back": reverse("dataset_page", args=[key]),
    }
    status = 409 if paste.stale else REFUSED if paste.refused or paste.problem else 200
    template = "metadata/paste_preview.html" if htmx_of(request) else "metadata/paste_page.html"
    return render(request, template, context, status=status)


def _summary(changed: int, added: int) -> str:
    parts = [f"{changed} column{'' if changed == 1 else 's'} changed"] if changed else []
    parts += [f"{added} added"] if added else []
    return f"{', '.join(parts)}."
