"""Hash-chained, signed log of append-only rows in the control database.

A writer adds its rows and, in the same transaction, a signed pending record with the rows' digests (``append``).
After the commit, one process turns all pending records into signed links (``seal``), under a lock on the head that
writers do not take. If it dies, the next process seals them. A pending record that is unsigned, or whose rows have
other digests, is never sealed.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from elevata.audit.append_only import guarded_models
from elevata.audit.hash_chain import GENESIS, ChainKind, Head, Link, Problem, link_hash, next_link
from elevata.audit.models import AppendOnly, ChainHead, ChainLink, ChainPending
from elevata.audit.services import recorded_heads
from elevata.audit.services.signing import keyring, sign, signature_problem
from elevata.audit.signatures import Signature
from elevata.core.canonical_json import sha256_hex

log = logging.getLogger(__name__)

_HEAD = 1
_BATCH = 200
# Purposes of signatures: the signature of a link is invalid for a pending record.
_LINK, _PENDING = "audit-link", "audit-note"


@cache
def chained_models() -> dict[str, type[AppendOnly]]:
    """Return the chain's models by kind. Raise ValueError if two models have the same kind."""
    models: dict[str, type[AppendOnly]] = {}
    for model in guarded_models():
        if model.CHAIN is not None and models.setdefault(model.CHAIN.name, model) is not model:
            raise ValueError(f"kind {model.CHAIN.name!r} is {models[model.CHAIN.name].__name__}'s")
    return models


def chain_of(model: type[AppendOnly]) -> ChainKind:
    """Return the kind of a model of the chain."""
    assert model.CHAIN is not None
    return model.CHAIN


def row_digest(row: AppendOnly) -> str:
    """Return the digest of a row's content."""
    return sha256_hex(row.content())


def model_of(kind: str) -> type[AppendOnly] | None:
    """Return the model of a kind; None if it is not installed."""
    return chained_models().get(kind)


def _kind_of(row: AppendOnly) -> str:
    """Return the kind of a row. Raise TypeError for a model that is not in the chain."""
    if not isinstance(row, AppendOnly) or row.CHAIN is None:
        raise TypeError(f"{type(row).__name__} is not in the chain")
    return row.CHAIN.name


def removable_kinds() -> list[str]:
    """Return the kinds whose rows retention may remove."""
    return [kind for kind, model in chained_models().items() if chain_of(model).removable]


def append(*rows: AppendOnly) -> None:
    """Add a signed pending record of rows that this transaction wrote; they are linked after the commit.

    All rows must be of one model.
    """
    if not rows:
        return
    kind = _kind_of(rows[0])
    with transaction.atomic():
        subjects = [[row.pk, row_digest(row)] for row in rows]
        signature = pending_signature(kind, subjects)
        ChainPending.objects.create(kind=kind, subjects=subjects, key_id=signature.key_id, signature=signature.value)
        # The rows are committed by then: if sealing fails, the error is logged and the next seal includes them.
        transaction.on_commit(seal, robust=True)


def pending_signature(kind: str, subjects: list[list[Any]]) -> Signature:
    """Return the signature of a pending record."""
    return sign(_PENDING, _record_document(kind, subjects))


def head() -> Head:
    """Return the end of the chain."""
    row = ChainHead.objects.filter(pk=_HEAD).first()
    return Head() if row is None else Head(row.sequence, row.hash)


def sealed_through() -> int:
    """Return the sequence number of the last sealed link; 0 before the first.

    Read before metadata, it is a watermark: every entry linked up to it was committed before, and entries committed
    later get higher numbers.
    """
    return head().sequence


def seal(*, wait: bool = False) -> int:
    """Link all committed rows and return the number of new links; must not run in a transaction.

    If another process has the lock, return at once, because that process checks for new rows after it releases the
    lock. With ``wait``, wait for the lock instead. The new head is recorded outside the database.
    """
    sealed = 0
    while ChainPending.objects.filter(refused="").exists():
        count = _seal_batch(wait)
        sealed += count
        if not count:
            break
    if sealed:
        recorded_heads.record(head())
    return sealed


