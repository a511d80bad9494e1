"""Inputs of a dataset: source datasets and other target datasets, by name, in order."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from elevata.core.errors import StaleVersion
from metadata import dependents
from metadata.domain.roles import Permission
from metadata.forms.datasets import InputsForm, inputs_of
from metadata.models import TargetDataset
from metadata.permissions import permitted
from metadata.services.targets import set_dataset_inputs
from metadata.views.conflict import conflict, goes_on
from metadata.views.lookup import dataset_here, page_of

REFUSED = 422


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def dataset_inputs(request: HttpRequest, key: UUID) -> HttpResponse:
    """Add, change or retire what a dataset reads."""
    dataset = dataset_here(key)
    if dataset.history_of_id is not None:
        # A history reads its base and nothing else; what its rows come from is its base's to say.
        return redirect("dataset_inputs", dataset.history_of.key)
    if request.method != "POST":
        return _page(request, dataset, InputsForm.of(dataset, dataset=dataset))
    form = InputsForm(request.POST, dataset=dataset)
    if goes_on(request):
        return _page(request, dataset, form)
    try:
        saved = form.attempt(
            lambda: set_dataset_inputs(
                dataset=dataset,
                expected_version=form.over,
                inputs=form.wanted,
                reason=form.cleaned_data["reason"],
            )
        )
    except StaleVersion:
        row = dataset_here(key)
        return conflict(request, form=form, now=InputsForm.of(row, dataset=row), row=row, back=page_of(row))
    if saved is None:
        return _page(request, dataset, form, status=REFUSED)
    messages.success(request, "What it reads is saved." if form.changes() else "Nothing was changed.")
    return redirect("dataset_lineage", key)


@never_cache
@require_safe
@permitted(Permission.CHANGE_METADATA)
def inputs_depend(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the effects of other inputs while they are typed: a fragment of the page."""
    dataset = dataset_here(key)
    return render(request, "metadata/inputs_depend.html", _touched(dataset, InputsForm(request.GET, dataset=dataset)))


def _page(request: HttpRequest, dataset: TargetDataset, form: InputsForm, *, status: int = 200) -> HttpResponse:
    readers: dict[int, list[str]] = {}
    links = dataset.columns.filter(inputs__isnull=False).order_by("ordinal", "id")
    for column, item in links.values_list("name", "inputs__dataset_input"):
        readers.setdefault(item, []).append(column)
    items = dataset.inputs.select_related("source__system", "upstream__schema")
    context = {
        "dataset": dataset,
        "form": form,
        "items": [(item, list(dict.fromkeys(readers.get(item.pk, ())))) for item in items],
        "downstream": dependents.downstream(dataset),
        "back": page_of(dataset),
    }
    return render(request, "metadata/inputs_page.html", context | _touched(dataset, form), status=status)


def _touched(dataset: TargetDataset, form: InputsForm) -> dict[str, Any]:
    """Return the dependents that the typed inputs affect; unknown names come first."""
    unknown = form.errors.get("inputs", [])  # asking for errors reads what was typed
    if form.wanted is None:
        return {"unknown": unknown, "dependents": []}
    found = dependents.of_inputs_change(dataset, form.wanted)
    return {"unknown": [], "dependents": found, "same": form.wanted == inputs_of(dataset)}
