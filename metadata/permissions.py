"""Whether somebody may do something. Pages, API, commands and services ask here."""

from __future__ import annotations

from typing import Any

from metadata.domain.roles import ROLES, Permission, Role


def may(user: Any, permission: Permission | str) -> bool:
    """Whether the user (None: nobody) is in use and has the permission, by role or as superuser."""
    return user is not None and bool(user.is_active) and user.has_perm(str(permission))


def roles_of(user: Any) -> frozenset[Role]:
    """The roles a user was given; a superuser is an admin."""
    if user is None or user.pk is None:
        return frozenset()
    names = set(user.groups.values_list("name", flat=True))
    given = frozenset(role for role in ROLES if role.value in names)
    return given | {Role.ADMIN} if user.is_superuser else given