def _seal_batch(wait: bool) -> int:
    """Seal a batch of pending records as links, oldest first, in one short transaction."""
    with transaction.atomic(durable=True):
        row = _locked_head(wait)
        if row is None:
            return 0
        records = list(ChainPending.objects.filter(refused="").order_by("pk")[:_BATCH])
        valid = []
        for record, problem in check_records(records):
            if problem is None:
                valid.append(record)
                continue
            log.error("a note for the audit chain is not sealed: %s", problem.message)
            ChainPending.objects.filter(pk=record.pk).update(refused=problem.code)
        end, links, now = Head(row.sequence, row.hash), [], timezone.now()
        for record in valid:
            for subject, digest in record.subjects:
                link = next_link(end, kind=record.kind, subject=subject, digest=digest, sealed_at=_iso_utc(now))
                end = Head(link.sequence, link.hash)
                links.append(link)
        if not links:
            return 0
        if row.sequence == 0:
            # The file must exist before the commit, because the next process that seals expects it.
            recorded_heads.create()
        _create_links(links, now)
        ChainPending.objects.filter(pk__in=[record.pk for record in valid]).delete()
        updated = ChainHead.objects.filter(pk=_HEAD, sequence=row.sequence, hash=row.hash).update(
            sequence=end.sequence, hash=end.hash
        )
        if not updated:
            raise RuntimeError("the head of the chain moved under its lock")
        return len(links)


def _record_document(kind: str, subjects: Any) -> dict[str, Any]:
    return {"kind": kind, "subjects": subjects}


def check_records(records: list[ChainPending]) -> Iterator[tuple[ChainPending, Problem | None]]:
    """Yield each pending record with its problem, if any.

    In a valid record the signature is right, and its rows have the recorded digests and no links yet.
    """
    signed_records = [record for record in records if not pending_signature_problem(record)]
    subjects = [(record.kind, subject) for record in signed_records for subject, _ in record.subjects]
    rows, linked = _rows_of_subjects(subjects), _linked_subjects(subjects)
    for record in records:
        problem = pending_signature_problem(record) or next(_subject_problems(record, rows, linked), None)
        if problem is None:
            linked.update((record.kind, subject) for subject, _ in record.subjects)
        yield record, problem


def pending_signature_problem(record: ChainPending) -> Problem | None:
    """Return the problem of a pending record that was not signed with the audit key."""
    signature = Signature(record.key_id, record.signature)
    try:
        code = signature_problem(signature, _PENDING, _record_document(record.kind, record.subjects))
        first = record.subjects[0][0]
    except (TypeError, ValueError, IndexError, KeyError):
        code, first = "signature_wrong", None
    if not code:
        return None
    message = f"{record.kind} {first} waits to be sealed, but its note {_SIGNATURES[code]}"
    return Problem(code, message, kind=record.kind, subject=first if isinstance(first, int) else None)


_SIGNATURES = {
    "signature_wrong": "was not signed by this installation's audit key",
    "key_unknown": "was signed by another audit key, which is not among ELEVATA_AUDIT_KEYS_FORMER",
}


def _subject_problems(
    record: ChainPending, rows: dict[tuple[str, int], AppendOnly], linked: set[tuple[str, int]]
) -> Iterator[Problem]:
    model = model_of(record.kind)
    for subject, digest in record.subjects:
        at = {"kind": record.kind, "subject": subject}
        row = rows.get((record.kind, subject))
        if model is None:
            yield Problem("kind_unknown", f"nothing of kind {record.kind} is known here", **at)
        elif row is None:
            yield Problem("row_missing", f"{record.kind} {subject} is gone, and was never sealed", **at)
        elif row_digest(row) != digest:
            yield Problem("row_changed", f"{record.kind} {subject} was changed before it was sealed", **at)
        elif (record.kind, subject) in linked:
            yield Problem("note_repeated", f"{record.kind} {subject} is to be sealed a second time", **at)


def _linked_subjects(subjects: list[tuple[str, int]]) -> set[tuple[str, int]]:
    """Return the subjects that have a link."""
    linked: set[tuple[str, int]] = set()
    for kind, pks in _pks_by_kind(subjects).items():
        links = ChainLink.objects.filter(kind=kind, subject_id__among=pks)
        linked.update((kind, pk) for pk in links.values_list("subject_id", flat=True))
    return linked


