"""Notices to users and webhooks about events, created in the transaction of the work.

Rolled-back work notifies neither; committed work always does, even if the process dies right after:
deliveries are rows, which a worker sends (``metadata.services.deliveries``).
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from elevata.core.errors import MetadataError
from elevata.jobs import wakeup
from metadata.domain.notices import ALWAYS_LISTED, CHOICES, TRIES, Kind, check_kinds
from metadata.domain.roles import Permission
from metadata.models import Delivery, Event, Notice, NoticeChoice, ServiceAccount, Webhook
from metadata.permissions import may_somewhere, people_who_may
from metadata.services.actor import current_actor
from metadata.services.changelog import record_change, record_why
from metadata.services.common import writing

# How long what happened is kept, with who was told and what was sent.
KEPT_FOR = timedelta(days=90)
_TITLE, _NAME = 500, 400


def tell(
    *,
    event: Kind,
    subject_kind: str,
    subject_key: str,
    subject_name: str,
    title: str,
    link: str,
    people: Iterable[Any] = (),
    environment: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Event:
    """Create an event, with notices for these users and deliveries for every subscribed webhook.

    Must be called in the transaction that does the work. Users who are inactive, have no role, or opted out
    of the event, are left out.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an event is told in the transaction of the work it tells of")
    told = Event.objects.create(
        kind=event,
        environment=environment,
        subject_kind=subject_kind,
        subject_key=subject_key,
        subject_name=subject_name[:_NAME],
        title=title[:_TITLE],
        link=link,
        facts=dict(facts or {}),
    )
    concerned = {person.pk: person for person in people if person is not None and may_be_told(person, event)}
    choices = {row.person_id: row for row in NoticeChoice.objects.filter(person__in=concerned)}
    always = event in ALWAYS_LISTED
    listed = [pk for pk in concerned if always or pk not in choices or event in choices[pk].listed]
    Notice.objects.bulk_create(Notice(event=told, person_id=pk) for pk in sorted(listed))
    emailed = [pk for pk in concerned if pk in choices and event in choices[pk].emailed and concerned[pk].email]
    _deliver(told, webhooks=_wanting(event), people=sorted(emailed) if settings.EMAIL_ENABLED else ())
    return told


def tell_account_changed(*, user: Any, done: str, new: bool = False, facts: Mapping[str, Any] | None = None) -> None:
    """Notify the account's user, or a service account's owner, and all administrators except the actor.

    ``done`` completes a sentence that begins with the actor. The user of a ``new`` account is not notified.
    """
    actor, name = current_actor(), user.get_username()
    account = ServiceAccount.objects.filter(user=user).select_related("owner").first()
    people = [account.owner if account is not None else user, *people_who_may(Permission.MANAGE_PEOPLE)]
    tell(
        event=Kind.ACCOUNT_CHANGED,
        subject_kind="person",
        subject_key=name,
        subject_name=name,
        title=f"{actor.described} {done}",
        link=f"{reverse('change_list')}?{urlencode({'q': name})}",
        people=[person for person in people if person.pk != actor.user_id and not (new and person.pk == user.pk)],
        facts={"by": actor.name, **(facts or {})},
    )


def may_be_told(person: Any, event: str) -> bool:
    """Return True if a user may get an event; a user without a role gets those of their own account only."""
    own = person.is_active and event == Kind.ACCOUNT_CHANGED
    return own or may_somewhere(person, Permission.READ_METADATA)


def deliver_to(event: Event, webhook: Webhook) -> Delivery:
    """Create the delivery of an event to one webhook, in the open transaction."""
    return _deliver(event, webhooks=[webhook])[0]


def _wanting(event: Kind) -> list[Webhook]:
    return [one for one in Webhook.objects.filter(active=True) if event in one.events]


def _deliver(event: Event, *, webhooks: Collection[Webhook] = (), people: Collection[int] = ()) -> list[Delivery]:
    now = timezone.now()
    rows = [Delivery(event=event, webhook=one, tries=TRIES, next_at=now) for one in webhooks]
    rows += [Delivery(event=event, person_id=pk, tries=TRIES, next_at=now) for pk in people]
    if rows:
        rows = Delivery.objects.bulk_create(rows)
        wake_after_commit()
    return rows


def wake_after_commit() -> None:
    """Wake a worker for pending deliveries after this transaction is committed."""
    transaction.on_commit(wakeup.wake_for_deliveries, robust=True)


def mark_read(*, person: Any, notice: Notice | None = None) -> int:
    """Mark one of a user's notices as read, or all; return the number that were unread."""
    unread = Notice.objects.filter(person=person, read_at__isnull=True)
    if notice is not None:
        unread = unread.filter(pk=notice.pk)
    count = unread.update(read_at=timezone.now())
    if count:
        who = person.get_username()
        key, name = (who, f"all of {who}") if notice is None else (str(notice.pk), f"{notice.pk} of {who}")
        record_why(action="read", subject_kind="notice", subject_key=key, subject_name=name)
    return count


def choose_events(
    *, person: Any, listed: Collection[str], emailed: Collection[str], address: str | None = None
) -> NoticeChoice:
    """Store which events a user wants in their list and by e-mail and, if given, the e-mail address.

    Raises MetadataError ``unknown_event`` or ``bad_address``. The log records that the address changed, but
    not the address.
    """
    wanted = check_kinds({*listed, *ALWAYS_LISTED}, "listed")
    values = {"listed": wanted, "emailed": check_kinds(emailed, "emailed")}
    with writing():
        if address is not None and address != person.email:
            _set_address(person, address)
        return NoticeChoice.objects.update_or_create(person=person, defaults=values)[0]


def _set_address(person: Any, address: str) -> None:
    try:
        if address:
            validate_email(address)
    except ValidationError:
        raise MetadataError("bad_address", "is no e-mail address", "address") from None
    person.email = address
    person.save(update_fields=["email"])
    name = person.get_username()
    said = {"e-mail": "changed" if address else "removed"}
    record_change(action="changed", subject_kind="person", subject_key=name, subject_name=name, after=said)


def choices_of(person: Any) -> NoticeChoice:
    """Return a user's notification settings; by default, every event is listed and none is e-mailed."""
    known = NoticeChoice.objects.filter(person=person).first()
    return known or NoticeChoice(person=person, listed=[str(kind) for kind in CHOICES], emailed=[])


def active_people(names: Iterable[str]) -> list[Any]:
    """Return the active users with these names; unknown and inactive names are left out."""
    return list(get_user_model().objects.filter(username__in=set(names), is_active=True))


def forget_old_events() -> int:
    """Delete events older than 90 days with their notices and deliveries, except those still to be sent."""
    old = Event.objects.filter(at__lt=timezone.now() - KEPT_FOR)
    waiting = Delivery.objects.filter(status__in=(Delivery.Status.QUEUED, Delivery.Status.SENDING))
    gone, _ = old.exclude(pk__in=waiting.values("event")).delete()
    return gone
