"""Webhook and e-mail deliveries: jobs that send an event, with retries after growing waits.

If the worker dies while sending, the delivery is sent again: a receiver may get an event twice, with the same id, but
never misses one.
"""

import logging
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.utils import timezone

from elevata.audit.services.change_log import record_change
from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.core.networks import networks
from elevata.core.registry import Provided
from elevata.core.secrets import NoSecret, fits_header, secret_named
from elevata.jobs import states
from elevata.jobs.models import Job
from elevata.jobs.registry import MESSAGES, Handler
from elevata.jobs.services import Attempt, claim, queue_again
from elevata.jobs.submission import wake
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Delivery, DeliveryAttempt, Event, Webhook
from elevata.notifications.safe_http import CannotCall, post
from elevata.notifications.services import may_be_told, must_manage
from elevata.notifications.webhook_requests import MAX_ATTEMPTS, WebhookPayload, signature, wait_after

log = logging.getLogger(__name__)

_ANSWER, _ERROR = 2000, 500
_GONE = 410
_ID, _TIMESTAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


@dataclass(frozen=True)
class Outcome:
    """Result of one attempt: ``status_code`` is that of the response, if any, ``error`` the reason of a failure.

    ``is_final``: further attempts would fail, too. ``sent`` is the number of requests that were taken.
    """

    status_code: int | None = None
    milliseconds: int | None = None
    answer: str = ""
    error: str = ""
    is_final: bool = False
    sent: int = 0


def perform_delivery(*, delivery_pk: int, worker: str) -> Delivery | None:
    """Make one attempt to send a delivery; return None if it could not be claimed."""
    attempt = retried(partial(claim, job_pk=delivery_pk, worker=worker, phase="sending"))
    if attempt is None:
        return None
    delivery = retried(partial(Delivery.objects.select_related("event", "webhook", "user").get, pk=delivery_pk))
    with attempt.beating():
        outcome = send(delivery)
    if outcome.error:
        log.warning("delivery %s, attempt %s: %s", delivery.pk, attempt.number, outcome.error)
    retried(partial(end_attempt, attempt, outcome))
    return delivery


@transaction.atomic
def end_attempt(attempt: Attempt, outcome: Outcome) -> bool:
    """Store the result of an attempt, and queue the next one if needed; return False if the attempt is not current."""
    error = {"code": "NOT_DELIVERED", "message": outcome.error[:_ERROR], "hint": "send it again"}
    wanted = states.FAILED if outcome.error else states.SUCCEEDED
    if attempt.end(wanted=wanted, error=error if outcome.error else None) is None:
        return False
    _record_outcome(Delivery.objects.get(pk=attempt.job_pk), outcome)
    return True


def _record_outcome(delivery: Delivery, outcome: Outcome) -> None:
    """Record the outcome of the latest attempt, and queue a failed delivery again while it has attempts left."""
    if outcome.sent > delivery.sent:
        Delivery.objects.filter(pk=delivery.pk).update(sent=outcome.sent)
    DeliveryAttempt.objects.create(
        delivery=delivery,
        number=delivery.attempt,
        status_code=outcome.status_code,
        milliseconds=outcome.milliseconds,
        # PostgreSQL stores no text with NUL.
        answer=outcome.answer.replace("\x00", "\ufffd")[:_ANSWER],
        error=outcome.error[:_ERROR],
    )
    if outcome.error and not outcome.is_final and delivery.attempt < delivery.max_attempts:
        since_replay = max(1, delivery.attempt - (delivery.max_attempts - MAX_ATTEMPTS))
        queue_again(job_pk=delivery.pk, not_before=timezone.now() + wait_after(since_replay, random.random()))


def _end_lost(job: Job, error: dict[str, Any]) -> None:
    _record_outcome(Delivery.objects.get(pk=job.pk), Outcome(error=error["message"]))


@transaction.atomic
def replay(*, delivery: Delivery, reason: str = "") -> Delivery:
    """Send a finished delivery again, with the same event, id and body, and record that in the change log.

    Raises MetadataError ``still_going`` while it is in progress, ``webhook_off`` if its webhook is inactive.
    """
    must_manage()
    if delivery.webhook is not None and not delivery.webhook.active:
        raise MetadataError("webhook_off", "the webhook is inactive: activate it first")
    if not queue_again(job_pk=delivery.pk, repeat=True, not_before=timezone.now()):
        raise MetadataError("still_going", "is still to be sent, or being sent")
    delivery.refresh_from_db()
    Delivery.objects.filter(pk=delivery.pk).update(max_attempts=delivery.attempt + MAX_ATTEMPTS, sent=0)
    record_change(
        action="replayed",
        subject_kind="delivery",
        subject_key=str(delivery.pk),
        subject_name=str(delivery),
        after={"event": str(delivery.event.event_id)},
        reason=reason,
    )
    transaction.on_commit(partial(wake, delivery.pk), robust=True)
    return delivery


def send(delivery: Delivery) -> Outcome:
    """Make one attempt and return its result. An unexpected error is a failure and is retried."""
    try:
        return _send_mail(delivery) if delivery.webhook is None else _send_request(delivery)
    except Exception as failure:
        log.exception("delivery %s failed", delivery.pk)
        return Outcome(error=f"unexpected: {type(failure).__name__}")


def payload_of(event: Event) -> WebhookPayload:
    """Return the event for a webhook's request."""
    return WebhookPayload(
        event_id=str(event.event_id),
        kind=event.kind,
        time=event.at.isoformat(timespec="milliseconds"),
        environment=event.environment,
        title=event.title,
        subject={"kind": event.subject_kind, "key": event.subject_key, "name": event.subject_name},
        page=page_of(event),
        facts=event.facts,
    )


