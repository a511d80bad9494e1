"""Who may do what: roles, and the permissions each gives. Everyone who is signed in may read.

A person may have several roles; what they give adds up. ``ROLES`` is the whole table: groups in the
control database are made from it after every migration.
"""

from __future__ import annotations

from enum import StrEnum


class Permission(StrEnum):
    """What may be allowed, as ``app.codename``."""

    CHANGE_METADATA = "metadata.change_metadata"
    APPROVE_REPORTS = "metadata.approve_reports"
    EXECUTE_REPORTS = "metadata.execute_reports"
    START_LOAD = "loader.start_load"
    MANAGE_POLICIES = "metadata.manage_policies"
    MANAGE_PEOPLE = "metadata.manage_people"


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
