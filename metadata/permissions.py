"""Whether somebody may do something. Pages, API, commands and services ask here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from metadata.domain.roles import ROLES, Permission, Role

View = Callable[..., HttpResponse]


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


def permitted(permission: Permission) -> Callable[[View], View]:
    """Decorates a view: 403 for those who lack the permission."""
    return only(lambda user: may(user, permission), f"This needs the permission {permission}.")


def only(allowed: Callable[[Any], bool], said: str) -> Callable[[View], View]:
    """Decorates a view: 403, saying this, for people who are not allowed."""

    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not allowed(request.user):
                raise PermissionDenied(said)
            return view(request, *args, **kwargs)

        return guarded

    return decorate
