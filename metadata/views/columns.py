"""A dataset's columns: the grid's cells, moves and pastes, and the form of one column."""

import json
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST
from django_htmx.http import reswap, retarget

from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from metadata.computed_fields import details, retired_columns
from metadata.domain.cells import BOOLEAN, BY_NAME, CELLS, cell_text, read_cell
from metadata.domain.column_order import moved
from metadata.domain.roles import Permission
from metadata.domain.sensitivity import LEVELS
from metadata.forms.columns import ColumnForm, NewColumnForm
from metadata.grid import column_of, grid_row, grid_rows, role_options, values_of
from metadata.models import TargetColumn, TargetDataset
from metadata.paste_preview import apply, prepare
from metadata.permissions import permitted
from metadata.services.targets import create_target_column, order_target_columns, update_target_column
from metadata.views.conflict import conflict, goes_on
from metadata.views.lookup import column_here, dataset_here, page_of

REFUSED = 422
MOVE_AT_MOST = 5_000


def panel_context(dataset: TargetDataset) -> dict[str, Any]:
    """Return the grid's context for a dataset of ``metadata.computed_fields.details``."""
    rows = grid_rows(dataset)
    return {
        "dataset": dataset,
        "rows": rows,
        "none_described": not any(row.cells for row in rows),
        "retired": retired_columns(dataset),
        "roles": role_options(list(dataset.columns.all())),
        "known_types": NewColumnForm.known_types,
        "paste_cells": CELLS,
        "sensitivities": LEVELS,
        "may_edit": True,
    }


# --- one cell ----------------------------------------------------------------------------------


@never_cache
@require_POST
@permitted(Permission.CHANGE_METADATA)
def column_cell(request: HttpRequest, key: UUID) -> HttpResponse:
    """Save one cell of the grid; the answer is its line again, or the conflict's part."""
    column = column_here(key)
    name, text = request.POST.get("cell", ""), request.POST.get("value", "")
    if name not in BY_NAME:
        raise BadRequest(f"There is no cell {name!r}.")
    try:
        saved = update_target_column(
            column=column, expected_version=_number(request.POST.get("version")), **read_cell(name, text)
        )
    except StaleVersion:
        return _cell_conflict(request, key, name, text)
    except MetadataError as problem:
        said = problem.message if problem.field in (name, "key_ordinal") else problem.one_line()
        return _line(request, column, typed={name: text}, problem=as_sentence(said))
    if name == "role" and column.role != saved.role:
        return retarget(reswap(_panel(request, column.dataset), "outerHTML"), "#columns")
    return _line(request, column_here(key))


def _line(
    request: HttpRequest, column: TargetColumn, *, typed: dict[str, str] | None = None, problem: str = ""
) -> HttpResponse:
    context = {"row": grid_row(column, typed, problem), "dataset": column.dataset}
    return render(request, "metadata/column_row.html", context, status=REFUSED if problem else 200)


def _panel(request: HttpRequest, dataset: TargetDataset, *, said: str = "", status: int = 200) -> HttpResponse:
    whole = get_object_or_404(details(), key=dataset.key)
    context = panel_context(whole) | {"said": said}
    return render(request, "metadata/columns_panel.html", context, status=status)


def _cell_conflict(request: HttpRequest, key: UUID, name: str, text: str) -> HttpResponse:
    """The cell as a form in which nothing else was touched, so that the conflict can be told by the field."""
    column, version = column_of(key).get(), _number(request.POST.get("version"))
    now = ColumnForm.of(column, dataset=column.dataset)
    given = read_cell(name, text)
    typed = {name: given[name] if name in BOOLEAN else cell_text(name, values_of(column) | given)}
    posted = now.as_posted(typed | {"version": version}, ColumnForm.values_before(column, version))
    form = ColumnForm(posted, dataset=column.dataset)
    form.full_clean()
    answer = conflict(
        request,
        form=form,
        now=now,
        row=column,
        back=page_of(column),
        action=reverse("column_edit", args=[key]),
    )
    return retarget(reswap(answer, "innerHTML"), "#grid-answer")


