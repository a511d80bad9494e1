"""Pure rules of the hash chain and its export files; ``elevata.audit.services.chain`` verifies the stored chain.

Each link names one row (``kind`` and ``subject``, the row's id) and has the digest of the row's content and
the hash of the previous link. A link's hash therefore proves all rows up to it: changing, removing or
inserting a row changes all later hashes.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from elevata.core import strict_json
from elevata.core.canonical_json import canonical_json, sha256_hex
from elevata.core.errors import MetadataError

# Previous hash of the first link, and head of an empty chain.
GENESIS = "0" * 64
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ChainKind:
    """Kind of append-only rows in the chain; its name never changes.

    ``removable``: no other table refers to the rows, so retention may remove them after their export.
    ``related`` names the relations that ``content()`` reads, which are queried with the rows.
    """

    name: str
    removable: bool = False
    related: tuple[str, ...] = ()


@dataclass(frozen=True)
class Head:
    """Last link of a chain: its sequence (0 for an empty chain) and its hash."""

    sequence: int = 0
    hash: str = GENESIS

    def as_json(self) -> dict[str, int | str]:
        return {"sequence": self.sequence, "hash": self.hash}


@dataclass(frozen=True)
class Link:
    """Link of the chain.

    ``digest`` is the SHA-256 of the canonical JSON of the row's content; ``sealed_at`` is ISO 8601 in UTC with
    microseconds.
    """

    sequence: int
    kind: str
    subject: int
    digest: str
    previous: str
    sealed_at: str
    hash: str


@dataclass(frozen=True)
class Problem:
    """Reason for a failed verification: a stable code, a message, and the first link or row affected."""

    code: str
    message: str
    sequence: int | None = None
    kind: str = ""
    subject: int | None = None

    def as_json(self) -> dict[str, int | str]:
        return {name: value for name, value in vars(self).items() if value not in (None, "")}


def link_hash(*, sequence: int, kind: str, subject: int, digest: str, previous: str, sealed_at: str) -> str:
    """Return the hash of one link.

    The computation never changes, because exported artifacts contain these hashes.
    """
    return sha256_hex(
        {
            "sequence": sequence,
            "kind": kind,
            "subject": subject,
            "digest": digest,
            "previous": previous,
            "sealed_at": sealed_at,
        }
    )


def next_link(head: Head, *, kind: str, subject: int, digest: str, sealed_at: str) -> Link:
    """Return the link that follows ``head``."""
    sequence = head.sequence + 1
    own_hash = link_hash(
        sequence=sequence, kind=kind, subject=subject, digest=digest, previous=head.hash, sealed_at=sealed_at
    )
    return Link(sequence, kind, subject, digest, head.hash, sealed_at, own_hash)


def check_link(head: Head, link: Link) -> Problem | None:
    """Return the problem of ``link`` as the successor of ``head``; None if it is valid."""
    if link.sequence != head.sequence + 1:
        expected = head.sequence + 1
        return Problem("link_missing", f"link {expected} is missing: link {link.sequence} follows", expected)
    if link.previous != head.hash:
        return problem_at(link, "link_changed", f"link {link.sequence} does not continue the link before it")
    made = next_link(head, kind=link.kind, subject=link.subject, digest=link.digest, sealed_at=link.sealed_at)
    if made.hash != link.hash:
        return _changed_link(link)
    return None


def problem_at(link: Link, code: str, message: str) -> Problem:
    return Problem(code, message, link.sequence, link.kind, link.subject)


def _changed_link(link: Link) -> Problem:
    message = f"link {link.sequence} was changed: its hash is not that of its content"
    return problem_at(link, "link_changed", message)


def parse_head(artifact: object) -> Head:
    """Return the chain head that an exported artifact contains in ``chain: {sequence, hash}``.

    Raises MetadataError ``invalid`` if it is missing or malformed.
    """
    chain = artifact.get("chain") if isinstance(artifact, Mapping) else None
    if not isinstance(chain, Mapping):
        raise MetadataError("invalid", "holds no chain head: {sequence, hash}", "chain")
    sequence, digest = chain.get("sequence"), chain.get("hash")
    if type(sequence) is not int or sequence < 0:
        raise MetadataError("invalid", f"must be a whole number from 0, not {sequence!r}", "chain.sequence")
    if not isinstance(digest, str) or not _HASH.fullmatch(digest):
        raise MetadataError("invalid", "must be 64 lower-case hex digits", "chain.hash")
    if (sequence == 0) != (digest == GENESIS):
        raise MetadataError("invalid", "sequence 0, and no other, goes with a hash of zeros", "chain")
    return Head(sequence, digest)


# Signatures with keys outside the database: HMAC-SHA-256, with a key id.
#
# The key id is the start of the key's hash, so that a signature by a former key can be distinguished from a
# forged one.


SHORTEST = 32  # characters of a key
_ID_DIGITS = 16


@dataclass(frozen=True)
class Signature:
    """Signature with the id of its key, both in hex digits; empty if unsigned."""

    key_id: str = ""
    value: str = ""

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Return the signature written as ``key id:value``; an empty one for any other text."""
        key_id, colon, value = text.partition(":")
        return cls(key_id, value) if colon else cls()

    def __str__(self) -> str:
        return f"{self.key_id}:{self.value}"


def key_id_of(key: str) -> str:
    """Return the id of a key, which does not reveal the key."""
    return hashlib.sha256(b"elevata audit key id\0" + key.encode()).hexdigest()[:_ID_DIGITS]


class Keyring:
    """Signing key, and former keys whose signatures are still accepted."""

    def __init__(self, key: str, former: Iterable[str] = ()) -> None:
        self._keys = {key_id_of(text): text.encode() for text in (*former, key)}
        self.key_id = key_id_of(key)

    def sign(self, purpose: str, message: bytes) -> Signature:
        """Return the signature of a message; ``purpose`` makes it invalid for other kinds of messages."""
        return Signature(self.key_id, _hmac(self._keys[self.key_id], purpose, message))

    def problem(self, signature: Signature, purpose: str, message: bytes) -> str:
        """Return the problem of a signature, ``key_unknown`` or ``signature_wrong``; empty if it is valid."""
        key = self._keys.get(signature.key_id)
        if key is None:
            return "key_unknown" if signature.key_id else "signature_wrong"
        expected = _hmac(key, purpose, message)
        return "" if hmac.compare_digest(expected.encode(), signature.value.encode()) else "signature_wrong"


def _hmac(key: bytes, purpose: str, message: bytes) -> str:
    return hmac.digest(key, purpose.encode() + b"\0" + message, "sha256").hex()


# Exports of the audit chain are JSON lines, which are verified without a database, a network or a clock. The first line
# names the content: a *segment* (every link of a range, with its row) or a *selection* (entries that match a filter,
# each with its link). One line for each row follows. The last line has the number of rows and the SHA-256 of all bytes
# before it, so that a truncated file is detected.


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


# --- writing -----------------------------------------------------------------------------------


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


# --- verification --------------------------------------------------------------------------------


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
            return _changed_link(link)
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
