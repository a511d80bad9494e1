"""Telling people and programs what happened, in the transaction of the work that made it happen.

What was rolled back is told to nobody; what was committed is told even if the process dies in the next
moment: deliveries are rows, which a worker sends (``metadata.services.deliveries``).
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
    """Note that something happened, for these people (users) and for every webhook that wants to know.

    Must be called in the transaction that does the work. People who are out of use, have no role, or do
    not want to know, are left out.
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
    """Tell the user of an account, or the owner of a service account, and all administrators but who acts.

    ``done`` completes the sentence that begins with who acts. The user of a ``new`` account is not told of it.
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
    """Return whether a user may hear of an event: one without a role hears of their own account only."""
    own = person.is_active and event == Kind.ACCOUNT_CHANGED
    return own or may_somewhere(person, Permission.READ_METADATA)


def deliver_to(event: Event, webhook: Webhook) -> Delivery:
    """Send an event to one webhook, in the transaction that is open."""
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
    """Have a worker look for what is to be sent once this transaction is committed."""
    transaction.on_commit(wakeup.wake_for_deliveries, robust=True)


def mark_read(*, person: Any, notice: Notice | None = None) -> int:
    """Somebody has read one of their notices, or all; how many were unread."""
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
    """Store which events a user wants in their list and by e-mail, and, if it is given, at which address.

    MetadataError ``unknown_event``, or ``bad_address``. That an address changed is logged, not what it is.
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
    """Return a user's notification settings; without any: everything is listed, nothing is sent by e-mail."""
    known = NoticeChoice.objects.filter(person=person).first()
    return known or NoticeChoice(person=person, listed=[str(kind) for kind in CHOICES], emailed=[])


def active_people(names: Iterable[str]) -> list[Any]:
    """The people of these names who may sign in; names of others and of the system are left out."""
    return list(get_user_model().objects.filter(username__in=set(names), is_active=True))


def forget_old_events() -> int:
    """Delete events older than 90 days with all that was told of them, but what is still to be sent."""
    old = Event.objects.filter(at__lt=timezone.now() - KEPT_FOR)
    waiting = Delivery.objects.filter(status__in=(Delivery.Status.QUEUED, Delivery.Status.SENDING))
    gone, _ = old.exclude(pk__in=waiting.values("event")).delete()
    return gone
