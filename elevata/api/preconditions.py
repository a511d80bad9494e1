"""ETags of responses, and their comparison with If-Match and If-None-Match.

An ETag is ``"VERSION.DIGEST"``. The version is the row's own, for ``If-Match``: it changes with the row, not with
related rows. The digest is of the whole response, for ``If-None-Match``.
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
    """Error 412: the row changed since the client read it; ``etag`` is the current one."""

    status_code = 412
    default_detail = "Precondition failed"
    default_code = "stale_version"

    def __init__(self, etag: str) -> None:
        super().__init__(
            "The resource changed. Get it again and send its ETag in If-Match.",
            code=self.default_code,
        )
        self.etag = etag


class PreconditionRequired(APIException):
    """Error 428: the request needs If-Match."""

    status_code = 428
    default_detail = "Precondition required"
    default_code = "if_match_required"

    def __init__(self, message: str = "Send If-Match with the ETag of the version you read.") -> None:
        super().__init__(message, code=self.default_code)


def etag(version: object, shown: Any) -> str:
    """Return the ETag of a response: the version of its row, and a digest of its content."""
    digest = hashlib.sha256(JSONRenderer().render(shown)).hexdigest()
    return f'"{version}.{digest[:16]}"'


def tags(header: str) -> list[str] | None:
    """Return the tags of an If-Match or If-None-Match header; None for ``*``, which matches any row."""
    if header.strip() == "*":
        return None
    values, at = [], 0
    while match := _TAG.match(header, at):
        values.append(match[1])
        at = match.end()
    return values


def check_match(request: Request, version: object, *, required: bool = False) -> None:
    """Raise 412 if If-Match names another version, and 428 if it is missing and ``required``."""
    header = request.headers.get("If-Match")
    if header is None:
        if required:
            raise PreconditionRequired
        return
    seen = tags(header)
    if seen is not None:
        _compare(seen, version)


def must_name(request: Request, version: object | None) -> None:
    """Raise 428 without If-Match and for ``*``, because the request is for one version, and 412 for another version.

    With the version None there is nothing to compare; the service then refuses the request.
    """
    header = request.headers.get("If-Match")
    if header is None:
        raise PreconditionRequired
    seen = tags(header)
    if seen is None:
        raise PreconditionRequired("If-Match must be the ETag of the version you read, not *.")
    if version is not None:
        _compare(seen, version)


def _compare(seen: list[str], version: object) -> None:
    if str(version) not in {tag.partition(".")[0] for tag in seen}:
        raise PreconditionFailed(f'"{version}"')


def is_known(request: Request, tag: str) -> bool:
    """Return True if the client has this version already (If-None-Match)."""
    header = request.headers.get("If-None-Match")
    if header is None:
        return False
    known = tags(header)
    return known is None or tag.strip('"') in known
