"""Verification of the chain: links, rows, recorded heads and pending records."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef

from elevata.audit.append_only import wrong_triggers
from elevata.audit.hash_chain import Head, Link, Problem, check_link, problem_at
from elevata.audit.models import AppendOnly, AuditSegment, ChainLink, ChainPending
from elevata.audit.services import recorded_heads
from elevata.audit.services.chain import (
    chain_of,
    chained_models,
    check_records,
    head,
    link_of,
    link_signature_problem,
    model_of,
    pending_signature_problem,
    row_digest,
    rows_of,
    unsealed,
)
from elevata.audit.services.recorded_heads import Restore
from elevata.core.registry import Registered

_BEGINNING = Head()
_CHUNK = 1000


# Checks besides the chain: functions that return the first problem that they find.
COMPARISONS: Registered[Callable[[], Problem | None]] = Registered()


def _comparison_problem() -> Problem | None:
    """Return the first problem that the comparisons find."""
    for compare in COMPARISONS:
        problem = compare()
        if problem is not None:
            return problem
    return None


@dataclass(frozen=True)
class Verification:
    """Result of verifying the chain.

    ``unsealed`` is the number of rows that are committed and not linked yet, ``segments`` that of link ranges whose
    entries were exported and removed, and ``unrecorded`` that of links after the newest head recorded outside the
    database. ``restores`` are the recorded restores of an older copy of the database.
    """

    head: Head
    links: int
    unsealed: int
    segments: int
    problem: Problem | None = None
    unrecorded: int = 0
    restores: tuple[Restore, ...] = ()

    @property
    def intact(self) -> bool:
        return self.problem is None

    def as_json(self) -> dict[str, Any]:
        return {
            "intact": self.intact,
            "links": self.links,
            "unsealed": self.unsealed,
            "segments": self.segments,
            "unrecorded": self.unrecorded,
            "restores": [restore.as_json() for restore in self.restores],
            "head": self.head.as_json(),
            # Artifacts have the head under this name.
            "chain": self.head.as_json(),
            "problem": self.problem.as_json() if self.problem else None,
        }


def verify_chain(*, against: Head | None = None, since: Head = _BEGINNING, recorded: bool = True) -> Verification:
    """Verify every link of the chain and its row, up to the first problem. Writers may continue meanwhile.

    ``against`` is the head in an artifact, which must be one of the links. ``since`` must be one, too; links up to it
    count as verified. With ``recorded``, the chain is compared with the heads recorded outside the database.
    """
    segments = Segments()
    problem = _artifact_problem(since) or segments.gap_problem()
    end = since
    if problem is None:
        for end, problem in _verify_links(since, segments):  # noqa: B007
            if problem is not None:
                break
    records = recorded_heads.read()
    if problem is None:
        problem = (
            segments.end_problem(end.sequence)
            or _head_problem(end)
            or _artifact_problem(against)
            or (_recorded_head_problem(records, end) if recorded else None)
            or _pending_problem()
            or _unlinked_row()
            or _comparison_problem()
            or wrong_triggers(connection)
        )
    newest = records.newest.sequence if records.newest is not None else 0
    return Verification(
        end,
        end.sequence,
        unsealed(),
        len(segments),
        problem,
        unrecorded=max(0, end.sequence - newest),
        restores=records.restores,
    )


def _verify_links(end: Head, segments: Segments) -> Iterator[tuple[Head, Problem | None]]:
    """Yield the end of the verified part after each batch of links, with the problem of the next link."""
    while True:
        stored = list(ChainLink.objects.filter(sequence__gt=end.sequence).order_by("sequence")[:_CHUNK])
        links = [link_of(row) for row in stored]
        if not links:
            return
        rows = rows_of(links)
        for row, link in zip(stored, links, strict=True):
            problem = (
                check_link(end, link)
                or link_signature_problem(row)
                or _check_row(link, rows, segments)
                or segments.hash_problem(link)
            )
            if problem is not None:
                yield end, problem
                return
            end = Head(link.sequence, link.hash)
        yield end, None


def _check_row(link: Link, rows: dict[tuple[str, int], AppendOnly], segments: Segments) -> Problem | None:
    model = model_of(link.kind)
    if model is None:
        return problem_at(link, "kind_unknown", f"nothing of kind {link.kind} is known here")
    row = rows.get((link.kind, link.subject))
    if row is None:
        # Retention may have removed it during the verification.
        if chain_of(model).removable and (segments.holds(link) or segments.again().holds(link)):
            return None
        return problem_at(link, "row_missing", f"{link.kind} {link.subject} is gone")
    if chain_of(model).removable and segments.holds(link) and model.objects.filter(pk=row.pk).exists():
        message = f"{link.kind} {link.subject} is still there, though its segment says that it was removed"
        return problem_at(link, "segment_incomplete", message)
    if row_digest(row) != link.digest:
        return problem_at(link, "row_changed", f"{link.kind} {link.subject} was changed after it was sealed")
    return None


def _head_problem(end: Head) -> Problem | None:
    """Return the problem of the stored head if it is before the last link, or differs from the links.

    The head may have advanced during the verification.
    """
    now = head()
    if now.sequence < end.sequence:
        return Problem("head_changed", f"the chain goes on after its head, link {now.sequence}", now.sequence + 1)
    if now.sequence > end.sequence and not ChainLink.objects.filter(sequence=now.sequence, hash=now.hash).exists():
        return Problem("link_missing", f"links after {end.sequence} are missing", end.sequence + 1)
    if now.sequence == end.sequence and now.hash != end.hash:
        return Problem("head_changed", "the head is not the last link's hash", end.sequence)
    return None


def _artifact_problem(against: Head | None) -> Problem | None:
    if against is None or against == Head():
        return None
    if ChainLink.objects.filter(sequence=against.sequence, hash=against.hash).exists():
        return None
    message = f"the artifact was made when link {against.sequence} ended the chain, and this chain has no such link"
    return Problem("artifact_differs", message, against.sequence)


def _recorded_head_problem(records: recorded_heads.Records, end: Head) -> Problem | None:
    """Return the problem of a head that is recorded outside the database and is missing in this chain."""
    if records.problem is not None and (end.sequence or records.problem.code != "heads_missing"):
        return records.problem
    sequences = [recorded.sequence for recorded in records.heads]
    links = ChainLink.objects.filter(sequence__among=sequences).values_list("sequence", "hash")
    hashes = dict(links)
    for recorded in records.heads:
        if hashes.get(recorded.sequence) != recorded.hash:
            message = (
                f"link {recorded.sequence} once ended the chain, by {recorded_heads.path()}, and this chain has no "
                "such link: it was cut, or is that of another copy of the database"
            )
            return Problem("heads_differ", message, recorded.sequence)
    return None


def _pending_problem() -> Problem | None:
    """Return the problem of the first pending record that cannot be sealed."""
    records = list(ChainPending.objects.order_by("pk"))
    wrong = {record.pk: problem for record, problem in check_records(records) if problem is not None}
    for record in records:
        # A record that was sealed during the verification was valid.
        if record.pk in wrong and ChainPending.objects.filter(pk=record.pk).exists():
            return wrong[record.pk]
    return None


def _unlinked_row() -> Problem | None:
    """Return the problem of the first row added without ``append``: neither linked nor pending."""
    for kind, model in chained_models().items():
        links = ChainLink.objects.filter(kind=kind)
        unlinked = model.objects.filter(~Exists(links.filter(subject_id=OuterRef("pk"))))
        suspects = set(unlinked.values_list("pk", flat=True))
        # Pending records become links meanwhile, never the reverse, so links are queried last.
        suspects -= _pending_subjects(kind)
        for pk in sorted(suspects):
            if not links.filter(subject_id=pk).exists():
                message = f"{kind} {pk} stands in no link"
                return Problem("row_extra", message, kind=kind, subject=pk)
    return None


def _pending_subjects(kind: str) -> set[int]:
    records = ChainPending.objects.filter(kind=kind)
    return {subject for record in records if not pending_signature_problem(record) for subject, _ in record.subjects}


class Segments:
    """Removed segments in order; they are contiguous from link 1."""

    def __init__(self) -> None:
        self.again()

    def again(self) -> Segments:
        """Reload the segments from the database."""
        self._all = list(AuditSegment.objects.order_by("first"))
        self._firsts = [segment.first for segment in self._all]
        self._ends = {segment.last: segment for segment in self._all}
        return self

    def __len__(self) -> int:
        return len(self._all)

    def holds(self, link: Link) -> bool:
        """Return True if the link is in a segment, so that its entry exists in an exported file only."""
        place = bisect_right(self._firsts, link.sequence) - 1
        return place >= 0 and link.sequence <= self._all[place].last

    def gap_problem(self) -> Problem | None:
        """Return the problem of the first segment that does not begin at the end of the previous one."""
        expected = 1
        for segment in self._all:
            if segment.first != expected:
                message = f"{segment} are a segment, but {expected} is the first link that no segment has"
                return Problem("segment_changed", message, kind="segment", subject=segment.pk)
            expected = segment.last + 1
        return None

    def end_problem(self, sequence: int) -> Problem | None:
        """Return the problem of a segment that ends after the chain's end."""
        if not self._all or self._all[-1].last <= sequence:
            return None
        segment = self._all[-1]
        message = f"{segment} are a segment, but the chain ends at link {sequence}"
        return Problem("segment_changed", message, kind="segment", subject=segment.pk)

    def hash_problem(self, link: Link) -> Problem | None:
        """Return the problem of the segment that ends with this link, if it has another hash for it."""
        segment = self._ends.get(link.sequence)
        if segment is None or segment.head == link.hash:
            return None
        message = f"the segment of {segment} does not end with the hash of link {link.sequence}"
        return Problem("segment_changed", message, link.sequence, "segment", segment.pk)
