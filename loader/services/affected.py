"""Messages to the owners of what a change or a failure affects."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth import get_user_model
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Lower

from architecture.permissions import may_build
from elevata.accounts.permissions import must_write
from elevata.audit.quotas import logged_within
from elevata.audit.services.change_log import record_change
from elevata.core.errors import MetadataError
from elevata.core.words import counted
from elevata.notifications.kinds import Kind
from elevata.notifications.services import may_be_told, tell
from loader.contract.refusals import Refusal
from loader.domain import affected as domain
from loader.selectors.affected import Subject, affected_by

LONGEST_NOTE = 300
# Users that one message reaches; owners are few, and each gets a notice of their own.
MOST_TOLD = 100
# Messages that one user may send within this time, service accounts included.
MOST_MESSAGES, WITHIN = 20, timedelta(hours=1)
# Kind of the messages' entries in the change log. They name no dataset: their actors are no authors of its changes.
MESSAGE = "message"


@dataclass(frozen=True)
class Notified:
    """Result of a message: users who got a notice, and owners without an account that may read the page."""

    users: tuple[str, ...]
    unknown: tuple[str, ...]


def may_notify(subject: Subject, user: Any) -> bool:
    """Return True if the user has a part in changes at the place of the subject."""
    return may_build(user, subject.place)


@transaction.atomic
def notify_owners(*, subject: Subject, user: Any, note: str = "") -> Notified:
    """Send each owner of what a subject affects one notice that names what changes for that owner; log the message.

    Raise MetadataError ``not_permitted`` for a user without a part in changes of the subject. Raise Refusal NO_OWNERS
    if nobody is affected, TOO_MANY_OWNERS for more than ``MOST_TOLD``, TOO_MANY_MESSAGES for more than
    ``MOST_MESSAGES`` messages of the user within an hour.
    """
    must_write()
    if not may_notify(subject, user):
        message = f"notifying owners needs the editor, approver or operator role for {subject.name}"
        raise MetadataError("not_permitted", message)
    _refuse_too_many(user)
    groups = domain.by_owner(affected_by(subject, user))
    if not groups:
        raise Refusal("NO_OWNERS", f"nothing that {subject.name} affects has an owner", hint="Name the owners first.")
    accounts = domain.matched(groups, _accounts(groups))
    users = {row.get_username(): row for row in get_user_model().objects.filter(username__in=set(accounts.values()))}
    by_user: dict[str, list[domain.Affected]] = {}
    for owner, name in accounts.items():
        if name in users and name != user.get_username() and may_be_told(users[name], Kind.OWNERS_NOTIFIED):
            by_user.setdefault(name, []).extend(groups[owner])
    if len(by_user) > MOST_TOLD:
        hint = "Notify the owners of a narrower change."
        raise Refusal("TOO_MANY_OWNERS", f"{len(by_user)} users would be notified; {MOST_TOLD} are possible", hint=hint)
    note = note.strip()[:LONGEST_NOTE]
    for name, things in sorted(by_user.items()):
        tell(
            event=Kind.OWNERS_NOTIFIED,
            subject_kind="affected",
            subject_key=subject.page,
            subject_name=subject.name,
            title=f"{user.get_username()}: {domain.message_for(subject.name, things, note)}",
            link=subject.page,
            users=[users[name]],
            facts={"affected": [each.described for each in things][:MOST_TOLD]},
        )
    known = {owner for owner, name in accounts.items() if name in by_user or name == user.get_username()}
    notified = Notified(tuple(sorted(by_user)), tuple(owner for owner in groups if owner not in known))
    record_change(
        action="sent",
        subject_kind=MESSAGE,
        subject_key=subject.page,
        subject_name=subject.name,
        after={"users": list(notified.users), "without_account": list(notified.unknown)},
        reason=note,
    )
    return notified


def _refuse_too_many(user: Any) -> None:
    """Raise Refusal TOO_MANY_MESSAGES for a user who sent too many messages. Call in a transaction."""
    sent = logged_within(user, WITHIN, subject_kind=MESSAGE)
    if sent >= MOST_MESSAGES:
        raise Refusal(
            "TOO_MANY_MESSAGES",
            f"you sent {counted(sent, 'message')} to owners within the last hour, the most that is permitted",
            hint="Send the next one later, or comment on the dataset.",
        )


def _accounts(owners: Any) -> dict[str, str]:
    """Return the user names of active users by user name, full name and address, in lower case."""
    wanted = {owner.strip().lower() for owner in owners}
    rows = get_user_model().objects.filter(is_active=True, service_account=None)
    rows = rows.annotate(lower_name=Lower("username"), lower_address=Lower("email"))
    named = Q(lower_name__in=wanted) | Q(lower_address__in=wanted) | ~Q(last_name="")
    accounts: dict[str, str] = {}
    for row in rows.filter(named).order_by("pk"):
        for text in (row.email, row.get_full_name()):
            if text:
                accounts.setdefault(text.lower(), row.get_username())
    return accounts | {row.get_username().lower(): row.get_username() for row in rows.filter(named)}
