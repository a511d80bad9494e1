"""Entries of the change log behind a report. The log itself is metadata's (``metadata.change_log``)."""

from dataclasses import dataclass

from architecture.authors import hands
from architecture.models import ChangeReport
from architecture.services.reports.reports import operations_of
from metadata.change_log import ShownEntry, entries, shown


@dataclass(frozen=True)
class Behind:
    """The newest of the entries behind a report, and how many there are in all."""

    entries: list[ShownEntry]
    count: int


def behind(report: ChangeReport, *, limit: int) -> Behind:
    """Return the entries that a report brings to the warehouse, newest first.

    Of each dataset in it: what was changed after the dataset's mark, as it was when the report was made, and
    before that. So the answer is the same before and after the report's own execution.
    """
    since = report.document.get("since")
    if not since or report.undo_of_id is not None or not operations_of(report):
        return Behind([], 0)
    found = [hand.entry for hand in hands(report.environment, since) if hand.sequence <= report.through]
    return Behind(shown(entries().filter(pk__in=found[:limit])), len(found))
