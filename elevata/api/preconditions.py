"""ETags and idempotency keys of requests.

An ETag is ``"VERSION.DIGEST"``. The version is the row's own and is what ``If-Match`` is compared by: it
moves when the row changes, not when its neighbours do. The digest is of the whole answer, for
``If-None-Match``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request

from elevata.api.models import StoredResponse
from elevata.api.services import claim_response, release_claim, store_response

_TAG = re.compile(r'\s*(?:W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')


class PreconditionFailed(APIException):
    """412: the row changed since the caller read it; ``etag`` is the current one."""

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
    """428: the request needs If-Match."""

    status_code = 428
    default_detail = "Precondition required"
    default_code = "if_match_required"

    def __init__(self, said: str = "Send If-Match with the ETag of the version you read.") -> None:
        super().__init__(said, code=self.default_code)


def etag(version: object, shown: Any) -> str:
    """Return the ETag of a response: the version of its row, and a digest of its content."""
    digest = hashlib.sha256(JSONRenderer().render(shown)).hexdigest()
    return f'"{version}.{digest[:16]}"'


def tags(header: str) -> list[str] | None:
    """Return the tags of an If-Match or If-None-Match header; None for ``*``, any existing row."""
    if header.strip() == "*":
        return None
    found, at = [], 0
    while match := _TAG.match(header, at):
        found.append(match[1])
        at = match.end()
    return found


def check_match(request: Request, version: object, *, required: bool = False) -> None:
    """Raise 412 if the request names another version, 428 if it names none and must."""
    header = request.headers.get("If-Match")
    if header is None:
        if required:
            raise PreconditionRequired
        return
    seen = tags(header)
    if seen is not None:
        _compare(seen, version)


def must_name(request: Request, version: object | None) -> None:
    """Raise 428 without If-Match and for ``*``, 412 for another version: the request is about one state only.

    ``version`` None: there is nothing yet that could have been seen, which is for others to say.
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
    """Return whether the caller has this version already (If-None-Match)."""
    header = request.headers.get("If-None-Match")
    if header is None:
        return False
    known = tags(header)
    return known is None or tag.strip('"') in known


# ``Idempotency-Key``: a repeated POST is executed once and gets the same response.
#
# The work and its response are stored in one transaction, so a crash leaves both or neither. Refusals (4xx) are
# stored, too; a request that failed with 5xx stored nothing and can be repeated.


HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replayed"
KEY_LENGTH = 255
RETRY_AFTER = 2
_KEPT_HEADERS = ("ETag", "Location", "Retry-After")


class KeyUsedOtherwise(APIException):
    status_code = 422
    default_detail = "Idempotency key used otherwise"
    default_code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__("This key was used for another request. Use a new key.", code=self.default_code)


class InFlight(APIException):
    status_code = 409
    default_detail = "Still in flight"
    default_code = "request_in_flight"
    wait = RETRY_AFTER

    def __init__(self) -> None:
        super().__init__("The first request with this key is not answered yet.", code=self.default_code)


class Idempotent:
    """For views: a POST with an ``Idempotency-Key`` is executed once per user."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        key = request.headers.get(HEADER)
        if request.method != "POST" or key is None:
            return
        if not (0 < len(key) <= KEY_LENGTH and key.isascii() and key.isprintable()):
            raise ValidationError({HEADER: [f"Must be 1 to {KEY_LENGTH} printable ASCII characters."]})
        # The dispatcher looks up the handler afterwards, and gets this one for the request.
        self.post = self._once(self.post, key)

    def _once(self, handler: Callable[..., Any], key: str) -> Callable[..., HttpResponse]:
        def handle(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            digest = self.digest_of(request)
            kept, is_ours = claim_response(user=request.user, key=key, digest=digest)
            if not is_ours:
                return _answered_before(kept, digest)
            try:
                return self._do(handler, kept, request, *args, **kwargs)
            except BaseException:
                release_claim(kept)
                raise

        return handle

    def prepare(self) -> None:
        """Do slow work that writes nothing, before the transaction takes its write lock."""
        self.request.data  # noqa: B018  parsed here and kept

    def digest_of(self, request: Request) -> str:
        """Return the digest that identifies a request."""
        return _digest(request)

    def _do(
        self, handler: Callable[..., Any], kept: StoredResponse, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        try:
            self.prepare()
            with transaction.atomic():
                answer = self._rendered(request, handler(request, *args, **kwargs), *args, **kwargs)
                _keep(kept, answer)
        except Exception as refused:
            answer = self._rendered(request, self.handle_exception(refused), *args, **kwargs)
            if answer.status_code < 500:
                _keep(kept, answer)
            else:
                release_claim(kept)
        return answer

    def _rendered(self, request: Request, answer: HttpResponse, *args: Any, **kwargs: Any) -> HttpResponse:
        answer = self.finalize_response(request, answer, *args, **kwargs)
        return answer.render() if hasattr(answer, "render") and not answer.is_rendered else answer


def _digest(request: Request) -> str:
    said = f"{request.method} {request.get_full_path()}\n{request.content_type}\n".encode()
    return hashlib.sha256(said + _body(request)).hexdigest()


def _body(request: Request) -> bytes:
    """Return the request's body, kept for its parser.

    Django's ``body`` has one limit for all requests; how long this one may be, its resource has judged.
    """
    sent = request._request
    if not hasattr(sent, "_body"):
        sent._body = sent.read()
    return sent._body


def _keep(kept: StoredResponse, answer: HttpResponse) -> None:
    store_response(
        kept,
        status=answer.status_code,
        content_type=answer.headers.get("Content-Type", ""),
        headers={name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
        body=answer.content.decode(),
    )


def _answered_before(kept: StoredResponse, digest: str) -> HttpResponse:
    if kept.digest != digest:
        raise KeyUsedOtherwise
    if kept.status is None:
        raise InFlight
    headers = {**kept.headers, REPLAYED: "true"}
    return HttpResponse(kept.body, status=kept.status, content_type=kept.content_type, headers=headers)
