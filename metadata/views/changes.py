"""A dataset's part of the change log: who changed what of it and its columns, field by field."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from metadata.change_log import entries, kinds, of_keys, people, shown
from metadata.filtersets import ChangeFilter
from metadata.models import ChangeLogEntry, TargetDataset
from metadata.views.lookup import dataset_here
from metadata.views.paging import filtered


@never_cache
@require_safe
def dataset_changes(request: HttpRequest, key: UUID) -> HttpResponse:
    """Entries about a dataset, its history, its columns and its references, newest first."""
    dataset = dataset_here(key)
    described = dataset.history_of or dataset
    about = entries().filter(of_keys([described.key]))
    chosen, page = filtered(request, ChangeFilter, about)
    context = {
        "dataset": dataset,
        "filter": chosen,
        "page": page,
        "shown": shown(page.object_list),
        "people": people(about),
        "kinds": kinds(about),
        "actions": ChangeLogEntry.Action.choices,
        "former": _former_names(dataset, described),
    }
    return render(request, "metadata/dataset_changes.html", context)


def _former_names(dataset: TargetDataset, described: TargetDataset) -> list[tuple[str, str]]:
    """(former name, what is called otherwise now): of the dataset first, then of its columns."""
    columns = described.columns.order_by("ordinal", "id").values_list("name", "former_names")
    own = [(name, dataset.name) for name in reversed(dataset.former_names)]
    return own + [(former, name) for name, formers in columns for former in reversed(formers)]
