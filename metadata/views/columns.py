"""A dataset's columns: the grid's cells, moves and pastes."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST
from django_htmx.http import reswap, retarget

from elevata.accounts.roles import Permission
from elevata.accounts.view_permissions import permitted
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from elevata.web.conflict import conflict
from elevata.web.requests import htmx_of
from elevata.web.views import REFUSED, with_links
from metadata.domain.grid import BOOLEAN, BY_NAME, CELLS, cell_text, moved_item, read_cell
from metadata.domain.sensitivity import LEVELS
from metadata.forms.columns import ColumnForm, NewColumnForm
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.column_grid import column_of, grid_row, grid_rows, role_options, values_of
from metadata.selectors.columns import details, retired_columns
from metadata.services.datasets.paste_preview import apply, prepare
from metadata.services.datasets.targets import order_target_columns, update_target_column
from metadata.views.base import column_here, dataset_here, page_of, seen_versions, undo_links

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
