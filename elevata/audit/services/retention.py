"""Retention of the change log: the removal of exported entries, recorded in the chain.

Whole segments are removed in order, and of them only the change-log entries: approvals, records and links remain,
because reports, executions and exported artifacts refer to them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from django.db import connection, transaction
from django.utils import timezone

from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Role
from elevata.audit.append_only import remove_linked
from elevata.audit.export_format import SEGMENT, Broken, Exported
from elevata.audit.hash_chain import Head
from elevata.audit.models import AuditSegment, ChainHead, ChainLink
from elevata.audit.services import chain
from elevata.audit.services.export_files import read_export
from elevata.core.errors import MetadataError
from elevata.core.registry import Registered


def end_of_segments() -> Head:
    """Return the last link of the newest removed segment; before the first removal, the begin of the chain."""
    newest = AuditSegment.objects.order_by("-last").first()
    return Head() if newest is None else Head(newest.last, newest.head)


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


# Functions that return ids of change-log entries that are kept, whatever their age.
NEEDED_ENTRIES: Registered[Callable[[], set[int]]] = Registered()


def first_needed(after: int, last: int | None = None) -> ChainLink | None:
    """Return the first link after ``after``, and up to ``last``, whose entry is still needed."""
    needed = set().union(*(ids() for ids in NEEDED_ENTRIES))
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
    expected = end_of_segments()
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
        model = chain.chained_models()[kind]
        removed = remove_linked(connection, model, kind=kind, first=exported.first, last=exported.last)
        listed = exported.rows.get(kind, 0)
        if removed != listed:
            message = f"the file lists {listed} rows of kind {kind}, but the database has {removed}: run verify_audit"
            raise MetadataError("row_missing", message)
        total += removed
    return total