def page_of(event: Event) -> str:
    """Return the URL of the event's page; only the path if ``PUBLIC_URL`` is not set."""
    return urljoin(f"{settings.PUBLIC_URL}/", event.link.lstrip("/")) if settings.PUBLIC_URL else event.link


def _send_request(delivery: Delivery) -> Outcome:
    webhook, event = delivery.webhook, delivery.event
    assert webhook is not None  # of a delivery that is no mail
    if not webhook.active and event.kind != Kind.WEBHOOK_TEST:
        return Outcome(error="the webhook is inactive", is_final=True)
    try:
        requests = _REQUESTS[webhook.format](webhook, event)
    except (NoSecret, MetadataError) as problem:
        return Outcome(error=f"not sent, for it cannot be signed: {problem}")
    outcome, sent = Outcome(), delivery.sent
    for body, headers in islice(requests, delivery.sent, None):
        outcome = _post(webhook.url, body, headers)
        if outcome.error:
            break
        sent += 1
    return replace(outcome, sent=sent)


def _signed(webhook: Webhook, event: Event) -> Iterable[tuple[bytes, dict[str, str]]]:
    """Return the request of an event: body and headers with the signature."""
    body, at = _BODIES[webhook.format](payload_of(event)), int(time.time())
    secrets = [secret_named(name) for name in (webhook.secret, webhook.former_secret) if name]
    header = signature(event_id=str(event.event_id), timestamp=at, body=body, secrets=secrets)
    return [(body, {_ID: str(event.event_id), _TIMESTAMP: str(at), _SIGNATURE: header})]


# Function that returns the OpenLineage events of an event, in order.
OPENLINEAGE_EVENTS: Provided[Callable[[Event], Iterable[bytes]]] = Provided("OPENLINEAGE_EVENTS")


def _open_lineage(webhook: Webhook, event: Event) -> Iterable[tuple[bytes, dict[str, str]]]:
    """Return the requests of an event for an OpenLineage endpoint, in order; they may be sent repeatedly."""
    secret = secret_named(webhook.secret)
    if not fits_header(secret):
        raise NoSecret(f"the secret in {webhook.secret} has a line end or another character that no header can hold")
    headers = {"Authorization": f"Bearer {secret}"}
    return ((body, headers) for body in OPENLINEAGE_EVENTS.get()(event))


_BODIES: dict[str, Callable[[WebhookPayload], bytes]] = {
    Webhook.Format.SIGNED: WebhookPayload.body,
    Webhook.Format.SLACK: WebhookPayload.slack_body,
    Webhook.Format.TEAMS: WebhookPayload.teams_body,
}
_REQUESTS: dict[str, Callable[[Webhook, Event], Iterable[tuple[bytes, dict[str, str]]]]] = {
    **dict.fromkeys(_BODIES, _signed),
    Webhook.Format.OPENLINEAGE: _open_lineage,
}


def _post(url: str, body: bytes, headers: Mapping[str, str]) -> Outcome:
    headers = {"Content-Type": "application/json", "User-Agent": "elevata", **headers}
    try:
        response = post(url, body, headers, allowed=networks(settings.WEBHOOK_ALLOW))
    except CannotCall as problem:
        return Outcome(error=str(problem), is_final=problem.is_final)
    except MetadataError as problem:
        return Outcome(error=f"not sent, for ELEVATA_WEBHOOK_ALLOW cannot be read: {problem}")
    error = "" if 200 <= response.code < 300 else _status_error(response.code)
    return Outcome(response.code, response.milliseconds, response.text, error, is_final=response.code == _GONE)


def _status_error(code: int) -> str:
    if 300 <= code < 400:
        return f"answered {code}: redirects are not followed, give the webhook the address itself"
    return f"answered {code}"


def _send_mail(delivery: Delivery) -> Outcome:
    user, event = delivery.user, delivery.event
    assert user is not None  # of a mail
    if not settings.EMAIL_ENABLED:
        return Outcome(error="this installation sends no mail (ELEVATA_EMAIL_URL)", is_final=True)
    if not may_be_told(user, event.kind) or not user.email:
        return Outcome(error="the user is inactive or has no role or no email address", is_final=True)
    place = f"[{event.environment}] " if event.environment else ""
    text = (
        f"{event.title}\n\n{page_of(event)}\n\nYou receive {event.kind} by email. Change this at /notices/settings/.\n"
    )
    message = EmailMessage(
        # A name may contain a line break, a subject may not.
        subject=" ".join(f"{place}{event.title}".split())[:200],
        body=text,
        to=[user.email],
        headers={"Message-ID": f"<{event.event_id}.{user.pk}@elevata>", "Auto-Submitted": "auto-generated"},
        connection=get_connection(),
    )
    began = time.monotonic()
    try:
        message.send()
    except (OSError, ValueError) as error:  # smtplib's errors are OSErrors
        return Outcome(error=f"the mail server did not take it ({type(error).__name__})")
    return Outcome(milliseconds=round((time.monotonic() - began) * 1000))


HANDLERS = (
    Handler(
        kinds=tuple(Delivery.Kind.values),
        perform=lambda pk, *, worker, **_: perform_delivery(delivery_pk=pk, worker=worker),
        lane=MESSAGES,
        lost_as=states.FAILED,
        lost_hint="it is sent again by itself",
        lost=_end_lost,
    ),
)
