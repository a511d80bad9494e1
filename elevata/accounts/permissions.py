"""Permission checks of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q, QuerySet

from elevata.accounts.actors import current_actor
from elevata.accounts.models import RoleGrant, ServiceAccount
from elevata.accounts.places import Place
from elevata.accounts.roles import (
    ROLES,
    USERS_ONLY,
    GrantedRole,
    Permission,
    Role,
    allows,
    permissions_of,
    roles_at,
)
from elevata.core.errors import MetadataError

# A place, or a function that returns it on demand.
Where = Place | Callable[[], Place] | None
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
NO_ROLE = "Your account has no role yet. Ask an administrator."
SAFE_METHODS = ("GET", "HEAD", "OPTIONS", "TRACE")
_GRANTED = "_granted_roles"
_HAS_GRANTS = "has_role_grants"
_IS_PROGRAM = "is_program"


def may(user: Any, permission: Permission | str, on: Where = None) -> bool:
    """Return True if the user is active and has the permission, by role or as superuser.

    ``on`` is the place of the action: roles granted for that place count, too. Without it, only global roles count. A
    service account never has a permission of ``USERS_ONLY``.
    """
    if user is None or not user.is_active:
        return False
    if _has_globally(user, Permission(permission)):
        return not _is_refused(user, permission)
    granted = granted_to(user) if on is not None else ()
    allowed = bool(granted) and allows(granted, Permission(permission), on() if callable(on) else on)
    return allowed and not _is_refused(user, permission)


def _has_globally(user: Any, permission: Permission) -> bool:
    """Return True if the user has the permission everywhere.

    Django gives superusers every permission. For sensitive values they need the role, whose grant is recorded.
    """
    if permission is Permission.READ_SENSITIVE and user.is_superuser:
        return permission in permissions_of(roles_of(user))
    return user.has_perm(str(permission))


def may_somewhere(user: Any, permission: Permission | str) -> bool:
    """Return True if the user has the permission anywhere. Views check this; services check the place."""
    if may(user, permission):
        return True
    allowed = user is not None and bool(user.is_active) and allows(granted_to(user), Permission(permission))
    return allowed and not _is_refused(user, permission)


def is_service_account(user: Any) -> bool:
    """Return True for a service account; cached on the user object."""
    if not hasattr(user, _IS_PROGRAM):
        setattr(user, _IS_PROGRAM, ServiceAccount.objects.filter(user_id=user.pk).exists())
    return bool(getattr(user, _IS_PROGRAM))


def _is_refused(user: Any, permission: Permission | str) -> bool:
    return permission in USERS_ONLY and is_service_account(user)


def readers() -> QuerySet:
    """Return the active users who read metadata: by a role for everything, or one for any place, as each has it."""
    users = get_user_model().objects
    everywhere = users.with_perm(str(Permission.READ_METADATA), backend=MODEL_BACKEND)
    return users.filter(Q(pk__in=everywhere.values("pk")) | Q(pk__in=RoleGrant.objects.values("user")), is_active=True)


def granted_to(user: Any) -> tuple[GrantedRole, ...]:
    """Return a user's grants; cached on the user object, like Django's permissions."""
    if user is None or user.pk is None:
        return ()
    roles = getattr(user, _GRANTED, None) if getattr(user, _HAS_GRANTS, True) else ()
    if roles is None:
        roles = tuple(row.as_rule() for row in RoleGrant.objects.filter(user_id=user.pk))
        setattr(user, _GRANTED, roles)
    return roles


def knowing_grants(users: QuerySet) -> QuerySet:
    """Return users with annotations: if they have grants, and if they are service accounts."""
    of_user = {"user_id": OuterRef("pk")}
    return users.annotate(
        **{
            _HAS_GRANTS: Exists(RoleGrant.objects.filter(**of_user)),
            _IS_PROGRAM: Exists(ServiceAccount.objects.filter(**of_user)),
        }
    )


def roles_of(user: Any, on: Where = None) -> frozenset[Role]:
    """Return a user's roles, including those granted for the place; a superuser is an admin."""
    if user is None or user.pk is None:
        return frozenset()
    names = set(user.groups.values_list("name", flat=True))
    roles = frozenset(role for role in ROLES if role.value in names)
    roles |= {Role.ADMIN} if user.is_superuser else frozenset()
    granted = granted_to(user) if on is not None else ()
    if on is None or not granted:
        return roles
    return roles | roles_at(granted, on() if callable(on) else on)


def must_write() -> None:
    """Raise MetadataError ``token_scope`` if the actor uses a read-only token."""
    if current_actor().read_only:
        raise MetadataError("token_scope", "the personal token may only read; make one that may write")
