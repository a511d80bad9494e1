"""``Idempotency-Key``: a POST that may be sent again without being done again.

The work and its answer are stored in one transaction, so a crash leaves both or neither. Refusals
(4xx) are answers like others; what failed with 5xx left nothing and may be tried again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request

from metadata.models import KeptAnswer
from metadata.services.stored_responses import claim_answer, keep_answer, release_claim

HEADER, REPLAYED = "Idempotency-Key", "Idempotent-Replayed"
KEY_LENGTH = 255
RETRY_AFTER = 2
_KEPT_HEADERS = ("ETag", "Location", "Retry-After")


class KeyUsedOtherwise(APIException):
    status_code = 422
    default_detail = "Idempotency key used otherwise"
    default_code = "idempotency_key_reused"

    def __init__(self) -> None:
        super().__init__("This key was sent with another request: take a new one.", code=self.default_code)


class InFlight(APIException):
    status_code = 409
    default_detail = "Still in flight"
    default_code = "request_in_flight"
    wait = RETRY_AFTER

    def __init__(self) -> None:
        super().__init__("The first request with this key is not answered yet.", code=self.default_code)


class Idempotent:
    """For views: POST with an ``Idempotency-Key`` is done once for the person who sends it."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        key = request.headers.get(HEADER)
        if request.method != "POST" or key is None:
            return
        if not (0 < len(key) <= KEY_LENGTH and key.isascii() and key.isprintable()):
            raise ValidationError({HEADER: [f"Must be 1 to {KEY_LENGTH} printable ASCII characters."]})
        # Whoever dispatches asks for the handler after this: for this request it is another one.
        self.post = self._once(self.post, key)

    def _once(self, handler: Callable[..., Any], key: str) -> Callable[..., HttpResponse]:
        def handle(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            digest = self.digest_of(request)
            kept, is_ours = claim_answer(person=request.user, key=key, digest=digest)
            if not is_ours:
                return _answered_before(kept, digest)
            try:
                return self._do(handler, kept, request, *args, **kwargs)
            except BaseException:
                release_claim(kept)
                raise

        return handle

    def prepare(self) -> None:
        """Do what takes long and writes nothing to the database, before the transaction holds its write lock."""
        self.request.data  # noqa: B018  parsed here and kept

    def digest_of(self, request: Request) -> str:
        """Return the digest by which two requests are told apart."""
        return _digest(request)

    def _do(self, handler: Callable[..., Any], kept: KeptAnswer, request: Request, *args: Any, **kwargs: Any) -> Any:
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


def _keep(kept: KeptAnswer, answer: HttpResponse) -> None:
    keep_answer(
        kept,
        status=answer.status_code,
        content_type=answer.headers.get("Content-Type", ""),
        headers={name: answer.headers[name] for name in _KEPT_HEADERS if name in answer.headers},
        body=answer.content.decode(),
    )


def _answered_before(kept: KeptAnswer, digest: str) -> HttpResponse:
    if kept.digest != digest:
        raise KeyUsedOtherwise
    if kept.status is None:
        raise InFlight
    headers = {**kept.headers, REPLAYED: "true"}
    return HttpResponse(kept.body, status=kept.status, content_type=kept.content_type, headers=headers)
