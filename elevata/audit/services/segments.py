"""Removed segments: link ranges whose entries were exported and removed."""

from __future__ import annotations

from bisect import bisect_right

from elevata.audit.domain import Link, Problem
from elevata.audit.models import AuditSegment


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
