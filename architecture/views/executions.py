"""Executions and their records: the list, and the record as a file. One execution live is the loader's to show."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.filtersets import ExecutionFilter
from architecture.report_details import environments
from architecture.selectors import executions, records
from architecture.services.executions.records import record_artifact
from architecture.views.reports import json_file
from metadata.views.paging import filtered

PER_PAGE = 25


@never_cache
@require_safe
def execution_list(request: HttpRequest) -> HttpResponse:
    """Executions, newest first, with the record that each left."""
    chosen, page = filtered(request, ExecutionFilter, executions(), PER_PAGE)
    context = {
        "tab": "executions",
        "filter": chosen,
        "page": page,
        "environments": list(environments()),
        "live": any(not one.is_finished for one in page.object_list),
    }
    return render(request, "architecture/execution_list.html", context)


@never_cache
@require_safe
def record_file(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """A record as a file that ``verify_artifact`` takes."""
    record = get_object_or_404(records(), record_id=record_id)
    return json_file(record_artifact(record), f"record-{record.record_id}.json")
