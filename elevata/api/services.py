"""Stored responses for idempotency keys: a repeated request is executed once and gets the same response."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from elevata.api.models import StoredResponse

KEPT_FOR = timedelta(hours=24)


# Longer than any request takes. A claim that has no response by then is from a process that died. Its work was rolled
# back, because the response is stored in the transaction of the work.
GIVEN_UP_AFTER = timedelta(minutes=10)


def claim_response(*, user: Any, key: str, digest: str) -> tuple[StoredResponse, bool]:
    """Return the row of this key, and True if the caller must execute the request."""
    now = timezone.now()
    try:
        with transaction.atomic():
            return StoredResponse.objects.create(user=user, key=key, digest=digest, started_at=now), True
    except IntegrityError:
        stored = StoredResponse.objects.get(user=user, key=key)
    started = stored.started_at
    if stored.digest == digest and stored.status is None and started < now - GIVEN_UP_AFTER:
        claimed = StoredResponse.objects.filter(pk=stored.pk, status=None, started_at=started).update(started_at=now)
        return stored, bool(claimed)
    return stored, False


def store_response(
    stored: StoredResponse, *, status: int, content_type: str, headers: dict[str, str], body: str
) -> None:
    """Store a response, in the transaction that did the work."""
    stored.status, stored.content_type, stored.headers, stored.body = status, content_type, headers, body
    stored.save(update_fields=["status", "content_type", "headers", "body"])


def release_claim(stored: StoredResponse) -> None:
    """Release the key of a request that failed without effect, so that it can be retried."""
    StoredResponse.objects.filter(pk=stored.pk, status=None).delete()


def delete_old_responses() -> int:
    """Delete responses older than 24 hours and return their number."""
    count, _ = StoredResponse.objects.filter(started_at__lt=timezone.now() - KEPT_FOR).delete()
    return count