def _number(text: str | None) -> int:
    """The version that was seen; 0, which no row has, for what is no number."""
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
    said, status = "", 200
    if column in seen and by:
        by = max(min(by, MOVE_AT_MOST), -MOVE_AT_MOST)
        order = moved(seen, column, by, lambda one: one.role == column.role)
        try:
            order_target_columns(dataset=column.dataset, order=order, seen=seen)
        except MetadataError as problem:
            said, status = as_sentence(problem.message), 409
    if request.htmx:
        return _panel(request, column.dataset, said=said, status=status)
    if said:
        messages.error(request, said)
    return redirect(page_of(column))


# --- a column's own form -----------------------------------------------------------------------


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def column_edit(request: HttpRequest, key: UUID) -> HttpResponse:
    """All of a column in a form: what the grid does, without it."""
    column = column_here(key)
    if request.method != "POST":
        return _column_page(request, column, ColumnForm.of(column, dataset=column.dataset))
    form = ColumnForm(request.POST, dataset=column.dataset)
    if goes_on(request):
        return _column_page(request, column, form)
    try:
        saved = form.attempt(lambda: update_target_column(column=column, expected_version=form.over, **form.changes()))
    except StaleVersion:
        column = column_of(key).get()
        now = ColumnForm.of(column, dataset=column.dataset)
        return conflict(request, form=form, now=now, row=column, back=page_of(column))
    if saved is None:
        return _column_page(request, column, form, status=REFUSED)
    messages.success(request, f"{column.name} is saved." if form.changes() else "Nothing was changed.")
    return redirect(page_of(column))


def _column_page(request: HttpRequest, column: TargetColumn, form: ColumnForm, *, status: int = 200) -> HttpResponse:
    context = {
        "dataset": column.dataset,
        "column": column,
        "form": form,
        "known_types": form.known_types,
        "back": page_of(column),
    }
    return render(request, "metadata/column_form.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def column_create(request: HttpRequest, key: UUID) -> HttpResponse:
    """A new column after the others."""
    dataset = dataset_here(key)
    made, form = None, NewColumnForm(dataset=dataset)
    if request.method == "POST":
        form = NewColumnForm(request.POST, dataset=dataset)
        made = form.attempt(lambda: create_target_column(dataset=dataset, **form.given()))
    if made is None:
        back = reverse("dataset_page", args=[key])
        context = {"dataset": dataset, "form": form, "known_types": form.known_types, "back": back}
        status = REFUSED if request.method == "POST" else 200
        return render(request, "metadata/column_form.html", context, status=status)
    messages.success(request, f"{made.name} is added.")
    if "another" in request.POST:
        return redirect("column_create", key)
    return redirect(page_of(made))


# --- pasting -----------------------------------------------------------------------------------


@never_cache
@require_POST
@permitted(Permission.CHANGE_METADATA)
def columns_paste(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show what a block from a spreadsheet would change; with ``save``, do it: all of it or nothing."""
    dataset = dataset_here(key)
    text, column, cell = (request.POST.get(name, "") for name in ("text", "column", "cell"))
    seen = _versions(request.POST.get("versions", "")) if "save" in request.POST else None
    paste = prepare(dataset, text, column=column, cell=cell or "name", seen=seen)
    if "save" in request.POST and paste.edits and not paste.refused and not paste.problem and apply(paste):
        messages.success(request, _done(len(paste.edits) - paste.added, paste.added))
        return redirect("dataset_page", key)
    if paste.stale:  # what stands there now is shown, and seen by that
        paste = prepare(dataset, text, column=column, cell=cell or "name")
        paste.stale = True
    context = {
        "dataset": dataset,
        "paste": paste,
        "text": text,
        "column": column,
        "cell": cell,
        "versions": json.dumps(paste.versions),
        "back": reverse("dataset_page", args=[key]),
    }
    status = 409 if paste.stale else REFUSED if paste.refused or paste.problem else 200
    template = "metadata/paste_preview.html" if request.htmx else "metadata/paste_page.html"
    return render(request, template, context, status=status)


def _versions(text: str) -> dict[str, int]:
    """The versions that were shown, by key; what is not them counts as not seen."""
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: version for key, version in found.items() if isinstance(version, int)}


def _done(changed: int, added: int) -> str:
    parts = [f"{changed} column{'' if changed == 1 else 's'} changed"] if changed else []
    parts += [f"{added} added"] if added else []
    return f"{', '.join(parts)}."
