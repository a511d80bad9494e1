"""Datasets as the loader shows them: the list with last loads, and a dataset's SQL and runs."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from loader.selectors import dataset_runs
from loader.statements import statements
from loader.statistics import last_loads
from metadata.computed_fields import found_by, headed
from metadata.filtersets import DatasetFilter
from metadata.selectors import schemas, target_datasets
from metadata.views.paging import filtered, one_page


@require_safe
def dataset_list(request: HttpRequest) -> HttpResponse:
    """Show target datasets, each with its last load."""
    chosen, page = filtered(request, DatasetFilter, target_datasets())
    keys = {row.pk: (row.history_of or row).key for row in page}
    loads = last_loads(keys.values())
    context = {
        "filter": chosen,
        "page": page,
        "found_by": found_by(page, request.GET.get("q", "")),
        "rows": [(row, loads.get(str(keys[row.pk]))) for row in page],
        "schemas": list(schemas().order_by("ordinal", "name")),
    }
    return render(request, "loader/dataset_list.html", context)


@require_safe
def dataset_sql(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show the statement of each layer that leads to the dataset."""
    dataset = get_object_or_404(headed(), key=key)
    return render(request, "loader/dataset_sql.html", {"dataset": dataset, "statements": statements(dataset)})


@require_safe
def dataset_runs_page(request: HttpRequest, key: UUID) -> HttpResponse:
    """Show a dataset's rows in its load runs, newest first."""
    dataset = get_object_or_404(headed(), key=key)
    page = one_page(request, dataset_runs(dataset=dataset), 25)
    return render(request, "loader/dataset_runs.html", {"dataset": dataset, "page": page})
