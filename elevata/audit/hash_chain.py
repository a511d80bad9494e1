"""Pure rules of the hash chain; ``elevata.audit.services.chain`` verifies the stored chain.

Each link names one row (``kind`` and ``subject``, the row's id) and has the digest of the row's content and
the hash of the previous link. A link's hash therefore proves all rows up to it: changing, removing or
inserting a row changes all later hashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from elevata.core.canonical_json import sha256_hex
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
        return changed_link(link)
    return None


def problem_at(link: Link, code: str, message: str) -> Problem:
    return Problem(code, message, link.sequence, link.kind, link.subject)


def changed_link(link: Link) -> Problem:
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
