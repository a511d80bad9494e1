"""The change log: who changed what, when, and from what to what."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from metadata.api.changes import exported
from metadata.change_log import entries, kinds, people, shown
from metadata.filtersets import ChangeFilter
from metadata.selectors import target_datasets
from metadata.services.audit_export import selection
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


@never_cache
@require_safe
def change_file(request: HttpRequest) -> HttpResponseBase:
    """The entries that fit the list's filters, as a file that ``verify_export`` proves."""
    chosen = ChangeFilter(request.GET, queryset=entries())
    if not chosen.is_valid():
        return HttpResponse("These filters can't be read.\n", status=400, content_type="text/plain")
    told = {name: value for name in ChangeFilter.base_filters if (value := request.GET.get(name))}
    return exported(selection(chosen.qs, told))
