"""Notices, webhooks and their deliveries.

Notices and deliveries are rows of the transaction that reports an event: a rollback removes them, and after a commit
they are sent even if the process dies, because deliveries are jobs (``elevata.notifications.deliveries``).
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, When
from django.urls import reverse
from django.utils import timezone

from elevata.accounts.access import holders
from elevata.accounts.actors import current_actor
from elevata.accounts.models import ServiceAccount
from elevata.accounts.permissions import may, may_somewhere
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change, record_why
from elevata.audit.services.row_seals import Sealed
from elevata.audit.services.transactions import assign, check_fields, claim, writing
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from elevata.jobs import states
from elevata.jobs.submission import wake
from elevata.notifications.kinds import (
    ALWAYS_LISTED,
    CHOICES,
    WEBHOOK_CHOICES,
    Kind,
    check_kinds,
    check_secret_name,
    check_url,
    shown_url,
)
from elevata.notifications.models import Delivery, Event, Notice, NoticeChoice, Webhook
from elevata.notifications.webhook_requests import MAX_ATTEMPTS

# Retention of events, with their notices and deliveries.
KEPT_FOR = timedelta(days=90)
# Events of one kind within this time after the first are one group; those about one subject are at any distance.
GROUPED_FOR = timedelta(minutes=10)
_TITLE, _NAME = 500, 400


def tell(
    *,
    event: Kind,
    subject_kind: str,
    subject_key: str,
    subject_name: str,
    title: str,
    link: str,
    users: Iterable[Any] = (),
    environment: str = "",
    facts: Mapping[str, Any] | None = None,
) -> Event:
    """Create an event, with notices for these users, and deliveries to them and to subscribed webhooks.

    Must be called in the transaction of the work that it reports. Inactive users and users without a role get nothing.
    A user who opted out of the event gets no notice (except of ``ALWAYS_LISTED``), and only a user who opted in gets an
    e-mail. The title is one line, without values of delivered rows.
    """
    if not transaction.get_connection().in_atomic_block:
        raise RuntimeError("an event must be created in the transaction of the work that it reports")
    created = Event(
        kind=event,
        environment=environment,
        subject_kind=subject_kind,
        subject_key=subject_key,
        subject_name=subject_name[:_NAME],
        title=" ".join(title.split())[:_TITLE],
        link=link,
        facts=dict(facts or {}),
    )
    created.group = _group_of(created)
    created.save(force_insert=True)
    recipients = {user.pk: user for user in users if user is not None and may_be_told(user, event)}
    choices = {row.user_id: row for row in NoticeChoice.objects.filter(user__in=recipients)}
    always = event in ALWAYS_LISTED
    listed = [pk for pk in recipients if always or pk not in choices or event in choices[pk].listed]
    Notice.objects.bulk_create(Notice(event=created, user_id=pk) for pk in sorted(listed))
    emailed = [pk for pk in recipients if pk in choices and event in choices[pk].emailed and recipients[pk].email]
    _create_deliveries(
        created, webhooks=_subscribed_webhooks(event), users=sorted(emailed) if settings.EMAIL_ENABLED else ()
    )
    return created


def _group_of(event: Event) -> UUID:
    """Return the group of a new event.

    Of the groups of its kind and environment: the one whose events are all about its subject, else one that began less
    than ``GROUPED_FOR`` ago, else a new one.
    """
    same = Q(subject_kind=event.subject_kind, subject_key=event.subject_key)
    recent = Q(at__gte=timezone.now() - GROUPED_FOR, group=F("event_id"))
    mixed = Exists(Event.objects.filter(group=OuterRef("group")).exclude(same))
    alike = Event.objects.filter(recent | (same & ~mixed), kind=event.kind, environment=event.environment)
    alike = alike.annotate(is_same=Case(When(same, then=1), default=0)).order_by("-is_same", "-pk")
    return alike.values_list("group", flat=True).first() or event.event_id


def tell_account_changed(*, user: Any, done: str, new: bool = False, facts: Mapping[str, Any] | None = None) -> None:
    """Notify the account's user, or a service account's owner, and all administrators, except the actor.

    ``done`` is the predicate of the title, like "changed the roles of ada"; the actor is put before it. The user of a
    ``new`` account is not notified.
    """
    actor, name = current_actor(), user.get_username()
    account = ServiceAccount.objects.filter(user=user).select_related("owner").first()
    users = [account.owner if account is not None else user, *holders(Permission.MANAGE_USERS, Place())]
    tell(
        event=Kind.ACCOUNT_CHANGED,
        subject_kind="user",
        subject_key=name,
        subject_name=name,
        title=f"{actor.described} {done}",
        link=f"{reverse('change_list')}?{urlencode({'q': name})}",
        users=[
            recipient for recipient in users if recipient.pk != actor.user_id and not (new and recipient.pk == user.pk)
        ],
        facts={"by": actor.name, **(facts or {})},
    )


def may_be_told(user: Any, event: str) -> bool:
    """Return True if a user may get an event; users without a role get ACCOUNT_CHANGED only."""
    own = user.is_active and event == Kind.ACCOUNT_CHANGED
    return own or may_somewhere(user, Permission.READ_METADATA)


def deliver_to(event: Event, webhook: Webhook) -> Delivery:
    """Create the delivery of an event to one webhook; must be called in a transaction."""
    return _create_deliveries(event, webhooks=[webhook])[0]


def has_webhook(event: Kind) -> bool:
    """Return True if an active webhook gets this kind of event."""
    return bool(_subscribed_webhooks(event))


def _subscribed_webhooks(event: Kind) -> list[Webhook]:
    return [webhook for webhook in Webhook.objects.filter(active=True) if event in webhook.events]


def _create_deliveries(
    event: Event, *, webhooks: Collection[Webhook] = (), users: Collection[int] = ()
) -> list[Delivery]:
    now = timezone.now()
    rows = [Delivery(event=event, webhook=webhook, max_attempts=MAX_ATTEMPTS, not_before=now) for webhook in webhooks]
    rows += [
        Delivery(kind=Delivery.Kind.EMAIL, event=event, user_id=pk, max_attempts=MAX_ATTEMPTS, not_before=now)
        for pk in users
    ]
    for row in rows:
        row.save()
    if rows:
        # Deliveries run one after another, so one wake-up is enough; if it is lost, the sweep sends it again.
        transaction.on_commit(partial(wake, rows[0].pk), robust=True)
    return rows


def mark_read(*, user: Any, notice: Notice | None = None, group: UUID | None = None) -> int:
    """Mark a notice of a user, those of a group, or all as read; return the number of notices that were unread."""
    unread = Notice.objects.filter(user=user, read_at__isnull=True)
    if notice is not None:
        unread = unread.filter(pk=notice.pk)
    if group is not None:
        unread = unread.filter(event__in=Event.objects.filter(group=group))
    count = unread.update(read_at=timezone.now())
    if count:
        username = user.get_username()
        subject = notice.pk if notice is not None else group
        key, name = (username, f"all of {username}") if subject is None else (str(subject), f"{subject} of {username}")
        record_why(action="read", subject_kind="notice", subject_key=key, subject_name=name)
    return count


def mark_settled(
    *,
    subject_kind: str,
    subject_key: str | QuerySet,
    kinds: Collection[Kind] = (),
    user: Any = None,
    environment: str = "",
    facts: Mapping[str, Any] | None = None,
) -> int:
    """Mark notices about a subject that needs no action any more as read; return how many were unread.

    ``subject_key`` can be a query of keys, for several subjects of one kind. Marked are notices of ``user`` (default:
    all users) about events of these ``kinds`` (default: all), with these ``facts``, in this ``environment`` (default:
    any).
    """
    of_subject = {"subject_key": subject_key} if isinstance(subject_key, str) else {"subject_key__in": subject_key}
    events = Event.objects.filter(subject_kind=subject_kind, **of_subject)
    events = events.filter(**{f"facts__{name}": value for name, value in (facts or {}).items()})
    if kinds:
        events = events.filter(kind__in=kinds)
    if environment:
        events = events.filter(environment=environment)
    notices = Notice.objects.filter(event__in=events, read_at__isnull=True)
    if user is not None:
        notices = notices.filter(user=user)
    return notices.update(read_at=timezone.now())


def choose_events(
    *, user: Any, listed: Collection[str], emailed: Collection[str], address: str | None = None
) -> NoticeChoice:
    """Store a user's choice of events for the list and for e-mail and, if given, the e-mail address.

    The change log records that the address changed, but not the address. Raises MetadataError ``unknown_event`` or
    ``bad_address``.
    """
    all_listed = check_kinds({*listed, *ALWAYS_LISTED}, "listed")
    values = {"listed": all_listed, "emailed": check_kinds(emailed, "emailed")}
    with writing():
        if address is not None and address != user.email:
            _set_address(user, address)
        return NoticeChoice.objects.update_or_create(user=user, defaults=values)[0]


def _set_address(user: Any, address: str) -> None:
    try:
        if address:
            validate_email(address)
    except ValidationError:
        raise MetadataError("bad_address", "is no e-mail address", "address") from None
    user.email = address
    user.save(update_fields=["email"])
    name = user.get_username()
    changes = {"e-mail": "changed" if address else "removed"}
    record_change(action="changed", subject_kind="user", subject_key=name, subject_name=name, after=changes)


def choices_of(user: Any) -> NoticeChoice:
    """Return a user's notification settings; by default all events are listed, and none is sent by e-mail."""
    stored = NoticeChoice.objects.filter(user=user).first()
    return stored or NoticeChoice(user=user, listed=[str(kind) for kind in CHOICES], emailed=[])


