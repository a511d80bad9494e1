"""Sealed records of maintenance runs, as files."""

from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from architecture.views.reports import json_file
from loader.models import GovernedRunRecord
from loader.services.maintenance.records import record_artifact


@never_cache
@require_safe
def run_record(request: HttpRequest, run_id: str, record_id: UUID) -> HttpResponse:
    """Return a record as a file that ``verify_artifact`` takes."""
    record = get_object_or_404(GovernedRunRecord, run__run_id=run_id, record_id=record_id)
    return json_file(record_artifact(record), f"record-{record.record_id}.json")
