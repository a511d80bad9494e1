"""Reports as subjects of comments and favourites."""

from uuid import UUID

from django.urls import reverse

from architecture.models import ChangeReport
from elevata.web.subjects import Subject


def report_subject(key: UUID) -> Subject | None:
    """Return the report with this id as a subject; None if there is none."""
    rows = ChangeReport.objects.select_related("environment").defer("document", "content")
    report = rows.filter(report_id=key).first()
    if report is None:
        return None
    name = f"the report of {report.title} in {report.environment}"
    page = reverse("report_page", args=[key])
    return Subject("report", key, name, page, f"{page}#comments")
