"""Permissions of the API. Every resource needs ``read_metadata``; what else an action needs, its resource says.

What lets somebody in is a permission anywhere; whether it is for the place at hand, the service asks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from rest_framework.permissions import SAFE_METHODS, BasePermission, IsAuthenticated
from rest_framework.request import Request

from elevata.core.errors import as_sentence
from metadata.domain.roles import Permission, Place, needed_role
from metadata.permissions import NO_ROLE, may, may_somewhere


class Reads(BasePermission):
    """Users who may read metadata; any role, for any place, lets them."""

    message = NO_ROLE
    code = "no_role"

    def has_permission(self, request: Request, view: Any) -> bool:
        return may_somewhere(request.user, Permission.READ_METADATA)


class Permitted(BasePermission):
    """People with any of the permissions ``needs``; ``on`` is where, if that is known beforehand."""

    needs: ClassVar[frozenset[Permission]] = frozenset()
    on: ClassVar[Callable[[], Place] | None] = None

    def has_permission(self, request: Request, view: Any) -> bool:
        where = type(self).on
        if where is None:
            return any(may_somewhere(request.user, permission) for permission in self.needs)
        return any(may(request.user, permission, where) for permission in self.needs)


class Nobody(BasePermission):
    """Refuse everything: the permission of a resource that declares none."""

    needs = None

    def has_permission(self, request: Request, view: Any) -> bool:
        return False


def permitted_to(*permissions: Permission, on: Callable[[], Place] | None = None) -> type[Permitted]:
    """A permission class for people with any of these permissions of the roles' table."""
    said = as_sentence(needed_role(*permissions))
    declared = {"needs": frozenset(permissions), "on": on and staticmethod(on), "message": said}
    return type("Permitted", (Permitted,), declared)


class ByAction:
    """For view sets: ``needs`` says what an action needs, ``writes`` what the other ones need that write."""

    needs: ClassVar[Mapping[str, type[BasePermission]]] = {}
    writes: ClassVar[type[BasePermission]] = Nobody

    @classmethod
    def needed(cls, action: str | None, method: str) -> type[BasePermission] | None:
        """Return the permission that an action needs beyond being signed in; None for nothing.

        Without an action it is a method that the address does not take, which is said as such.
        """
        if not action:
            return None
        return cls.needs.get(action) or (None if method in SAFE_METHODS else cls.writes)

    def get_permissions(self) -> list[BasePermission]:
        request = getattr(self, "request", None)
        needed = self.needed(self.action, request.method if request is not None else "GET")
        first = [IsAuthenticated(), Reads()]
        return [*first, needed()] if needed is not None else first
