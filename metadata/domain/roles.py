"""Who may do what: roles, the permissions each gives, and where. Everyone who is signed in may read.

A person may have several roles; what they give adds up. ``ROLES`` is the whole table: groups in the
control database are made from it after every migration. A role may also be given for one layer, one
schema or one environment only (``GrantedRole``); then it counts for what is done there (``Place``).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Permission(StrEnum):
    """What may be allowed, as ``app.codename``."""

    CHANGE_METADATA = "metadata.change_metadata"
    APPROVE_REPORTS = "metadata.approve_reports"
    EXECUTE_REPORTS = "metadata.execute_reports"
    START_LOAD = "loader.start_load"
    MANAGE_POLICIES = "metadata.manage_policies"
    MANAGE_PEOPLE = "metadata.manage_people"
    MANAGE_WEBHOOKS = "metadata.manage_webhooks"


class Role(StrEnum):
    VIEWER = "viewer"
    EDITOR = "editor"
    APPROVER = "approver"
    OPERATOR = "operator"
    ADMIN = "admin"


ROLES: dict[Role, frozenset[Permission]] = {
    Role.VIEWER: frozenset(),
    Role.EDITOR: frozenset({Permission.CHANGE_METADATA}),
    Role.APPROVER: frozenset({Permission.APPROVE_REPORTS}),
    Role.OPERATOR: frozenset({Permission.EXECUTE_REPORTS, Permission.START_LOAD}),
    Role.ADMIN: frozenset(Permission),
}


def permissions_of(roles: frozenset[Role]) -> frozenset[Permission]:
    """What the roles give together."""
    return frozenset().union(*(ROLES[role] for role in roles))


# --- where -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Place:
    """Where something is done: in an environment, to what stands in these schemas (name, layer).

    Nowhere in particular (both empty) is left to those whose role counts everywhere.
    """

    environment: str = ""
    schemas: frozenset[tuple[str, str]] = frozenset()


@dataclass(frozen=True)
class GrantedRole:
    """A role for one place: exactly one of environment, layer and schema is named."""

    role: Role
    environment: str = ""
    layer: str = ""
    schema: str = ""

    def covers(self, place: Place) -> bool:
        """Whether the place lies in it by itself."""
        if self.environment:
            return place.environment == self.environment
        return bool(place.schemas) and all(map(self.covers_schema, place.schemas))

    def covers_schema(self, schema: tuple[str, str]) -> bool:
        """Whether (name, layer) lies in it."""
        name, layer = schema
        return bool(self.schema and self.schema == name) or bool(self.layer and self.layer == layer)


def roles_at(granted: Collection[GrantedRole], place: Place) -> frozenset[Role]:
    """The roles that somebody has in all of the place: for its environment, or for every schema of it."""
    return frozenset(
        role for role in {one.role for one in granted} if _covered([one for one in granted if one.role is role], place)
    )


def allows(granted: Collection[GrantedRole], permission: Permission, place: Place | None = None) -> bool:
    """Whether grants give a permission at a place; without one, whether they give it anywhere at all."""
    giving = [one for one in granted if permission in ROLES[one.role]]
    return bool(giving) if place is None else _covered(giving, place)


def _covered(granted: Collection[GrantedRole], place: Place) -> bool:
    if any(one.covers(place) for one in granted):
        return True
    return bool(place.schemas) and all(any(one.covers_schema(schema) for one in granted) for schema in place.schemas)
