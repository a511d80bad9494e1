"""Limits of requests that hold before anything of them is read: address, length of the body, encoding."""

import tempfile
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import LimitedStream
from django.http import HttpRequest, HttpResponse

from elevata.web import error_pages

_IN_MEMORY = 2**20
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


class LimitsMiddleware:
    """Refuse addresses that are too long (414), bodies that are (413), and texts that are not UTF-8 (415).

    A view set may say by ``most_bytes`` how long its bodies may be. A body without a length (chunked) is read
    here, up to the limit of all others, and has one from then on.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        address = request.META.get("RAW_URI") or request.get_full_path()
        if len(address) > settings.LONGEST_ADDRESS:
            return error_pages.answer(
                request,
                status=414,
                title="Address too long",
                detail=f"An address has at most {settings.LONGEST_ADDRESS} characters, its query included.",
                code="address_too_long",
            )
        encoding = (request.content_params or {}).get("charset", "utf-8").strip("\"'").lower()
        if encoding not in _ENCODINGS:
            return error_pages.answer(
                request,
                status=415,
                title="Encoding not taken",
                detail="Texts are taken in UTF-8 only.",
                code="unsupported_charset",
            )
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Judge the body's length by the view that takes it."""
        everywhere = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        resource = getattr(view, "cls", None)
        most = resource.most_bytes() if hasattr(resource, "most_bytes") else everywhere
        length = request.META.get("CONTENT_LENGTH") or ""
        if length:
            if not (length.isascii() and length.isdigit()):
                return error_pages.answer(
                    request, status=400, title="Bad request", detail="Content-Length is no number.", code="bad_request"
                )
            return body_too_big(request, most) if int(length) > most else None
        if "chunked" not in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            return None
        if not request.META.get("wsgi.input_terminated"):
            return error_pages.answer(
                request,
                status=411,
                title="Length required",
                detail="Send the length of the body in Content-Length.",
                code="length_required",
            )
        return None if _gather(request, min(most, everywhere)) else body_too_big(request, min(most, everywhere))


def body_too_big(request: HttpRequest, most: int) -> HttpResponse:
    """Return the 413 for a body of more than ``most`` bytes."""
    detail = f"At most {most} bytes are taken: send it in parts."
    return error_pages.answer(request, status=413, title="Body too big", detail=detail, code="body_too_big")


def _gather(request: HttpRequest, most: int) -> bool:
    """Read a body that says no length; False if it has more than ``most`` bytes."""
    body = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  closed with the request
    request._body_file = body
    sent, length = request.META["wsgi.input"], 0
    while chunk := sent.read(min(_IN_MEMORY, most + 1 - length)):
        length += len(chunk)
        if length > most:
            return False
        body.write(chunk)
    body.seek(0)
    request._stream = LimitedStream(body, length)
    request.META["CONTENT_LENGTH"] = str(length)
    return True
