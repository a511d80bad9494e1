"""Audit chain exports as JSON lines, verified from the file alone: no database, no network, no clock.

The first line states the content: a *segment* (every link of a range, with its row) or a *selection* (entries
that match a filter, each with its link). One line for each row follows. The last line has the number of rows
and the SHA-256 of all bytes before it, so a truncated file is detected.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from elevata.core.canonical_json import canonical_json, sha256_hex
from elevata.core.errors import MetadataError
from metadata.domain.chain import Head, Link, Problem, check_link, link_hash, parse_head

FORMAT = "audit-export/v2"
SEGMENT, SELECTION = "segment", "selection"


@dataclass(frozen=True)
class Exported:
    """Content of a verified export file.

    ``first``, ``last``, ``previous`` and ``head`` (its end) are set for a segment only. ``rows`` counts rows
    by kind, ``unlinked`` the rows that had no link when they were exported; ``digest`` is the SHA-256 of the
    whole file.
    """

    content: str
    chain: Head
    rows: Mapping[str, int]
    unlinked: int
    digest: str
    first: int = 0
    last: int = 0
    previous: Head = Head()
    head: Head = Head()

    def as_json(self) -> dict[str, Any]:
        said = {"content": self.content, "rows": dict(self.rows), "unlinked": self.unlinked, "digest": self.digest}
        if self.content == SEGMENT:
            said |= {"first": self.first, "last": self.last, "head": self.head.hash}
        return said | {"chain": self.chain.as_json()}


class Broken(Exception):
    """Error for an export file that was changed, truncated or extended."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


# --- writing -----------------------------------------------------------------------------------


def written(header: Mapping[str, Any], rows: Iterable[tuple[Link | None, Mapping[str, Any]]]) -> Iterator[bytes]:
    """Yield the lines of an export, each with its line feed; ``header`` has no format name."""
    digest, count = hashlib.sha256(), 0
    for number, document in enumerate(_documents(header, rows)):
        line = canonical_json(document) + b"\n"
        digest.update(line)
        count = number
        yield line
    yield canonical_json({"end": {"rows": count, "sha256": digest.hexdigest()}}) + b"\n"


def _documents(
    header: Mapping[str, Any], rows: Iterable[tuple[Link | None, Mapping[str, Any]]]
) -> Iterator[dict[str, Any]]:
    yield {"format": FORMAT, **header}
    for link, content in rows:
        yield {"link": None if link is None else dict(vars(link)), "row": dict(content)}


# --- proving -----------------------------------------------------------------------------------


def verified(lines: Iterable[bytes]) -> Exported:
    """Return the content of an export file, verified to be unchanged.

    Raises Broken with the first problem found, MetadataError ``invalid`` for a file that is not an export.
    """
    try:
        return _Reader().read(lines)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MetadataError("invalid", f"is not built like {FORMAT}: {error!r}") from None


class _Reader:
    """Line-by-line verification of an export; its state is hashes, counters and the last verified link."""

    def __init__(self) -> None:
        self.before, self.whole = hashlib.sha256(), hashlib.sha256()
        self.rows: dict[str, int] = {}
        self.unlinked, self.count, self.lines = 0, 0, 0

    def read(self, lines: Iterable[bytes]) -> Exported:
        given = iter(lines)
        header = self._header(next(given, b""))
        end: Mapping[str, Any] | None = None
        for line in given:
            if end is not None:
                raise Broken(Problem("cut_off", "something follows the line that ends the export"))
            before = self.before.hexdigest()
            document = self._line(line)
            if "end" in document:
                end = document["end"]
                if end["sha256"] != before or end["rows"] != self.count:
                    raise Broken(Problem("row_changed", "lines were changed, removed or added since the export"))
            else:
                self._row(document)
        if end is None:
            raise Broken(Problem("cut_off", "the export is cut off: the line that ends it is missing"))
        return self._exported(header)

    def _header(self, line: bytes) -> Mapping[str, Any]:
        header = self._line(line)
        if header.get("format") != FORMAT or header.get("content") not in (SEGMENT, SELECTION):
            raise MetadataError("invalid", f"must begin with a line of {FORMAT}, not {header.get('format')!r}")
        self.chain = parse_head(header)
        self.is_segment = header["content"] == SEGMENT
        self.previous = Head(header["first"] - 1, header["previous"]) if self.is_segment else Head()
        self.at = self.previous
        return header

    def _line(self, line: bytes) -> Mapping[str, Any]:
        self.lines += 1
        self.before.update(line)
        self.whole.update(line)
        try:
            document = json.loads(line)
        except ValueError:
            raise MetadataError("invalid", f"line {self.lines} is no JSON document") from None
        if not isinstance(document, dict):
            raise MetadataError("invalid", "each line must be a JSON object")
        return document

    def _row(self, document: Mapping[str, Any]) -> None:
        self.count += 1
        content = document["row"]
        if document["link"] is None:
            self.unlinked += 1
            if self.is_segment:
                raise Broken(Problem("link_missing", f"row {content['id']} of a segment has no link"))
            return
        link = Link(**document["link"])
        self.rows[link.kind] = self.rows.get(link.kind, 0) + 1
        problem = (check_link(self.at, link) if self.is_segment else self._alone(link)) or _sealed(link, content)
        if problem is not None:
            raise Broken(problem)
        self.at = Head(link.sequence, link.hash)

    def _alone(self, link: Link) -> Problem | None:
        """Return the problem of a selection's link: a wrong hash, or a sequence after the chain's head.

        The links of a selection are not consecutive, so each is checked without its neighbours.
        """
        at = {"sequence": link.sequence, "kind": link.kind, "subject": link.subject}
        told = {name: value for name, value in vars(link).items() if name != "hash"}
        if link_hash(**told) != link.hash:
            return Problem(
                "link_changed", f"link {link.sequence} was changed: its hash is not that of its content", **at
            )
        if link.sequence > self.chain.sequence:
            return Problem("head_changed", f"link {link.sequence} is beyond the head that the file carries", **at)
        return None

    def _exported(self, header: Mapping[str, Any]) -> Exported:
        told = {"chain": self.chain, "rows": self.rows, "unlinked": self.unlinked, "digest": self.whole.hexdigest()}
        if not self.is_segment:
            return Exported(SELECTION, **told)
        if self.at.sequence != header["last"] or self.at.hash != header["head"]:
            raise Broken(Problem("link_missing", f"the segment ends at link {self.at.sequence}, not {header['last']}"))
        return Exported(
            SEGMENT, **told, first=header["first"], last=header["last"], previous=self.previous, head=self.at
        )


def _sealed(link: Link, content: Mapping[str, Any]) -> Problem | None:
    at = {"sequence": link.sequence, "kind": link.kind, "subject": link.subject}
    if sha256_hex(content) != link.digest or content["id"] != link.subject:
        return Problem("row_changed", f"{link.kind} {link.subject} is not what was sealed", **at)
    return None
