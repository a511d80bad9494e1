"""Actor of a workflow step: a signed-in user with roles and permissions, or nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from architecture.domain.reports.workflow import Refused
from metadata.domain.roles import PEOPLE_ONLY, Permission, needed_role
from metadata.models import ServiceAccount
from metadata.permissions import Where, is_service_account, may, must_write, roles_of
from metadata.services.actor import acting_as, current_actor


def must_be_permitted(person: Any, permission: Permission, on: Where = None) -> None:
    """Raise Refused unless an active user is named who has the permission there.

    NO_PERSON for nobody, SERVICE_ACCOUNT where only people may and a program asks, NOT_PERMITTED otherwise.
    MetadataError ``token_scope`` if who acts does so by a token that only reads.
    """
    if person is None or not getattr(person, "is_authenticated", False) or not person.is_active:
        raise Refused("NO_PERSON")
    if permission in PEOPLE_ONLY and is_service_account(person):
        raise Refused("SERVICE_ACCOUNT")
    if not may(person, permission, on):
        raise Refused("NOT_PERMITTED", f"{needed_role(permission)}, which {person.get_username()} does not have here")
    must_write()


def role_names(person: Any, on: Where = None) -> list[str]:
    """The names of the person's roles, those for this place among them, sorted."""
    return sorted(role.value for role in roles_of(person, on))


def who_answers(person: Any) -> str:
    """The name of who answers for what a user does: their own, or that of a service account's owner."""
    account = ServiceAccount.objects.filter(user_id=person.pk).select_related("owner").first()
    return (account.owner if account is not None else person).get_username()


@contextmanager
def on_behalf_of(person: Any) -> Iterator[None]:
    """Attribute change-log entries inside to this user; a known token or request stays."""
    if current_actor().user == person:
        yield
    else:
        with acting_as(person):
            yield
