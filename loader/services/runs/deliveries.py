"""Sending of due notifications: signed requests to webhooks, and e-mail."""

import logging
import time
from urllib.parse import urljoin

from django.conf import settings
from django.core.mail import EmailMessage, get_connection

from elevata.core.database import retried
from elevata.core.errors import MetadataError
from elevata.core.networks import networks
from loader.sources.calling import CannotCall, post
from loader.sources.secrets import NoSecret, secret_named
from metadata.domain.notices import Kind, Told, signature
from metadata.models import Delivery, Event
from metadata.services.deliveries import Outcome, claim_next, note_outcome
from metadata.services.notices import may_be_told

log = logging.getLogger(__name__)

# One wake-up occupies a worker's thread no longer than this; the sweeper sends the next.
_SECONDS = 60.0
_GONE = 410
_ID, _TIMESTAMP, _SIGNATURE = "webhook-id", "webhook-timestamp", "webhook-signature"


def send_due() -> int:
    """Send due deliveries one after the other, for at most a minute; return the number of attempts."""
    until, count = time.monotonic() + _SECONDS, 0
    while time.monotonic() < until and (delivery := retried(claim_next)) is not None:
        count += 1
        outcome = send(delivery)
        if outcome.error:
            log.warning("delivery %s, attempt %s: %s", delivery.pk, delivery.attempts, outcome.error)
        retried(lambda delivery=delivery, outcome=outcome: note_outcome(delivery, outcome))
    return count


def send(delivery: Delivery) -> Outcome:
    """Make one attempt and return its outcome. An unexpected error is an outcome, too, and is retried."""
    try:
        return _mail(delivery) if delivery.webhook is None else _call(delivery)
    except Exception as failure:
        log.exception("delivery %s failed", delivery.pk)
        return Outcome(error=f"unexpected: {type(failure).__name__}")


def told(event: Event) -> Told:
    """Return the event as webhooks receive it."""
    return Told(
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
    """Return the address of the event's page; only its path where the installation does not know its own address."""
    return urljoin(f"{settings.PUBLIC_URL}/", event.link.lstrip("/")) if settings.PUBLIC_URL else event.link


def _call(delivery: Delivery) -> Outcome:
    webhook, event = delivery.webhook, delivery.event
    if not webhook.active and event.kind != Kind.WEBHOOK_TEST:
        return Outcome(error="the webhook is out of use", is_final=True)
    body, at = told(event).body(), int(time.time())
    try:
        secrets = [secret_named(name) for name in (webhook.secret, webhook.former_secret) if name]
        signed = signature(event_id=str(event.event_id), timestamp=at, body=body, secrets=secrets)
    except (NoSecret, MetadataError) as problem:
        return Outcome(error=f"not sent, for it cannot be signed: {problem}")
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "elevata",
        _ID: str(event.event_id),
        _TIMESTAMP: str(at),
        _SIGNATURE: signed,
    }
    try:
        answer = post(webhook.url, body, headers, allowed=networks(settings.WEBHOOK_ALLOW))
    except CannotCall as problem:
        return Outcome(error=str(problem), is_final=problem.is_final)
    except MetadataError as problem:
        return Outcome(error=f"not sent, for ELEVATA_WEBHOOK_ALLOW cannot be read: {problem}")
    error = "" if 200 <= answer.code < 300 else _refused(answer.code)
    return Outcome(answer.code, answer.milliseconds, answer.text, error, is_final=answer.code == _GONE)


def _refused(code: int) -> str:
    if 300 <= code < 400:
        return f"answered {code}: redirects are not followed, give the webhook the address itself"
    return f"answered {code}"


def _mail(delivery: Delivery) -> Outcome:
    person, event = delivery.person, delivery.event
    if not settings.EMAIL_ENABLED:
        return Outcome(error="this installation sends no mail (ELEVATA_EMAIL_URL)", is_final=True)
    if not may_be_told(person, event.kind) or not person.email:
        return Outcome(error="the person is out of use, or has no role or no address", is_final=True)
    place = f"[{event.environment}] " if event.environment else ""
    text = (
        f"{event.title}\n\n{page_of(event)}\n\n"
        f"You chose to be told of {event.kind} by e-mail; what you are told of is on the page /notices/settings/.\n"
    )
    message = EmailMessage(
        # A name may hold a line break: a subject never does.
        subject=" ".join(f"{place}{event.title}".split())[:200],
        body=text,
        to=[person.email],
        headers={"Message-ID": f"<{event.event_id}.{person.pk}@elevata>", "Auto-Submitted": "auto-generated"},
        connection=get_connection(),
    )
    began = time.monotonic()
    try:
        message.send()
    except (OSError, ValueError) as error:  # what smtplib raises is an OSError
        return Outcome(error=f"the mail server did not take it ({type(error).__name__})")
    return Outcome(milliseconds=round((time.monotonic() - began) * 1000))