def _locked_head(wait: bool) -> ChainHead | None:
    """Return the head, locked until the transaction ends; None if it is locked already and ``wait`` is False."""
    skip = connection.features.has_select_for_update_skip_locked and not wait
    heads = ChainHead.objects.select_for_update(skip_locked=skip).filter(pk=_HEAD)
    row = heads.first()
    if row is None and not ChainHead.objects.filter(pk=_HEAD).exists():
        ChainHead.objects.bulk_create([ChainHead(pk=_HEAD, hash=GENESIS)], ignore_conflicts=True)
        row = heads.first()
    return row


def _create_links(links: list[Link], now: datetime) -> None:
    signing = keyring()
    ChainLink.objects.bulk_create(
        ChainLink(
            sequence=link.sequence,
            kind=link.kind,
            subject_id=link.subject,
            digest=link.digest,
            previous=link.previous,
            hash=link.hash,
            sealed_at=now,
            key_id=signing.key_id,
            signature=signing.sign(_LINK, link.hash.encode()).value,
        )
        for link in links
    )


def _iso_utc(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def proven(*rows: AppendOnly) -> frozenset[int]:
    """Return the ids of the rows of one model that match their valid link or signed pending record.

    Rows inserted without ``append`` have neither.
    """
    if not rows:
        return frozenset()
    kind = _kind_of(rows[0])
    digests = {row.pk: row_digest(row) for row in rows}
    # Pending records become links, never the reverse, so links are queried last.
    pending: set[int] = set()
    for record in ChainPending.objects.filter(kind=kind):
        if not pending_signature_problem(record):
            pending.update(subject for subject, digest in record.subjects if digests.get(subject) == digest)
    links = ChainLink.objects.filter(kind=kind, subject_id__among=list(digests))
    return frozenset(pending).union(
        link.subject_id for link in links if link.digest == digests[link.subject_id] and _is_valid(link)
    )


def _is_valid(stored: ChainLink) -> bool:
    """Return True if a link's hash is that of its content and its signature is valid."""
    content = {name: value for name, value in vars(link_of(stored)).items() if name != "hash"}
    return link_hash(**content) == stored.hash and link_signature_problem(stored) is None


def link_signature_problem(stored: ChainLink) -> Problem | None:
    code = keyring().problem(Signature(stored.key_id, stored.signature), _LINK, stored.hash.encode())
    if not code:
        return None
    message = f"link {stored.sequence} {_SIGNATURES[code]}"
    return Problem(code, message, stored.sequence, stored.kind, stored.subject_id)


def link_of(row: ChainLink) -> Link:
    """Return a stored link as a domain ``Link``."""
    return Link(row.sequence, row.kind, row.subject_id, row.digest, row.previous, _iso_utc(row.sealed_at), row.hash)


def rows_of(links: list[Link]) -> dict[tuple[str, int], AppendOnly]:
    """Return the existing rows of the links, by kind and id."""
    return _rows_of_subjects([(link.kind, link.subject) for link in links])


def _rows_of_subjects(subjects: list[tuple[str, int]]) -> dict[tuple[str, int], AppendOnly]:
    rows_by_subject: dict[tuple[str, int], AppendOnly] = {}
    for kind, pks in _pks_by_kind(subjects).items():
        model = model_of(kind)
        if model is not None:
            related = chain_of(model).related
            rows = model.objects.select_related(*related) if related else model.objects
            rows_by_subject.update(((kind, pk), row) for pk, row in rows.in_bulk(pks).items())
    return rows_by_subject


def _pks_by_kind(subjects: list[tuple[str, int]]) -> dict[str, list[int]]:
    pks_by_kind: dict[str, list[int]] = defaultdict(list)
    for kind, pk in subjects:
        pks_by_kind[kind].append(pk)
    return pks_by_kind


def unsealed() -> int:
    """Return the number of rows that are committed and not linked yet."""
    subject_lists = ChainPending.objects.values_list("subjects", flat=True)
    return sum(len(subjects) if isinstance(subjects, list) else 1 for subjects in subject_lists)
