"""Stored responses for idempotency keys: a repeated request is executed once and answered identically."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from metadata.models import KeptAnswer

KEPT_FOR = timedelta(hours=24)
# Longer than any request lives. Whoever claimed it and has not answered by then has died, and its
# transaction with it: the answer is stored in the transaction that does the work.
GIVEN_UP_AFTER = timedelta(minutes=10)


def claim_answer(*, person: Any, key: str, digest: str) -> tuple[KeptAnswer, bool]:
    """Return the row of this key, and True if the caller must execute the request."""
    now = timezone.now()
    try:
        with transaction.atomic():
            return KeptAnswer.objects.create(person=person, key=key, digest=digest, started_at=now), True
    except IntegrityError:
        kept = KeptAnswer.objects.get(person=person, key=key)
    started = kept.started_at
    if kept.digest == digest and kept.status is None and started < now - GIVEN_UP_AFTER:
        taken = KeptAnswer.objects.filter(pk=kept.pk, status=None, started_at=started).update(started_at=now)
        return kept, bool(taken)
    return kept, False


def keep_answer(kept: KeptAnswer, *, status: int, content_type: str, headers: dict[str, str], body: str) -> None:
    """Store a response, in the transaction that did the work."""
    kept.status, kept.content_type, kept.headers, kept.body = status, content_type, headers, body
    kept.save(update_fields=["status", "content_type", "headers", "body"])


def release_claim(kept: KeptAnswer) -> None:
    """Release the key of a request that failed without effect, so that it can be retried."""
    KeptAnswer.objects.filter(pk=kept.pk, status=None).delete()


def forget_old_answers() -> int:
    """Delete responses older than 24 hours and return their number."""
    gone, _ = KeptAnswer.objects.filter(started_at__lt=timezone.now() - KEPT_FOR).delete()
    return gone
