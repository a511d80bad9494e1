"""Exports of the change log, and its retention."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string

from elevata.accounts.permissions import current_actor, roles_of
from elevata.accounts.roles import Role
from elevata.audit.append_only import remove_linked
from elevata.audit.domain import SEGMENT, SELECTION, Broken, Exported, Head, Link, export_lines
from elevata.audit.models import AuditSegment, ChainHead, ChainLink, ChangeLogEntry
from elevata.audit.services import chain
from elevata.audit.services.export_files import read_export, write_whole
from elevata.core.errors import MetadataError

# Retention of the change log removes exported entries and records the removal in the chain. It removes whole segments
# in order, and of them only the change-log entries: approvals, records and links remain, because reports, executions
# and exported artifacts refer to them.


def last_removable(after: int, before: datetime) -> Head:
    """Return the last link of the next segment that may be removed; ``after`` is the end of the previous one.

    Raises MetadataError ``nothing_to_remove`` with the reason.
    """
    links = ChainLink.objects.filter(sequence__gt=after).order_by("sequence")
    too_recent = links.filter(sealed_at__gte=before).values_list("sequence", flat=True).first()
    if too_recent is not None:
        links = links.filter(sequence__lt=too_recent)
    needed = first_needed(after)
    if needed is not None:
        links = links.filter(sequence__lt=needed.sequence)
    last = links.last()
    if last is None:
        reason = (
            f"entry {needed.subject_id} is still needed: its change was not applied in every environment"
            if needed is not None and (too_recent is None or needed.sequence < too_recent)
            else f"no link after {after} was sealed before {before:%Y-%m-%d %H:%M}"
        )
        raise MetadataError("nothing_to_remove", reason)
    return Head(last.sequence, last.hash)


def first_needed(after: int, last: int | None = None) -> ChainLink | None:
    """Return the first link after ``after``, and up to ``last``, whose entry is still needed."""
    needed = set().union(*(import_string(name)() for name in settings.AUDIT_ENTRIES_NEEDED))
    links = ChainLink.objects.filter(kind="change", sequence__gt=after).order_by("sequence")
    if last is not None:
        links = links.filter(sequence__lte=last)
    # The ids are compared in Python, because there may be more than a statement can have parameters.
    for sequence, subject in links.values_list("sequence", "subject_id").iterator():
        if subject in needed:
            return ChainLink.objects.get(sequence=sequence)
    return None


def prune(path: Path, *, reason: str) -> AuditSegment:
    """Remove the entries of an exported segment, and record the removal and the file in the chain.

    All entries are removed or none. Raises MetadataError: ``not_permitted`` for all but admins,
    ``token_scope`` for a read-only token, ``invalid`` without a reason, ``export_changed``,
    ``segment_out_of_order``, ``artifact_differs`` for the file of another chain, ``still_needed``,
    ``row_missing``.
    """
    actor = current_actor()
    if actor.user is None or Role.ADMIN not in roles_of(actor.user):
        raise MetadataError("not_permitted", "only an admin may remove entries: give an admin's token in ELEVATA_TOKEN")
    if actor.read_only:
        raise MetadataError("token_scope", "this personal token may only read")
    if not reason.strip():
        raise MetadataError("invalid", "say why the entries may go", "reason")
    try:
        exported = read_export(path)
    except Broken as broken:
        raise MetadataError("export_changed", broken.problem.message, place=str(path)) from None
    if exported.content != SEGMENT:
        raise MetadataError("invalid", "is a selection; only a whole segment can be removed", place=str(path))
    with transaction.atomic(durable=True):
        # This lock keeps other processes from sealing and removing.
        ChainHead.objects.select_for_update().first()
        _check_segment(exported, path)
        removed = _remove_entries(exported)
        segment = AuditSegment.objects.create(
            first=exported.first,
            last=exported.last,
            head=exported.head.hash,
            rows=removed,
            file=path.name,
            digest=exported.digest,
            removed_at=timezone.now(),
            actor=actor.name,
            actor_kind=actor.kind,
            user_id=actor.user_id,
            reason=reason.strip(),
            request_id=actor.request_id,
        )
        chain.append(segment)
    return segment


def _check_segment(exported: Exported, path: Path) -> None:
    """Raise MetadataError unless the file is the next segment of this chain, without entries that are still needed."""
    newest = AuditSegment.objects.order_by("-last").first()
    expected = Head() if newest is None else Head(newest.last, newest.head)
    if exported.previous != expected:
        message = f"begins with link {exported.first}; the next segment begins with {expected.sequence + 1}"
        raise MetadataError("segment_out_of_order", message, place=str(path))
    if not ChainLink.objects.filter(sequence=exported.last, hash=exported.head.hash).exists():
        raise MetadataError("artifact_differs", "is of another chain than this database's", place=str(path))
    needed = first_needed(exported.first - 1, exported.last)
    if needed is not None:
        message = f"entry {needed.subject_id} is needed again: its change was not applied in every environment"
        raise MetadataError("still_needed", message, place=str(path))


def _remove_entries(exported: Exported) -> int:
    total = 0
    for kind in chain.removable_kinds():
        removed = remove_linked(connection, chain.model_of(kind), kind=kind, first=exported.first, last=exported.last)
        listed = exported.rows.get(kind, 0)
        if removed != listed:
            message = f"the file lists {listed} rows of kind {kind}, but the database has {removed}: run verify_audit"
            raise MetadataError("row_missing", message)
        total += removed
    return total


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


# --- segments ----------------------------------------------------------------------------------


def export_segment(path: Path, *, before: datetime) -> Exported:
    """Export the next segment that retention may remove; it begins after the last removed segment.

    It ends before the first link sealed at ``before`` or later, and before the first entry that is still needed. The
    written file is read again and verified. Raises MetadataError: ``nothing_to_remove``, ``unwritable``, or the code
    of the chain's problem.
    """
    chain.seal(wait=True)
    previous = _end_of_segments()
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


def _end_of_segments() -> Head:
    newest = AuditSegment.objects.order_by("-last").first()
    return Head() if newest is None else Head(newest.last, newest.head)


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
