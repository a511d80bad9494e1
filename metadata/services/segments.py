"""Segments of the chain whose entries were removed after they were exported: what they account for."""

from __future__ import annotations

from bisect import bisect_right

from metadata.domain.chain import Link, Problem
from metadata.models import AuditSegment


class Segments:
    """The segments there are, for whoever walks the chain. They follow each other from link 1 on."""

    def __init__(self) -> None:
        self.again()

    def again(self) -> Segments:
        """Ask the database anew."""
        self._all = list(AuditSegment.objects.order_by("first"))
        self._firsts = [segment.first for segment in self._all]
        self._ends = {segment.last: segment for segment in self._all}
        return self

    def __len__(self) -> int:
        return len(self._all)

    def holds(self, link: Link) -> bool:
        """Return whether the link is in a segment, so that its entry is in a file and not in the database."""
        place = bisect_right(self._firsts, link.sequence) - 1
        return place >= 0 and link.sequence <= self._all[place].last

    def out_of_line(self) -> Problem | None:
        """A segment that does not begin where the one before it ended."""
        expected = 1
        for segment in self._all:
            if segment.first != expected:
                said = f"{segment} are a segment, but {expected} is the first link that no segment has"
                return Problem("segment_changed", said, kind="segment", subject=segment.pk)
            expected = segment.last + 1
        return None

    def beyond(self, sequence: int) -> Problem | None:
        """A segment that claims links after the chain's end."""
        if not self._all or self._all[-1].last <= sequence:
            return None
        segment = self._all[-1]
        said = f"{segment} are a segment, but the chain ends at link {sequence}"
        return Problem("segment_changed", said, kind="segment", subject=segment.pk)

    def wrong_at(self, link: Link) -> Problem | None:
        """A segment that ends with this link and says another hash of it."""
        segment = self._ends.get(link.sequence)
        if segment is None or segment.head == link.hash:
            return None
        said = f"the segment of {segment} does not end with the hash of link {link.sequence}"
        return Problem("segment_changed", said, link.sequence, "segment", segment.pk)
