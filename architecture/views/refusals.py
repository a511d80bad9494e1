"""Permission checks and refusals of the workflow on pages and in the API."""

from typing import Any

from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from architecture.permissions import BUILDERS, may_build
from elevata.core.errors import MetadataError, ProductError, as_sentence
from elevata.web.views import Page


class ForBuilders(Page):
    """Base of pages for users who may create reports."""

    permissions = tuple(BUILDERS)
    refusal = "Creating reports needs the editor, approver or operator role."


def as_shown(refused: ProductError, user: Any = None) -> dict[str, Any]:
    """Return a refusal in sentences, for the template tag ``refusal``; a sentence may begin with the user's name."""
    name = user.get_username() if user is not None else ""
    shown = dict(refused.as_json())
    if isinstance(refused, MetadataError):
        shown["message"] = refused.one_line()
    return shown | {part: as_sentence(shown[part], name) for part in ("message", "hint") if shown.get(part)}


class MayBuild(BasePermission):
    """Users who may edit metadata, approve or execute."""

    needs = frozenset(BUILDERS)

    def has_permission(self, request: Request, view: Any) -> bool:
        return may_build(request.user)
