"""Refusals of the workflow as problem+json, and permissions by action."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.permissions import BasePermission, IsAuthenticated
from rest_framework.request import Request

from architecture.domain.workflow import Refused
from architecture.shown import may_build
from architecture.views.deciding import status_of
from metadata.domain.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.permissions import may


class RefusedRequest(APIException):
    """A step of the workflow that was not taken; the code is the workflow's."""

    default_detail = "Refused"

    def __init__(self, refused: Refused | MetadataError) -> None:
        super().__init__(refused.one_line(), code=refused.code)
        self.status_code = status_of(refused)


@contextmanager
def refusals() -> Iterator[None]:
    """What is refused inside is answered with its code."""
    try:
        yield
    except (Refused, MetadataError) as refused:
        raise RefusedRequest(refused) from None


class MayBuild(BasePermission):
    """Whoever edits, approves or executes."""

    def has_permission(self, request: Request, view: Any) -> bool:
        return may_build(request.user)


def permitted_to(permission: Permission) -> type[BasePermission]:
    """A permission class for one permission of the roles' table."""

    class Permitted(BasePermission):
        def has_permission(self, request: Request, view: Any) -> bool:
            return may(request.user, permission)

    return Permitted


class ByAction:
    """Signed-in people read; ``needs`` says what else an action needs."""

    needs: dict[str, type[BasePermission]] = {}

    def get_permissions(self) -> list[BasePermission]:
        needed = self.needs.get(self.action or "")
        return [IsAuthenticated(), needed()] if needed is not None else [IsAuthenticated()]
