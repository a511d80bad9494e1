"""Actions on a dataset, column or reference other than editing: rename, retire, restore, delete.

Each is a page that says first what hangs on the thing, and a POST that does it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from elevata.core.errors import StaleVersion
from metadata import dependents
from metadata.dependents import Dependent
from metadata.domain.roles import Permission
from metadata.forms.base import EditForm
from metadata.forms.columns import RenameForm, VerbForm
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.permissions import permitted
from metadata.services import deletion, lifecycle, references
from metadata.views.conflict import conflict, goes_on
from metadata.views.lookup import column_here, dataset_here, page_of, reference_here

REFUSED = 422
RENAME, RETIRE, RESTORE, DELETE = "rename", "retire", "restore", "delete"
Row = TargetDataset | TargetColumn | Reference


@dataclass(frozen=True)
class Verb:
    """An action: its label, the dependents of the object, and the service. ``done`` is the message afterwards."""

    name: str
    title: str
    button: str
    icon: str
    done: str
    depends: Callable[[Any], list[Dependent]]
    save: Callable[..., Any]
    form: type[EditForm] = VerbForm
    takes_away: bool = False


_RENAME = (RENAME, "Rename", "Rename", "tag", "is a former name now; it is kept and still found")
_RETIRE = (RETIRE, "Retire", "Retire", "ban", "is out of use")
_RESTORE = (RESTORE, "Bring back", "Bring back", "rotate", "is in use again")
_DELETE = (DELETE, "Delete", "Delete the description", "trash", "is deleted; its table is as it was")


def _nothing(row: Row) -> list[Dependent]:
    return []


DATASET_VERBS = {
    verb.name: verb
    for verb in (
        Verb(*_RENAME, dependents.of_dataset_rename, lifecycle.rename_dataset, RenameForm),
        Verb(*_RETIRE, dependents.of_dataset_retirement, lifecycle.retire_dataset, takes_away=True),
        Verb(*_RESTORE, _nothing, lifecycle.unretire_dataset),
        Verb(*_DELETE, dependents.of_dataset_deletion, deletion.delete_dataset, takes_away=True),
    )
}
COLUMN_VERBS = {
    verb.name: verb
    for verb in (
        Verb(*_RENAME, dependents.of_column_rename, lifecycle.rename_column, RenameForm),
        Verb(*_RETIRE, dependents.of_column_retirement, lifecycle.retire_column, takes_away=True),
        Verb(*_RESTORE, _nothing, lifecycle.unretire_column),
        Verb(*_DELETE, dependents.of_column_deletion, deletion.delete_column, takes_away=True),
    )
}

REFERENCE_VERBS = {
    verb.name: verb
    for verb in (
        Verb(*_RETIRE, dependents.of_reference_retirement, references.retire_reference, takes_away=True),
        Verb(*_RESTORE, _nothing, references.unretire_reference),
    )
}


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def dataset_verb(request: HttpRequest, key: UUID, verb: str) -> HttpResponse:
    """Rename, retire, bring back or delete a dataset."""
    return _verb(request, DATASET_VERBS[verb], "dataset", lambda: dataset_here(key))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def column_verb(request: HttpRequest, key: UUID, verb: str) -> HttpResponse:
    """Rename, retire, bring back or delete a column."""
    return _verb(request, COLUMN_VERBS[verb], "column", lambda: column_here(key))


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def reference_verb(request: HttpRequest, key: UUID, verb: str) -> HttpResponse:
    """Retire a reference, or bring it back."""
    return _verb(request, REFERENCE_VERBS[verb], "reference", lambda: reference_here(key))


@never_cache
@require_safe
@permitted(Permission.CHANGE_METADATA)
def dataset_depends(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the dependents that a new name of a dataset affects, while it is typed: a fragment of the rename page."""
    return _depends(request, dependents.of_dataset_rename(dataset_here(key), _typed(request)))


@never_cache
@require_safe
@permitted(Permission.CHANGE_METADATA)
def column_depends(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the dependents that a new name of a column affects, while it is typed: a fragment of the rename page."""
    return _depends(request, dependents.of_column_rename(column_here(key), _typed(request)))


def _typed(request: HttpRequest) -> str:
    return request.GET.get("name", "").strip()


def _depends(request: HttpRequest, found: list[Dependent]) -> HttpResponse:
    return render(request, "metadata/dependents.html", {"dependents": found})


def _verb(request: HttpRequest, verb: Verb, kind: str, find: Callable[[], Row]) -> HttpResponse:
    row = find()
    if request.method != "POST":
        return _page(request, verb, kind, row, verb.form.of(row))
    form = verb.form(request.POST)
    if goes_on(request):
        return _page(request, verb, kind, row, form)
    name = _name(row)

    def save() -> bool:
        given = {field: value for field, value in form.cleaned_data.items() if field != "version"}
        verb.save(**{kind: row}, expected_version=form.over, **given)
        return True

    try:
        saved = form.attempt(save)
    except StaleVersion:
        row = find()
        said = f"{verb.button} all the same"
        return conflict(request, form=form, now=verb.form.of(row), row=row, back=page_of(row), verb=said)
    if not saved:
        return _page(request, verb, kind, row, form, status=REFUSED)
    messages.success(request, f"{name} {verb.done}.")
    return redirect(_after(verb, row))


def _page(request: HttpRequest, verb: Verb, kind: str, row: Row, form: EditForm, *, status: int = 200) -> HttpResponse:
    dataset = _dataset_of(row)
    found = verb.depends(row)
    # Nobody reads the column of a reference by name, so no row downstream changes with it.
    flows = verb.name in (RENAME, RETIRE) and not isinstance(row, Reference)
    context = {
        "verb": verb,
        "kind": kind,
        "row": row,
        "name": _name(row),
        "dataset": dataset,
        "form": form,
        "dependents": found,
        "refusing": [one for one in found if one.effect == dependents.REFUSES],
        "downstream": dependents.downstream(dataset) if flows else [],
        "back": page_of(row),
    }
    return render(request, "metadata/verb_page.html", context, status=status)


def _name(row: Row) -> str:
    """Return the row's name; a reference is named by its ends."""
    return str(row) if isinstance(row, Reference) else row.name


def _dataset_of(row: Row) -> TargetDataset:
    """The dataset it is, or is part of."""
    if isinstance(row, Reference):
        return row.child
    return row if isinstance(row, TargetDataset) else row.dataset


def _after(verb: Verb, row: Row) -> str:
    """Return the address to redirect to: the object, or its parent if it was deleted."""
    if verb.name != DELETE:
        return page_of(row)
    return reverse("dataset_list") if isinstance(row, TargetDataset) else page_of(_dataset_of(row))
