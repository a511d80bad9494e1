"""Users with a permission at a place, and the reasons why they have it.

The rules are those of ``permissions.may``, for many users in a constant number of queries.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.db.models import Exists, OuterRef, Q, QuerySet

from elevata.accounts.models import RoleGrant
from elevata.accounts.permissions import MODEL_BACKEND
from elevata.accounts.places import Place
from elevata.accounts.roles import ROLES, USERS_ONLY, GrantedRole, Permission, Role, allows

# More administrators than these are not named to a user who needs one.
_NAMED = 4
SUPERUSER, DIRECT = "superuser", "direct permission"


@dataclass(frozen=True)
class Ground:
    """Reason why a user has a permission.

    ``by`` is a role, another group, ``superuser`` or ``direct permission``; ``place`` is the place of a scoped role in
    words, empty for everywhere.
    """

    by: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.by} ({self.place or 'everywhere'})"


def holders(permission: Permission, place: Place | None = None) -> QuerySet:
    """Return the active users with a permission at a place, by name; without a place, anywhere.

    Only roles for everything count at an unlimited ``Place()``.
    """
    return holders_of_any((permission,), place)


def holders_of_any(permissions: Iterable[Permission], place: Place | None = None) -> QuerySet:
    """Return the active users with at least one of these permissions at a place, as ``holders`` does."""
    permitted = reduce(or_, (_permitted(permission, place) for permission in permissions))
    return get_user_model().objects.filter(permitted, is_active=True).order_by("username")


def _permitted(permission: Permission, place: Place | None) -> Q:
    """Return the condition that an active user has a permission at a place."""
    users = get_user_model().objects
    by_role = users.with_perm(str(permission), backend=MODEL_BACKEND, include_superusers=False)
    if permission is Permission.READ_SENSITIVE:
        # A superuser needs the role itself.
        has_role = Q(is_superuser=True, pk__in=_in_roles(permission))
        everywhere = Q(is_superuser=False, pk__in=by_role.values("pk")) | has_role
    else:
        everywhere = Q(is_superuser=True) | Q(pk__in=by_role.values("pk"))
    permitted = everywhere | _granted(permission, place)
    return permitted & Q(service_account=None) if permission in USERS_ONLY else permitted


def who_helps() -> dict[str, Any]:
    """Return the contact of the installation, or else names of administrators, who give permissions."""
    if settings.CONTACT:
        return {"contact": settings.CONTACT}
    return {"administrators": [user.get_username() for user in holders(Permission.MANAGE_USERS, Place())[:_NAMED]]}


def _roles_with(permission: Permission) -> list[str]:
    return [role.value for role, given in ROLES.items() if permission in given]


def _in_roles(permission: Permission) -> QuerySet:
    return get_user_model().objects.filter(groups__name__in=_roles_with(permission)).values("pk")


def _granted(permission: Permission, place: Place | None) -> Q:
    """Return the condition that grants cover the place: its environment, or each of its schemas."""
    grants = RoleGrant.objects.filter(user=OuterRef("pk"), role__in=_roles_with(permission))
    if place is None:
        return Q(Exists(grants))
    covered = Q(pk__in=())
    if place.environment:
        covered |= Q(Exists(grants.filter(environment=place.environment)))
    if place.schemas:
        schemas = Q()
        for name, layer in sorted(place.schemas):
            schemas &= Q(Exists(grants.filter(Q(schema=name) | (Q(layer=layer) if layer else Q(pk__in=())))))
        covered |= schemas
    return covered


def all_users() -> QuerySet:
    """Return all users by name, with all that ``grounds`` reads."""
    return with_grounds(get_user_model().objects.order_by("username", "pk"))


def with_grounds(users: QuerySet) -> QuerySet:
    """Return users with all that ``grounds`` reads."""
    return users.select_related("service_account__owner").prefetch_related(
        "role_grants", "groups__permissions__content_type", "user_permissions__content_type"
    )


def grounds(user: Any, permission: Permission, place: Place) -> tuple[Ground, ...]:
    """Return the reasons why a user of ``with_grounds`` has a permission at a place; () without it."""
    if not user.is_active or (permission in USERS_ONLY and hasattr(user, "service_account")):
        return ()
    return (*_everywhere(user, permission), *_scoped(user.role_grants.all(), permission, place))


def _everywhere(user: Any, permission: Permission) -> Iterable[Ground]:
    needs_role = user.is_superuser and permission is Permission.READ_SENSITIVE
    if user.is_superuser and not needs_role:
        yield Ground(SUPERUSER)
    for group in sorted(user.groups.all(), key=lambda group: group.name):
        if group.name in _roles_with(permission) if needs_role else _is_among(permission, group.permissions.all()):
            yield Ground(group.name)
    if not needs_role and _is_among(permission, user.user_permissions.all()):
        yield Ground(DIRECT)


def _is_among(permission: Permission, given: Iterable[Any]) -> bool:
    return any(f"{row.content_type.app_label}.{row.codename}" == permission for row in given)


def _scoped(grants: Collection[RoleGrant], permission: Permission, place: Place) -> Iterable[Ground]:
    reasons = [(grant, grant.as_rule()) for grant in grants if permission in ROLES[Role(grant.role)]]
    if allows([rule for _, rule in reasons], permission, place):
        yield from (Ground(grant.role, grant.place) for grant, rule in reasons if _helps(rule, place))


def _helps(rule: GrantedRole, place: Place) -> bool:
    return rule.covers(place) or any(map(rule.covers_schema, place.schemas))
