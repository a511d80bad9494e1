"""What views of the workflow share: who may, and a refusal as it is shown where the person acted."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse

from architecture.domain.workflow import Refused
from architecture.shown import may_build
from metadata.domain.errors import MetadataError
from metadata.domain.roles import Permission
from metadata.permissions import may

View = Callable[..., HttpResponse]

_NOT_FOUND = ("UNKNOWN_REPORT", "UNKNOWN_DATASET", "UNKNOWN_ENVIRONMENT")
_FORBIDDEN = ("NOT_PERMITTED", "NO_PERSON", "OWN_CHANGE")


def permitted(permission: Permission) -> Callable[[View], View]:
    """403 for those who lack the permission."""
    return _only(lambda user: may(user, permission), f"This needs the permission {permission}.")


def builders(view: View) -> View:
    """403 for those who only read."""
    return _only(may_build, "Reports are made by people who edit, approve or execute.")(view)


def _only(allowed: Callable[[Any], bool], said: str) -> Callable[[View], View]:
    def decorate(view: View) -> View:
        @wraps(view)
        def guarded(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            if not allowed(request.user):
                raise PermissionDenied(said)
            return view(request, *args, **kwargs)

        return guarded

    return decorate


def status_of(refused: Refused | MetadataError) -> int:
    """The HTTP status of a refusal: 403 for who, 404 for what is not there, 422 for what was typed, else 409."""
    if refused.code in _FORBIDDEN:
        return 403
    if refused.code in _NOT_FOUND:
        return 404
    return 409 if isinstance(refused, Refused) else 422


def as_shown(refused: Refused | MetadataError, person: Any = None) -> dict[str, Any]:
    """A refusal in sentences, for the template tag ``refusal``; the name of ``person`` is left as it is."""
    name = person.get_username() if person is not None else ""
    said = dict(refused.as_json())
    if not isinstance(refused, Refused):
        said["message"] = refused.one_line()
    return said | {part: as_sentence(said[part], name) for part in ("message", "hint") if said.get(part)}


def as_sentence(text: str, name: str = "") -> str:
    """With a capital at its beginning, unless it begins with this name, and a mark at its end."""
    begins = text if name and text.startswith(f"{name} ") else text[:1].upper() + text[1:]
    return begins + ("" if not text or text.endswith((".", "?", "!")) else ".")
