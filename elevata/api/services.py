"""Stored responses for idempotency keys: a repeated request is executed once and answered identically."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from elevata.api.models import StoredResponse

KEPT_FOR = timedelta(hours=24)


# Longer than any request lives. A claim without a response by then is from a dead process, and its
# transaction with it: the answer is stored in the transaction that does the work.
GIVEN_UP_AFTER = timedelta(minutes=10)


def claim_response(*, user: Any, key: str, digest: str) -> tuple[StoredResponse, bool]:
    """Return the row of this key, and True if the caller must execute the request."""
    now = timezone.now()
    try:
        with transaction.atomic():
            return StoredResponse.objects.create(user=user, key=key, digest=digest, started_at=now), True
    except IntegrityError:
        kept = StoredResponse.objects.get(user=user, key=key)
    started = kept.started_at
    if kept.digest == digest and kept.status is None and started < now - GIVEN_UP_AFTER:
        taken = StoredResponse.objects.filter(pk=kept.pk, status=None, started_at=started).update(started_at=now)
        return kept, bool(taken)
    return kept, False


def store_response(kept: StoredResponse, *, status: int, content_type: str, headers: dict[str, str], body: str) -> None:
    """Store a response, in the transaction that did the work."""
    kept.status, kept.content_type, kept.headers, kept.body = status, content_type, headers, body
    kept.save(update_fields=["status", "content_type", "headers", "body"])


def release_claim(kept: StoredResponse) -> None:
    """Release the key of a request that failed without effect, so that it can be retried."""
    StoredResponse.objects.filter(pk=kept.pk, status=None).delete()


def delete_old_responses() -> int:
    """Delete responses older than 24 hours and return their number."""
    gone, _ = StoredResponse.objects.filter(started_at__lt=timezone.now() - KEPT_FOR).delete()
    return gone
