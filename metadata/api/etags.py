"""ETags: which version of a row an answer shows, and which one a change was made over (RFC 9110).

An ETag is ``"VERSION.DIGEST"``. The version is the row's own and is what ``If-Match`` is compared by: it
moves when the row changes, not when its neighbours do. The digest is of the whole answer, for
``If-None-Match``.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from rest_framework.exceptions import APIException
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

_TAG = re.compile(r'\s*(?:W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')


class PreconditionFailed(APIException):
    """The thing is not what the caller saw; ``etag`` is what it is now."""

    status_code = 412
    default_detail = "Precondition failed"
    default_code = "stale_version"

    def __init__(self, etag: str) -> None:
        super().__init__(
            "Somebody else changed it in the meantime: get it again, and say its ETag in If-Match.",
            code=self.default_code,
        )
        self.etag = etag


class PreconditionRequired(APIException):
    """The request must say what it is made over."""

    status_code = 428
    default_detail = "Precondition required"
    default_code = "if_match_required"

    def __init__(self, said: str = "Send If-Match with the ETag of what you have seen.") -> None:
        super().__init__(said, code=self.default_code)


def etag(version: object, shown: Any) -> str:
    """The tag of an answer: the version of its row, and a digest of what is shown of it."""
    digest = hashlib.sha256(JSONRenderer().render(shown)).hexdigest()
    return f'"{version}.{digest[:16]}"'


def tags(header: str) -> list[str] | None:
    """The tags of an If-Match or If-None-Match header; None stands for ``*``, any thing that is there."""
    if header.strip() == "*":
        return None
    found, at = [], 0
    while match := _TAG.match(header, at):
        found.append(match[1])
        at = match.end()
    return found


def check_match(request: Request, version: object, *, required: bool = False) -> None:
    """412 if the request was made over another version, 428 if it does not say over which and must."""
    header = request.headers.get("If-Match")
    if header is None:
        if required:
            raise PreconditionRequired
        return
    seen = tags(header)
    if seen is not None:
        _compare(seen, version)


def must_name(request: Request, version: object | None) -> None:
    """For what counts for one state and no other: 428 without If-Match, and for ``*``; 412 for another version.

    ``version`` None: there is nothing yet that could have been seen, which is for others to say.
    """
    header = request.headers.get("If-Match")
    if header is None:
        raise PreconditionRequired
    seen = tags(header)
    if seen is None:
        raise PreconditionRequired("Name the ETag of what you have seen: this counts for that and nothing else.")
    if version is not None:
        _compare(seen, version)


def _compare(seen: list[str], version: object) -> None:
    if str(version) not in {tag.partition(".")[0] for tag in seen}:
        raise PreconditionFailed(f'"{version}"')


def is_known(request: Request, tag: str) -> bool:
    """Return whether the caller has this version already (If-None-Match)."""
    header = request.headers.get("If-None-Match")
    if header is None:
        return False
    known = tags(header)
    return known is None or tag.strip('"') in known
