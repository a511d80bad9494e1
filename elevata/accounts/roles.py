"""Roles, their permissions, and grants of roles at places.

A user can have several roles, and has the permissions of all of them. Django groups are created from ``ROLES`` after
every migration. A role can be granted for one layer, schema or environment (``GrantedRole``); it then applies to
actions at that place (``Place``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum

from elevata.accounts.places import Place


class Permission(StrEnum):
    """Permissions, as ``app.codename``.

    ``READ_DATA`` covers rows, samples and data files. ``READ_SENSITIVE`` covers the values of personal, confidential
    and restricted columns, which are masked without it. Both are checked for a place.
    """

    READ_METADATA = "accounts.read_metadata"
    READ_DATA = "accounts.read_data"
    READ_SENSITIVE = "accounts.read_sensitive"
    CHANGE_METADATA = "accounts.change_metadata"
    APPROVE_REPORTS = "accounts.approve_reports"
    EXECUTE_REPORTS = "accounts.execute_reports"
    START_LOAD = "loader.start_load"
    MANAGE_POLICIES = "accounts.manage_policies"
    MANAGE_USERS = "accounts.manage_users"
    MANAGE_WEBHOOKS = "accounts.manage_webhooks"


class Role(StrEnum):
    VIEWER = "viewer"
    EDITOR = "editor"
    APPROVER = "approver"
    OPERATOR = "operator"
    STEWARD = "steward"
    ADMIN = "admin"


_READ = frozenset({Permission.READ_METADATA, Permission.READ_DATA})

# The admin role does not include sensitive values: administrators grant themselves the steward role, which writes a
# change-log entry.
ROLES: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: _READ,
    Role.EDITOR: _READ | {Permission.CHANGE_METADATA},
    Role.APPROVER: _READ | {Permission.APPROVE_REPORTS},
    Role.OPERATOR: _READ | {Permission.EXECUTE_REPORTS, Permission.START_LOAD},
    Role.STEWARD: _READ | {Permission.READ_SENSITIVE},
    Role.ADMIN: frozenset(Permission) - {Permission.READ_SENSITIVE},
}

_IN_WORDS = {
    Permission.READ_METADATA: "reading metadata",
    Permission.READ_DATA: "reading data",
    Permission.READ_SENSITIVE: "reading sensitive values",
    Permission.CHANGE_METADATA: "changing metadata",
    Permission.APPROVE_REPORTS: "deciding on reports",
    Permission.EXECUTE_REPORTS: "executing reports",
    Permission.START_LOAD: "starting loads",
    Permission.MANAGE_POLICIES: "managing policies",
    Permission.MANAGE_USERS: "managing users",
    Permission.MANAGE_WEBHOOKS: "managing webhooks",
}


def needed_role(*permissions: Permission) -> str:
    """Return the roles with any of these permissions in words: ``changing metadata needs the editor role``."""
    doing = _IN_WORDS[permissions[0]] if len(permissions) == 1 else "this"
    roles = [role for role, permissions_given in ROLES.items() if permissions_given & set(permissions)]
    # An admin may do everything, so admins are named only if no other role may.
    names = [role.value for role in roles if role is not Role.ADMIN] or [Role.ADMIN.value]
    listed = " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{doing} needs the {listed} role"


# Permissions that a service account never has, whatever its roles: with them, its owner could act as a second user.
USERS_ONLY: frozenset[Permission] = frozenset(
    {Permission.APPROVE_REPORTS, Permission.MANAGE_POLICIES, Permission.MANAGE_USERS}
)


def is_for_users(role: Role) -> bool:
    """Return True for a role with a permission of ``USERS_ONLY``, which a service account cannot have."""
    return bool(USERS_ONLY & ROLES[role])


def permissions_of(roles: frozenset[Role]) -> frozenset[Permission]:
    """Return the union of the roles' permissions."""
    return frozenset().union(*(ROLES[role] for role in roles))


@dataclass(frozen=True)
class GrantedRole:
    """Role for one place: exactly one of environment, layer and schema is set."""

    role: Role
    environment: str = ""
    layer: str = ""
    schema: str = ""

    def covers(self, place: Place) -> bool:
        """Return True if this grant alone covers the place."""
        if self.environment:
            return place.environment == self.environment
        return bool(place.schemas) and all(map(self.covers_schema, place.schemas))

    def covers_schema(self, schema: tuple[str, str]) -> bool:
        """Return True if this grant covers the schema (name, layer)."""
        name, layer = schema
        return bool(self.schema and self.schema == name) or bool(self.layer and self.layer == layer)


def roles_at(granted: Collection[GrantedRole], place: Place) -> frozenset[Role]:
    """Return the roles granted for the whole place: for its environment, or for all of its schemas."""
    return frozenset(
        role
        for role in {grant.role for grant in granted}
        if _cover([grant for grant in granted if grant.role is role], place)
    )


def allows(granted: Collection[GrantedRole], permission: Permission, place: Place | None = None) -> bool:
    """Return True if the grants give a permission at a place; without a place, anywhere."""
    sufficient = [grant for grant in granted if permission in ROLES[grant.role]]
    return bool(sufficient) if place is None else _cover(sufficient, place)


def _cover(granted: Collection[GrantedRole], place: Place) -> bool:
    if any(grant.covers(place) for grant in granted):
        return True
    return bool(place.schemas) and all(
        any(grant.covers_schema(schema) for grant in granted) for schema in place.schemas
    )
