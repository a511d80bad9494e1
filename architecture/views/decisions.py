"""Shared code of workflow views: the permission check, and the display of a refusal where the user acted."""

from typing import Any

from architecture.domain.reports.workflow import Refused
from architecture.report_details import BUILDERS, may_build
from elevata.core.errors import MetadataError, as_sentence
from metadata.permissions import View, only, permitted

__all__ = ["as_sentence", "as_shown", "builders", "builders_go_on", "permitted", "status_of"]

_NOT_FOUND = (
    "UNKNOWN_REPORT",
    "UNKNOWN_DATASET",
    "UNKNOWN_ENVIRONMENT",
    "UNKNOWN_RECORD",
    "UNKNOWN_OPERATION",
    "UNKNOWN_LOOK",
    "UNKNOWN_PROPOSAL",
)
_FORBIDDEN = (
    "NOT_PERMITTED",
    "NO_PERSON",
    "SERVICE_ACCOUNT",
    "OWN_CHANGE",
    "OWN_PROPOSAL",
    "not_permitted",
    "token_scope",
)


_SAID = "Reports are made by people who edit, approve or execute."


def builders(view: View) -> View:
    """403 for those who only read."""
    return only(may_build, _SAID, needs=frozenset(BUILDERS))(view)


def builders_go_on(view: View) -> View:
    """403 for those who only read, where something is sent."""
    return only(may_build, _SAID, needs=frozenset(BUILDERS), methods=("POST",))(view)


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
