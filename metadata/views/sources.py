"""Systems and their source datasets: what is delivered, in which shape."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_safe

from metadata.domain.roles import Permission
from metadata.filtersets import SourceDatasetFilter
from metadata.permissions import may
from metadata.selectors import source_dataset_detail, source_datasets, systems
from metadata.views.paging import filtered


@require_safe
def source_list(request: HttpRequest) -> HttpResponse:
    """Source datasets by system."""
    chosen, page = filtered(request, SourceDatasetFilter, source_datasets())
    context = {"filter": chosen, "page": page, "systems": list(systems().order_by("short_name"))} | _rights(request)
    return render(request, "metadata/source_list.html", context)


@require_safe
def source_page(request: HttpRequest, key: UUID) -> HttpResponse:
    """One source dataset's contract, and what is generated from it."""
    source = get_object_or_404(source_dataset_detail(), key=key)
    columns = list(source.columns.all())
    business_key = sorted((c for c in columns if c.key_ordinal and c.active), key=lambda c: c.key_ordinal)
    context = {"source": source, "columns": columns, "business_key": business_key} | _rights(request)
    return render(request, "metadata/source_page.html", context)


def _rights(request: HttpRequest) -> dict[str, bool]:
    return {"may_edit": may(request.user, Permission.CHANGE_METADATA)}