def active_users(names: Iterable[str]) -> list[Any]:
    """Return the active users with these names."""
    return list(get_user_model().objects.filter(username__in=set(names), is_active=True))


def forget_old_events() -> int:
    """Delete events older than 90 days, with their notices and deliveries, unless a delivery is unfinished."""
    old = Event.objects.filter(at__lt=timezone.now() - KEPT_FOR)
    waiting = Delivery.objects.filter(status__in=states.ACTIVE)
    count, _ = old.exclude(pk__in=waiting.values("event")).delete()
    return count


# A webhook gets events of every environment and schema, so this permission is needed everywhere.
MANAGE = Permission.MANAGE_WEBHOOKS
FIELDS = ("name", "url", "format", "events", "secret", "former_secret", "active")
SEALED = {Webhook: Sealed()}


def create_webhook(*, name: str, url: str, **described: Any) -> Webhook:
    """Create a webhook: ``events`` and ``secret`` are required; it is ``active`` by default.

    Raises MetadataError for the field: ``bad_url``, ``bad_secret``, ``unknown_event``, ``name_taken``.
    """
    with writing() as unit:
        must_manage()
        webhook = Webhook()
        assign(webhook, _stripped({"name": name, "url": url, **described}), FIELDS)
        _check(webhook)
        webhook.save()
        unit.added(webhook)
        _log("created", webhook, after=logged_values(webhook))
        return webhook


