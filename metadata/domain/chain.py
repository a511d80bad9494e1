"""The hash chain over everything that must stay as it was written.

Each link names one row (``kind`` and ``subject``, the row's id), carries the digest of the row's own
content and the hash of the link before it. So whoever holds one link's hash holds a proof of every
row up to it: changing, removing or slipping in a row changes all hashes after it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError

# What the first link has for a previous hash, and the head of a chain that has no link yet.
GENESIS = "0" * 64
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class ChainKind:
    """Kind of append-only rows that the chain covers, under a name that never changes.

    ``removable``: nothing else needs the rows, so retention may remove them once they were exported. ``related`` names
    the rows that ``content()`` reads, too.
    """

    name: str
    removable: bool = False
    related: tuple[str, ...] = ()


@dataclass(frozen=True)
class Head:
    """End of a chain: the last link's sequence (0: no link yet) and its hash."""

    sequence: int = 0
    hash: str = GENESIS

    def as_json(self) -> dict[str, int | str]:
        return {"sequence": self.sequence, "hash": self.hash}


@dataclass(frozen=True)
class Link:
    """One link. ``digest`` is SHA-256 over the canonical JSON of the row's content.

    ``sealed_at`` is ISO 8601 in UTC with microseconds.
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
    """Reason why a chain is broken: a stable code, a sentence, and the first broken place."""

    code: str
    message: str
    sequence: int | None = None
    kind: str = ""
    subject: int | None = None

    def as_json(self) -> dict[str, int | str]:
        return {name: value for name, value in vars(self).items() if value not in (None, "")}


def link_hash(*, sequence: int, kind: str, subject: int, digest: str, previous: str, sealed_at: str) -> str:
    """Return the hash of one link. It never changes: exported artifacts carry it."""
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
    """Return the link that goes after ``head``."""
    content = {
        "sequence": head.sequence + 1,
        "kind": kind,
        "subject": subject,
        "digest": digest,
        "previous": head.hash,
        "sealed_at": sealed_at,
    }
    return Link(**content, hash=link_hash(**content))


def check_link(head: Head, link: Link) -> Problem | None:
    """Return the problem of ``link`` as the successor of ``head``; None if it follows."""
    at = {"sequence": link.sequence, "kind": link.kind, "subject": link.subject}
    if link.sequence != head.sequence + 1:
        expected = head.sequence + 1
        return Problem("link_missing", f"link {expected} is missing: link {link.sequence} follows", expected)
    if link.previous != head.hash:
        return Problem("link_changed", f"link {link.sequence} does not continue the link before it", **at)
    made = next_link(head, kind=link.kind, subject=link.subject, digest=link.digest, sealed_at=link.sealed_at)
    if made.hash != link.hash:
        return Problem("link_changed", f"link {link.sequence} was changed: its hash is not that of its content", **at)
    return None


def parse_head(artifact: object) -> Head:
    """The head of the chain that an exported artifact carries in ``chain: {sequence, hash}``.

    Raises MetadataError with code ``invalid`` if there is none or it can't be one.
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
