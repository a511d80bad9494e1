"""Exports of the audit chain: JSON lines, which are verified without a database, a network or a clock.

The first line names the content: a *segment* (every link of a range, with its row) or a *selection* (entries that match
a filter, each with its link). One line for each row follows. The last line has the number of rows and the SHA-256 of
all bytes before it, so that a truncated file is detected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elevata.audit.hash_chain import Head, Link, Problem, changed_link, check_link, link_hash, parse_head, problem_at
from elevata.core import strict_json
from elevata.core.canonical_json import canonical_json, sha256_hex
from elevata.core.errors import MetadataError

FORMAT = "audit-export/v2"
SEGMENT, SELECTION = "segment", "selection"


@dataclass(frozen=True)
class Exported:
    """Content of a verified export file.

    Only a segment has ``first``, ``last``, ``previous`` and ``head`` (its end). ``rows`` is the number of rows by
    kind, ``unlinked`` that of rows without a link at the time of the export, and ``digest`` the SHA-256 of the whole
    file.
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
        document = {"content": self.content, "rows": dict(self.rows), "unlinked": self.unlinked, "digest": self.digest}
        if self.content == SEGMENT:
            document |= {"first": self.first, "last": self.last, "head": self.head.hash}
        return document | {"chain": self.chain.as_json()}


class Broken(Exception):
    """Error for an export file that was changed, truncated or extended."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def export_lines(header: Mapping[str, Any], rows: Iterable[tuple[Link | None, Mapping[str, Any]]]) -> Iterator[bytes]:
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


def verify_lines(lines: Iterable[bytes]) -> Exported:
    """Return the content of an export file after verifying it.

    Raises Broken with the first problem, MetadataError ``invalid`` for a file that is not an export.
    """
    try:
        return _Reader().read(lines)
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MetadataError("invalid", f"is not built like {FORMAT}: {error!r}") from None


class _Reader:
    """Verification of an export, line by line, with constant memory: hashes, counters and the last verified link."""

    def __init__(self) -> None:
        self.before, self.whole = hashlib.sha256(), hashlib.sha256()
        self.rows: dict[str, int] = {}
        self.unlinked, self.count, self.lines = 0, 0, 0

    def read(self, lines: Iterable[bytes]) -> Exported:
        iterator = iter(lines)
        header = self._read_header(next(iterator, b""))
        end: Mapping[str, Any] | None = None
        for line in iterator:
            if end is not None:
                raise Broken(Problem("cut_off", "something follows the line that ends the export"))
            before = self.before.hexdigest()
            document = self._parse_line(line)
            if "end" in document:
                end = document["end"]
                if end["sha256"] != before or end["rows"] != self.count:
                    raise Broken(Problem("row_changed", "lines were changed, removed or added since the export"))
            else:
                self._read_row(document)
        if end is None:
            raise Broken(Problem("cut_off", "the export is cut off: the line that ends it is missing"))
        return self._result(header)

    def _read_header(self, line: bytes) -> Mapping[str, Any]:
        header = self._parse_line(line)
        if header.get("format") != FORMAT or header.get("content") not in (SEGMENT, SELECTION):
            raise MetadataError("invalid", f"must begin with a line of {FORMAT}, not {header.get('format')!r}")
        self.chain = parse_head(header)
        self.is_segment = header["content"] == SEGMENT
        self.previous = Head(header["first"] - 1, header["previous"]) if self.is_segment else Head()
        self.at = self.previous
        return header

    def _parse_line(self, line: bytes) -> Mapping[str, Any]:
        self.lines += 1
        self.before.update(line)
        self.whole.update(line)
        try:
            document = strict_json.loads(line.decode())
        except ValueError as problem:
            raise MetadataError("invalid", f"line {self.lines} is no JSON document: {problem}") from None
        if not isinstance(document, dict):
            raise MetadataError("invalid", "each line must be a JSON object")
        return document

    def _read_row(self, document: Mapping[str, Any]) -> None:
        self.count += 1
        content = document["row"]
        if document["link"] is None:
            self.unlinked += 1
            if self.is_segment:
                raise Broken(Problem("link_missing", f"row {content['id']} of a segment has no link"))
            return
        link = Link(**document["link"])
        self.rows[link.kind] = self.rows.get(link.kind, 0) + 1
        problem = (
            check_link(self.at, link) if self.is_segment else self._selection_link_problem(link)
        ) or _row_problem(link, content)
        if problem is not None:
            raise Broken(problem)
        self.at = Head(link.sequence, link.hash)

    def _selection_link_problem(self, link: Link) -> Problem | None:
        """Return the problem of a selection's link: a wrong hash, or a sequence after the chain's head.

        The links of a selection are not consecutive, so each is checked without its neighbours.
        """
        content = {name: value for name, value in vars(link).items() if name != "hash"}
        if link_hash(**content) != link.hash:
            return changed_link(link)
        if link.sequence > self.chain.sequence:
            message = f"link {link.sequence} is beyond the head that the file carries"
            return problem_at(link, "head_changed", message)
        return None

    def _result(self, header: Mapping[str, Any]) -> Exported:
        exported = Exported(SELECTION, self.chain, self.rows, self.unlinked, self.whole.hexdigest())
        if not self.is_segment:
            return exported
        if self.at.sequence != header["last"] or self.at.hash != header["head"]:
            raise Broken(Problem("link_missing", f"the segment ends at link {self.at.sequence}, not {header['last']}"))
        return replace(
            exported,
            content=SEGMENT,
            first=header["first"],
            last=header["last"],
            previous=self.previous,
            head=self.at,
        )


def _row_problem(link: Link, content: Mapping[str, Any]) -> Problem | None:
    if sha256_hex(content) != link.digest or content["id"] != link.subject:
        return problem_at(link, "row_changed", f"{link.kind} {link.subject} is not what was sealed")
    return None
