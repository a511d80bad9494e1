"""Who acts: a signed-in person with roles and permissions, or nobody."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from architecture.domain.workflow import Refused
from metadata.domain.roles import Permission
from metadata.permissions import may, roles_of
from metadata.services.actor import acting_as, current_actor


def must_be_permitted(person: Any, permission: Permission) -> None:
    """Refused NO_PERSON unless somebody is named who may sign in, NOT_PERMITTED if they lack the permission."""
    if person is None or not getattr(person, "is_authenticated", False) or not person.is_active:
        raise Refused("NO_PERSON")
    if not may(person, permission):
        raise Refused("NOT_PERMITTED", f"{person.get_username()} lacks the permission {permission}")


def role_names(person: Any) -> list[str]:
    """The names of the person's roles, sorted."""
    return sorted(role.value for role in roles_of(person))


@contextmanager
def on_behalf_of(person: Any) -> Iterator[None]:
    """What is logged inside is the person's doing; a token or request that is known already stays known."""
    if current_actor().user == person:
        yield
    else:
        with acting_as(person):
            yield
