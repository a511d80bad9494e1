"""Exports of the change log: selections of entries, and whole segments for retention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone

from elevata.audit.export_format import SEGMENT, SELECTION, Broken, Exported, export_lines
from elevata.audit.hash_chain import Head, Link
from elevata.audit.models import ChainLink, ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.export_files import read_export, write_whole
from elevata.audit.services.retention import end_of_segments, last_removable
from elevata.core.errors import MetadataError

_CHUNK = 500
MEDIA_TYPE = "application/x-ndjson"


def selection(entries: QuerySet[ChangeLogEntry], chosen: Mapping[str, str]) -> Iterator[bytes]:
    """Return the lines of an export of these entries, oldest first; ``chosen`` is the filter.

    Entries written after the call are not included.
    """
    chain.seal()
    end = chain.head()
    newest = ChangeLogEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    header = {
        "content": SELECTION,
        "chosen": {str(name): str(value) for name, value in chosen.items()},
        "exported_at": timezone.now().isoformat(timespec="seconds"),
        "chain": end.as_json(),
    }
    return export_lines(header, _with_links(entries.filter(pk__lte=newest).order_by("pk"), end))


def _with_links(entries: QuerySet[ChangeLogEntry], end: Head) -> Iterator[tuple[Link | None, dict[str, Any]]]:
    """Yield entries with their links; None for entries without a link up to ``end``."""
    at = 0
    while rows := list(entries.filter(pk__gt=at)[:_CHUNK]):
        at = rows[-1].pk
        stored = ChainLink.objects.filter(
            kind="change", subject_id__in=[row.pk for row in rows], sequence__lte=end.sequence
        )
        links = {link.subject_id: chain.link_of(link) for link in stored}
        for row in rows:
            yield links.get(row.pk), row.content()


def export_segment(path: Path, *, before: datetime) -> Exported:
    """Export the next segment that retention may remove; it begins after the last removed segment.

    It ends before the first link sealed at ``before`` or later, and before the first entry that is still needed. The
    written file is read again and verified. Raises MetadataError: ``nothing_to_remove``, ``unwritable``, or the code
    of the chain's problem.
    """
    chain.seal(wait=True)
    previous = end_of_segments()
    last = last_removable(previous.sequence, before)
    header = {
        "content": SEGMENT,
        "first": previous.sequence + 1,
        "last": last.sequence,
        "previous": previous.hash,
        "head": last.hash,
        "exported_at": timezone.now().isoformat(timespec="seconds"),
        "chain": chain.head().as_json(),
    }
    write_whole(path, export_lines(header, _linked_rows(previous.sequence + 1, last.sequence)))
    try:
        return read_export(path)
    except Broken as broken:
        path.unlink()
        raise MetadataError(broken.problem.code, f"{broken.problem.message}: run verify_audit") from None


def _linked_rows(first: int, last: int) -> Iterator[tuple[Link, dict[str, Any]]]:
    """Yield every link of the range with the content of its row."""
    at = first - 1
    while at < last:
        stored = ChainLink.objects.filter(sequence__gt=at, sequence__lte=last).order_by("sequence")[:_CHUNK]
        links = [chain.link_of(row) for row in stored]
        if not links:
            raise MetadataError("link_missing", f"links after {at} are missing: run verify_audit")
        rows = chain.rows_of(links)
        for link in links:
            row = rows.get((link.kind, link.subject))
            if row is None:
                raise MetadataError("row_missing", f"{link.kind} {link.subject} is gone: run verify_audit")
            yield link, row.content()
        at = links[-1].sequence
