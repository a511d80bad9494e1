"""Life cycle of webhook and e-mail deliveries: queued, claimed by a worker, sent, retried, failed, replayed.

Every change of state is one compare-and-set. A delivery whose worker died while sending is sent again: a
receiver may get an event twice, with the same id, but never misses one.
"""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.utils import timezone

from elevata.core.errors import MetadataError
from metadata.domain.notices import TRIES, wait_after
from metadata.models import Delivery, DeliveryAttempt
from metadata.services.changelog import record_change
from metadata.services.notices import wake_after_commit
from metadata.services.webhooks import must_manage

# Longer than any sending takes: whoever claimed a delivery and has not said how it ended is gone.
SENDING_FOR = timedelta(minutes=5)
_ANSWER, _ERROR = 2000, 500
_QUEUED, _SENDING = Delivery.Status.QUEUED, Delivery.Status.SENDING


@dataclass(frozen=True)
class Outcome:
    """Result of one attempt: ``code`` is the response's status, None without one; ``error`` the failure reason.

    ``is_final``: another attempt would fail, too.
    """

    code: int | None = None
    milliseconds: int | None = None
    answer: str = ""
    error: str = ""
    is_final: bool = False

    @property
    def succeeded(self) -> bool:
        return not self.error


def due(*, now: datetime | None = None) -> QuerySet[Delivery]:
    """Return the deliveries that are due, oldest first, including those whose worker died."""
    return Delivery.objects.filter(_is_due(now or timezone.now())).order_by("next_at", "pk")


def _is_due(now: datetime) -> Q:
    return Q(status__in=(_QUEUED, _SENDING), next_at__lte=now)


def claim_next() -> Delivery | None:
    """Claim the delivery that has been due longest, exclusively; None if there is none."""
    now = timezone.now()
    for pk in due(now=now).values_list("pk", flat=True)[:20]:
        claimed = Delivery.objects.filter(_is_due(now), pk=pk).update(
            status=_SENDING, attempts=F("attempts") + 1, next_at=now + SENDING_FOR
        )
        if claimed:
            return Delivery.objects.select_related("event", "webhook", "person").get(pk=pk)
    return None


@transaction.atomic
def note_outcome(delivery: Delivery, outcome: Outcome) -> bool:
    """Store the outcome of the attempt that claimed the delivery; False if the claim has been lost."""
    now = timezone.now()
    over = outcome.succeeded or outcome.is_final or delivery.attempts >= delivery.tries
    ended = Delivery.Status.SUCCEEDED if outcome.succeeded else Delivery.Status.FAILED
    since_replay = max(1, delivery.attempts - (delivery.tries - TRIES))
    next_at = now if over else now + wait_after(since_replay, random.random())
    held = Delivery.objects.filter(pk=delivery.pk, status=_SENDING, attempts=delivery.attempts)
    changed = held.update(status=ended if over else _QUEUED, next_at=next_at, finished_at=now if over else None)
    if changed:
        DeliveryAttempt.objects.create(
            delivery_id=delivery.pk,
            number=delivery.attempts,
            code=outcome.code,
            milliseconds=outcome.milliseconds,
            # PostgreSQL holds no text with a NUL in it.
            answer=outcome.answer.replace("\x00", "\ufffd")[:_ANSWER],
            error=outcome.error[:_ERROR],
        )
    return bool(changed)


@transaction.atomic
def replay(*, delivery: Delivery, reason: str = "") -> Delivery:
    """Send a succeeded or failed delivery again, with the same event, id and body, and log it.

    Raises MetadataError ``still_going`` while it is in progress, ``webhook_off`` if its webhook is inactive.
    """
    must_manage()
    if delivery.webhook is not None and not delivery.webhook.active:
        raise MetadataError("webhook_off", "its webhook is out of use: put it to use first")
    ended = Delivery.objects.filter(pk=delivery.pk, status__in=(Delivery.Status.SUCCEEDED, Delivery.Status.FAILED))
    if not ended.update(status=_QUEUED, next_at=timezone.now(), finished_at=None, tries=F("attempts") + TRIES):
        raise MetadataError("still_going", "is still to be sent, or being sent")
    record_change(
        action="replayed",
        subject_kind="delivery",
        subject_key=str(delivery.pk),
        subject_name=str(delivery),
        after={"event": str(delivery.event.event_id)},
        reason=reason,
    )
    wake_after_commit()
    delivery.refresh_from_db()
    return delivery
