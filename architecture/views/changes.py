"""The change log: who changed what, when, and from what to what."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from metadata.change_log import entries, kinds, people, shown
from metadata.filtersets import ChangeFilter
from metadata.selectors import target_datasets
from metadata.views.paging import filtered

SUGGESTED = 500


@never_cache
@require_safe
def change_list(request: HttpRequest) -> HttpResponse:
    """Entries, newest first, filtered by dataset, person, kind, time or text."""
    chosen, page = filtered(request, ChangeFilter, entries())
    names = target_datasets().filter(history_of__isnull=True).order_by("schema__name", "name")
    context = {
        "tab": "changes",
        "filter": chosen,
        "page": page,
        "shown": shown(page.object_list),
        "people": people(),
        "kinds": kinds(),
        "dataset_names": names.values_list("schema__name", "name")[:SUGGESTED],
    }
    return render(request, "architecture/change_list.html", context)
