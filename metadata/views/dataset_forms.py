"""A dataset's own facts: the form of one that is there, and of a new one."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from elevata.core.errors import StaleVersion
from metadata.domain.roles import Permission
from metadata.forms.base import EditForm
from metadata.forms.datasets import DatasetForm, HistoryForm, NewDatasetForm, NoHistoryDatasetForm
from metadata.models import TargetDataset, TargetSchema
from metadata.permissions import permitted
from metadata.services.targets import create_target_dataset, update_target_dataset
from metadata.views.conflict import conflict, goes_on
from metadata.views.lookup import dataset_here, page_of

REFUSED = 422


def _form_of(dataset: TargetDataset) -> type[DatasetForm | HistoryForm]:
    if dataset.history_of_id:
        return HistoryForm
    return DatasetForm if dataset.schema.layer == TargetSchema.Layer.RAWCORE else NoHistoryDatasetForm


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def dataset_edit(request: HttpRequest, key: UUID) -> HttpResponse:
    """Edit a dataset, except its name and its history policy."""
    dataset = dataset_here(key)
    kind = _form_of(dataset)
    if request.method != "POST":
        return _facts_page(request, dataset, kind.of(dataset))
    form = kind(request.POST)
    if goes_on(request):
        return _facts_page(request, dataset, form)
    try:
        saved = form.attempt(
            lambda: update_target_dataset(dataset=dataset, expected_version=form.over, **form.changes())
        )
    except StaleVersion:
        row = dataset_here(key)
        return conflict(request, form=form, now=kind.of(row), row=row, back=page_of(row))
    if saved is None:
        return _facts_page(request, dataset, form, status=REFUSED)
    messages.success(request, "The dataset is saved." if form.changes() else "Nothing was changed.")
    return redirect("dataset_page", key)


def _facts_page(request: HttpRequest, dataset: TargetDataset, form: EditForm, *, status: int = 200) -> HttpResponse:
    context = {"dataset": dataset, "form": form, "back": page_of(dataset)}
    return render(request, "metadata/dataset_form.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def dataset_create(request: HttpRequest) -> HttpResponse:
    """A dataset described by hand."""
    made, form = None, NewDatasetForm(initial={"schema": request.GET.get("schema", "")})
    if request.method == "POST":
        form = NewDatasetForm(request.POST)
        made = form.attempt(lambda: create_target_dataset(**form.cleaned_data))
    if made is None:
        context = {"form": form, "back": reverse("dataset_list"), "any_schema": TargetSchema.objects.exists()}
        status = REFUSED if request.method == "POST" else 200
        return render(request, "metadata/dataset_form.html", context, status=status)
    messages.success(request, f"{made} is described. No table is made before a change report says so.")
    return redirect("dataset_page", made.key)
