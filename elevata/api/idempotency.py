"""Idempotency keys: a POST that is repeated with the same ``Idempotency-Key`` is executed once.

The work and its response are stored in one transaction, so that a crash leaves both or neither. Refusals (4xx) are
stored, too; after a 5xx nothing is stored, and the request can be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from django.db import transaction
from django.http import HttpResponse
from rest_framework.exceptions import APIException, ValidationError
from rest_framework.request import Request

from elevata.api.models import StoredResponse
from elevata.api.requests import ViewMixin
from elevata.api.services import claim_response, release_claim, store_response

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


class Idempotent(ViewMixin):
    """Mixin of views that executes a POST with an ``Idempotency-Key`` once for each user."""

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        key = request.headers.get(HEADER)
        if request.method != "POST" or key is None:
            return
        if not (0 < len(key) <= KEY_LENGTH and key.isascii() and key.isprintable()):
            raise ValidationError({HEADER: [f"Must be 1 to {KEY_LENGTH} printable ASCII characters."]})
        # The dispatcher looks the handler up after this method, so it finds this one.
        handlers: Any = self  # the methods of HTTP are attributes that routers set
        handlers.post = self._once(handlers.post, key)

    def _once(self, handler: Callable[..., Any], key: str) -> Callable[..., HttpResponse]:
        def handle(request: Request, *args: Any, **kwargs: Any) -> HttpResponse:
            digest = self.digest_of(request)
            stored, is_ours = claim_response(user=request.user, key=key, digest=digest)
            if not is_ours:
                return _replay(stored, digest)
            try:
                return self._execute(handler, stored, request, *args, **kwargs)
            except BaseException:
                release_claim(stored)
                raise

        return handle

    def prepare(self) -> None:
        """Do slow work without writes before the transaction takes the write lock."""
        self.request.data  # noqa: B018  parses and caches the body

    def digest_of(self, request: Request) -> str:
        """Return the digest that identifies a request."""
        return _digest(request)

    def _execute(
        self, handler: Callable[..., Any], stored: StoredResponse, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        try:
            self.prepare()
            with transaction.atomic():
                response = self._render(request, handler(request, *args, **kwargs), *args, **kwargs)
                _store(stored, response)
        except Exception as error:
            response = self._render(request, self.handle_exception(error), *args, **kwargs)
            if response.status_code < 500:
                _store(stored, response)
            else:
                release_claim(stored)
        return response

    def _render(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = self.finalize_response(request, response, *args, **kwargs)
        return response.render() if hasattr(response, "render") and not response.is_rendered else response


def _digest(request: Request) -> str:
    head = f"{request.method} {request.get_full_path()}\n{request.content_type}\n".encode()
    return hashlib.sha256(head + _body(request)).hexdigest()


def _body(request: Request) -> bytes:
    """Return the request's body, and cache it for the parser.

    Django's ``body`` has one limit for all requests; the limit of this one was checked by its resource.
    """
    django_request = request._request
    if not hasattr(django_request, "_body"):
        django_request._body = django_request.read()
    return django_request._body


def _store(stored: StoredResponse, response: HttpResponse) -> None:
    store_response(
        stored,
        status=response.status_code,
        content_type=response.headers.get("Content-Type", ""),
        headers={name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers},
        body=response.content.decode(),
    )


def _replay(stored: StoredResponse, digest: str) -> HttpResponse:
    if stored.digest != digest:
        raise KeyUsedOtherwise
    if stored.status is None:
        raise InFlight
    headers = {**stored.headers, REPLAYED: "true"}
    return HttpResponse(stored.body, status=stored.status, content_type=stored.content_type, headers=headers)
