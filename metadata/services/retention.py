"""Retention of the change log: removal of exported entries, recorded in the chain.

Only whole segments are removed, in order, and only their entries: approvals, records and the links stay,
because reports, executions and exported artifacts refer to them.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from django.db import connection, transaction
from django.utils import timezone

from elevata.core.errors import MetadataError
from metadata.append_only import remove_linked
from metadata.domain.audit_files import SEGMENT, Broken, Exported
from metadata.domain.chain import Head
from metadata.domain.roles import Role
from metadata.models import AuditSegment, ChainHead, ChainLink
from metadata.permissions import roles_of
from metadata.services import chain
from metadata.services.actor import current_actor
from metadata.services.export_files import read_export

# Who needs entries says which: ids of change log entries.
_needed_by: list[Callable[[], set[int]]] = []


def keep(needed: Callable[[], set[int]]) -> None:
    """Register a function that returns the ids of entries that must not be removed, whatever their age.

    It is called at every check.
    """
    if needed not in _needed_by:
        _needed_by.append(needed)


def last_removable(after: int, before: datetime) -> Head:
    """Return the last link of the next segment that may be removed; ``after`` is the end of the previous one.

    Raises MetadataError ``nothing_to_remove`` with the reason.
    """
    links = ChainLink.objects.filter(sequence__gt=after).order_by("sequence")
    barred = links.filter(sealed_at__gte=before).values_list("sequence", flat=True).first()
    if barred is not None:
        links = links.filter(sequence__lt=barred)
    needed = first_needed(after)
    if needed is not None:
        links = links.filter(sequence__lt=needed.sequence)
    last = links.last()
    if last is None:
        why = (
            f"entry {needed.subject_id} is still needed: what it changed was not carried out everywhere"
            if needed is not None and (barred is None or needed.sequence < barred)
            else f"no link after {after} was sealed before {before:%Y-%m-%d %H:%M}"
        )
        raise MetadataError("nothing_to_remove", why)
    return Head(last.sequence, last.hash)


def first_needed(after: int, last: int | None = None) -> ChainLink | None:
    """Return the first link after ``after`` (and up to ``last``) whose entry is still needed."""
    needed = set().union(*(ask() for ask in _needed_by))
    links = ChainLink.objects.filter(kind="change", sequence__gt=after).order_by("sequence")
    if last is not None:
        links = links.filter(sequence__lte=last)
    # The ids are looked for here, not in SQL: there may be more than a statement takes.
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
        # Nobody seals and nobody else removes meanwhile.
        ChainHead.objects.select_for_update().first()
        _check(exported, path)
        removed = _remove(exported)
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


def _check(exported: Exported, path: Path) -> None:
    """Check that the file is the next segment of this chain, and that none of its entries is needed."""
    newest = AuditSegment.objects.order_by("-last").first()
    expected = Head() if newest is None else Head(newest.last, newest.head)
    if exported.previous != expected:
        said = f"begins with link {exported.first}; the next segment begins with {expected.sequence + 1}"
        raise MetadataError("segment_out_of_order", said, place=str(path))
    if not ChainLink.objects.filter(sequence=exported.last, hash=exported.head.hash).exists():
        raise MetadataError("artifact_differs", "is of another chain than this database's", place=str(path))
    needed = first_needed(exported.first - 1, exported.last)
    if needed is not None:
        said = f"entry {needed.subject_id} is needed again: what it changed was not carried out everywhere"
        raise MetadataError("still_needed", said, place=str(path))


def _remove(exported: Exported) -> int:
    total = 0
    for kind in chain.removable_kinds():
        removed = remove_linked(connection, chain.model_of(kind), kind=kind, first=exported.first, last=exported.last)
        if removed != exported.rows.get(kind, 0):
            said = f"{exported.rows.get(kind, 0) - removed} rows of kind {kind} are gone: run verify_audit"
            raise MetadataError("row_missing", said)
        total += removed
    return total
