"""The hash chain in the control database: what is committed is linked, in order, and can be proved.

A writer adds its row and, in the same transaction, a note of the row's digest (``append``). After
commit whoever comes first turns all notes into links (``seal``), under a lock on the head that no
writer needs. What a process that died left behind, the next one seals.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import Exists, OuterRef
from django.utils import timezone

from metadata.domain.canonical import sha256_hex
from metadata.domain.chain import GENESIS, Head, Link, Problem, check_link, next_link
from metadata.models import AppendOnly, AuditSegment, ChainHead, ChainLink, ChainPending, ChangeLogEntry
from metadata.services.segments import Segments

log = logging.getLogger(__name__)

Content = Callable[[Any], dict[str, Any]]
_HEAD = 1
_BEGINNING = Head()
_NOTES = 200
_CHUNK = 1000


@dataclass(frozen=True)
class Registered:
    """One kind of row in the chain, what of a row its digest covers, and whether retention may remove rows."""

    kind: str
    model: type[AppendOnly]
    content: Content
    removable: bool = False

    def digest(self, row: AppendOnly) -> str:
        return sha256_hex(self.content(row))


_by_kind: dict[str, Registered] = {}
_by_model: dict[type, Registered] = {}


def register(kind: str, model: type[AppendOnly], content: Content, *, removable: bool = False) -> None:
    """Let rows of an append-only model into the chain, under a name that never changes.

    ``content`` gives what the digest covers, for ``canonical_json``. It must give the same for a row
    just written and the same row read back, for ever. ``removable``: nothing else needs the rows, so
    retention may remove them once they were exported.
    """
    if not issubclass(model, AppendOnly):
        raise TypeError(f"{model.__name__} is not append-only")
    if _by_kind.get(kind, Registered(kind, model, content)).model is not model:
        raise ValueError(f"kind {kind!r} is {_by_kind[kind].model.__name__}'s")
    _by_kind[kind] = _by_model[model] = Registered(kind, model, content, removable)


def registered(kind: str) -> Registered | None:
    """What is known of a kind; None for one that is not installed."""
    return _by_kind.get(kind)


def removable_kinds() -> list[Registered]:
    """The kinds whose rows retention may remove."""
    return [one for one in _by_kind.values() if one.removable]


def append(*rows: AppendOnly) -> None:
    """Note rows of one model that this transaction just wrote; they are linked once it is committed."""
    if not rows:
        return
    registered = _by_model[type(rows[0])]
    with transaction.atomic():
        subjects = [[row.pk, registered.digest(row)] for row in rows]
        ChainPending.objects.create(kind=registered.kind, subjects=subjects)
        # The rows are safe already: a seal that fails is logged, and left to the next one.
        transaction.on_commit(seal, robust=True)


def head() -> Head:
    """Where the chain ends."""
    row = ChainHead.objects.filter(pk=_HEAD).first()
    return Head() if row is None else Head(row.sequence, row.hash)


def seal(*, wait: bool = False) -> int:
    """Link everything that is committed; returns how many links this call made. Not in a transaction.

    Where another process is at it, this returns at once: that one looks again after it let go of the
    lock. ``wait`` is for who needs the links now.
    """
    sealed = 0
    while ChainPending.objects.exists():
        made = _seal_some(wait)
        sealed += made
        if not made:
            break
    return sealed


def _seal_some(wait: bool) -> int:
    """One short transaction: notes to links, oldest first."""
    with transaction.atomic(durable=True):
        row = _locked_head(wait)
        if row is None:
            return 0
        notes = list(ChainPending.objects.order_by("pk")[:_NOTES])
        end, links = Head(row.sequence, row.hash), []
        for note in notes:
            for subject, digest in note.subjects:
                link = next_link(end, kind=note.kind, subject=subject, digest=digest)
                end = Head(link.sequence, link.hash)
                links.append(link)
        if not links:
            return 0
        _store(links)
        ChainPending.objects.filter(pk__in=[note.pk for note in notes]).delete()
        moved = ChainHead.objects.filter(pk=_HEAD, sequence=row.sequence, hash=row.hash).update(
            sequence=end.sequence, hash=end.hash
        )
        if not moved:
            raise RuntimeError("the head of the chain moved under its lock")
        return len(links)


def _locked_head(wait: bool) -> ChainHead | None:
    """The head, ours until the transaction ends; None where another process has it and we don't wait."""
    skip = connection.features.has_select_for_update_skip_locked and not wait
    heads = ChainHead.objects.select_for_update(skip_locked=skip).filter(pk=_HEAD)
    row = heads.first()
    if row is None and not ChainHead.objects.filter(pk=_HEAD).exists():
        ChainHead.objects.bulk_create([ChainHead(pk=_HEAD, hash=GENESIS)], ignore_conflicts=True)
        row = heads.first()
    return row


def _store(links: list[Link]) -> None:
    now = timezone.now()
    ChainLink.objects.bulk_create(
        ChainLink(
            sequence=link.sequence,
            kind=link.kind,
            subject_id=link.subject,
            digest=link.digest,
            previous=link.previous,
            hash=link.hash,
            sealed_at=now,
        )
        for link in links
    )


# --- proving ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verification:
    """What walking the chain found. ``unsealed`` rows are committed and not linked yet.

    ``segments`` is how many ranges of links have had their entries exported and removed.
    """

    head: Head
    links: int
    unsealed: int
    segments: int
    problem: Problem | None = None

    @property
    def intact(self) -> bool:
        return self.problem is None

    def as_json(self) -> dict[str, Any]:
        return {
            "intact": self.intact,
            "links": self.links,
            "unsealed": self.unsealed,
            "segments": self.segments,
            "head": self.head.as_json(),
            # Under the name that artifacts have it, so that what was said here is one.
            "chain": self.head.as_json(),
            "problem": self.problem.as_json() if self.problem else None,
        }