def update_webhook(*, webhook: Webhook, expected_version: int, **changes: Any) -> Webhook:
    """Change fields of a webhook. Raise StaleVersion if another user changed it meanwhile.

    Queued deliveries are sent to the new URL.
    """
    with writing() as unit:
        must_manage()
        row = claim(webhook, expected_version)
        unit.about_to_change(row)
        before = logged_values(row)
        if not assign(row, _stripped(changes), FIELDS):
            return row
        _check(row)
        row.version += 1
        row.save()
        after = logged_values(row)
        _log("renamed" if before["name"] != after["name"] else "changed", row, before=before, after=after)
        return row


def delete_webhook(*, webhook: Webhook, expected_version: int) -> None:
    """Delete a webhook with its deliveries."""
    with writing() as unit:
        must_manage()
        row = claim(webhook, expected_version)
        unit.about_to_change(row)
        _log("deleted", row, before=logged_values(row))
        row.delete()


def send_test_event(*, webhook: Webhook) -> Delivery:
    """Send a test event to this webhook only, also if it is inactive."""
    with writing():
        must_manage()
        event = tell(
            event=Kind.WEBHOOK_TEST,
            subject_kind="webhook",
            subject_key=str(webhook.key),
            subject_name=webhook.name,
            title=f"Test of the webhook {webhook.name}",
            link=f"/webhooks/{webhook.key}/",
            facts={"asked_at": timezone.now().isoformat(timespec="seconds")},
        )
        key, name = str(webhook.key), webhook.name
        record_why(action="tested", subject_kind="webhook", subject_key=key, subject_name=name)
        return deliver_to(event, webhook)


def must_manage() -> None:
    """Raise MetadataError ``not_permitted`` for a user who may not manage webhooks; the system may."""
    user = current_actor().user
    if user is not None and not may(user, MANAGE):
        raise MetadataError("not_permitted", f"{user} lacks the admin role, which managing webhooks needs")


def logged_values(webhook: Webhook) -> dict[str, Any]:
    """Return the webhook's fields for the change log, with a shortened URL and a digest that identifies it."""
    return {
        "name": webhook.name,
        "url": f"{shown_url(webhook.url)} (sha256 {sha256_hex(webhook.url)[:12]})",
        "format": str(webhook.format),
        "events": list(webhook.events),
        "secret": webhook.secret,
        "former_secret": webhook.former_secret,
        "active": webhook.active,
    }


def _stripped(described: dict[str, Any]) -> dict[str, Any]:
    return {name: value.strip() if isinstance(value, str) else value for name, value in described.items()}


def _check(webhook: Webhook) -> None:
    if not webhook.name:
        raise MetadataError("invalid", "needs a name", "name")
    if Webhook.objects.filter(name=webhook.name).exclude(pk=webhook.pk).exists():
        raise MetadataError("name_taken", f"there is a webhook {webhook.name} already", "name")
    check_url(webhook.url)
    check_secret_name(webhook.secret, "secret")
    if webhook.former_secret:
        check_secret_name(webhook.former_secret, "former_secret")
    webhook.events = check_kinds(webhook.events, choices=WEBHOOK_CHOICES, needed=True)
    if webhook.format == Webhook.Format.OPENLINEAGE and webhook.events != [Kind.LOAD_ENDED]:
        raise MetadataError("invalid", f"an OpenLineage endpoint takes {Kind.LOAD_ENDED} and no other event", "events")
    check_fields(webhook, webhook.name)


def _log(action: str, webhook: Webhook, **sides: Any) -> None:
    record_change(
        action=action, subject_kind="webhook", subject_key=str(webhook.key), subject_name=webhook.name, **sides
    )
