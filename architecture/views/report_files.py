"""Files of reports, approvals and records to download."""

import json
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_safe

from architecture.selectors.executions import records
from architecture.services.execution_records import approval_artifact, record_artifact
from architecture.services.reports import report_document
from architecture.views.reports import find


@require_safe
def report_file(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Return the report as a ``change-report/v1`` file."""
    report = find(report_id)
    return json_file(report_document(report), f"report-{report.fingerprint[:12]}.json")


@require_safe
def report_approvals(request: HttpRequest, report_id: UUID) -> HttpResponse:
    """Return the report and its approvals as a file for ``verify_artifact``."""
    report = find(report_id)
    return json_file(approval_artifact(report), f"approvals-{report.fingerprint[:12]}.json")


@require_safe
def record_file(request: HttpRequest, record_id: UUID) -> HttpResponse:
    """Return a record as a file for ``verify_artifact``."""
    record = get_object_or_404(records(), record_id=record_id)
    return json_file(record_artifact(record), f"record-{record.record_id}.json")


def json_file(document: dict[str, Any], name: str) -> HttpResponse:
    """Return a document as a file to download."""
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    response = HttpResponse(text, content_type="application/json; charset=utf-8")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response