def verify(*, against: Head | None = None, since: Head = _BEGINNING) -> Verification:
    """Walk the chain, every link and every row it stands for; stops at the first that is wrong.

    ``against`` is the head that an artifact carries: it must be one of the links. ``since`` is one too,
    and what is up to it is taken as proven: only what came later is walked. Writers may go on.
    """
    segments = Segments()
    problem = _wrong_artifact(since) or segments.out_of_line()
    if problem is not None:
        return Verification(since, since.sequence, _unsealed(), len(segments), problem)
    end = since
    for end, problem in _walk(since, segments):
        if problem is not None:
            return Verification(end, end.sequence, _unsealed(), len(segments), problem)
    problem = segments.beyond(end.sequence) or _wrong_end(end) or _wrong_artifact(against) or _unlinked()
    return Verification(end, end.sequence, _unsealed(), len(segments), problem)


def _walk(end: Head, segments: Segments) -> Iterator[tuple[Head, Problem | None]]:
    """Link by link: the chain's end so far, and what is wrong with the next one."""
    while True:
        stored = ChainLink.objects.filter(sequence__gt=end.sequence).order_by("sequence")[:_CHUNK]
        links = [link_of(row) for row in stored]
        if not links:
            return
        rows = rows_of(links)
        for link in links:
            problem = check_link(end, link) or _check_row(link, rows, segments) or segments.wrong_at(link)
            if problem is not None:
                yield end, problem
                return
            end = Head(link.sequence, link.hash)
        yield end, None


def link_of(row: ChainLink) -> Link:
    """A stored link as the rules know it."""
    return Link(row.sequence, row.kind, row.subject_id, row.digest, row.previous, row.hash)


def rows_of(links: list[Link]) -> dict[tuple[str, int], AppendOnly]:
    """The rows that links stand for, by kind and id, as far as they are there."""
    wanted: dict[str, list[int]] = defaultdict(list)
    for link in links:
        wanted[link.kind].append(link.subject)
    found: dict[tuple[str, int], AppendOnly] = {}
    for kind, pks in wanted.items():
        if kind in _by_kind:
            rows = _by_kind[kind].model.objects.in_bulk(pks)
            found.update(((kind, pk), row) for pk, row in rows.items())
    return found


def _check_row(link: Link, rows: dict[tuple[str, int], AppendOnly], segments: Segments) -> Problem | None:
    at = {"sequence": link.sequence, "kind": link.kind, "subject": link.subject}
    known = _by_kind.get(link.kind)
    if known is None:
        return Problem("kind_unknown", f"nothing of kind {link.kind} is known here", **at)
    row = rows.get((link.kind, link.subject))
    if row is None:
        # It may have been removed, as it should be, since we began.
        if known.removable and (segments.holds(link) or segments.again().holds(link)):
            return None
        return Problem("row_missing", f"{link.kind} {link.subject} is gone", **at)
    if known.removable and segments.holds(link) and known.model.objects.filter(pk=row.pk).exists():
        said = f"{link.kind} {link.subject} is still there, though its segment says that it was removed"
        return Problem("segment_incomplete", said, **at)
    if known.digest(row) != link.digest:
        return Problem("row_changed", f"{link.kind} {link.subject} was changed after it was sealed", **at)
    return None


def _wrong_end(end: Head) -> Problem | None:
    """The head may have moved on while we walked, but never stand before or beside the last link."""
    now = head()
    if now.sequence < end.sequence:
        return Problem("head_changed", f"the chain goes on after its head, link {now.sequence}", now.sequence + 1)
    if now.sequence > end.sequence and not ChainLink.objects.filter(sequence=now.sequence, hash=now.hash).exists():
        return Problem("link_missing", f"links after {end.sequence} are missing", end.sequence + 1)
    if now.sequence == end.sequence and now.hash != end.hash:
        return Problem("head_changed", "the head is not the last link's hash", end.sequence)
    return None


def _wrong_artifact(against: Head | None) -> Problem | None:
    if against is None or against == Head():
        return None
    if ChainLink.objects.filter(sequence=against.sequence, hash=against.hash).exists():
        return None
    said = f"the artifact was made when link {against.sequence} ended the chain, and this chain has no such link"
    return Problem("artifact_differs", said, against.sequence)


def _unlinked() -> Problem | None:
    """Rows that never came through ``append``: neither linked nor waiting for it."""
    for registered in _by_kind.values():
        links = ChainLink.objects.filter(kind=registered.kind)
        unlinked = registered.model.objects.filter(~Exists(links.filter(subject_id=OuterRef("pk"))))
        suspects = set(unlinked.values_list("pk", flat=True))
        # Waiting rows become links while we look, never the other way round: so links are asked last.
        suspects -= _waiting(registered.kind)
        for pk in sorted(suspects):
            if not links.filter(subject_id=pk).exists():
                said = f"{registered.kind} {pk} stands in no link"
                return Problem("row_extra", said, kind=registered.kind, subject=pk)
    return None


def _waiting(kind: str) -> set[int]:
    notes = ChainPending.objects.filter(kind=kind).values_list("subjects", flat=True)
    return {subject for subjects in notes for subject, _ in subjects}


def _unsealed() -> int:
    return sum(len(subjects) for subjects in ChainPending.objects.values_list("subjects", flat=True))


register("change", ChangeLogEntry, ChangeLogEntry.content, removable=True)
register("segment", AuditSegment, AuditSegment.content)
