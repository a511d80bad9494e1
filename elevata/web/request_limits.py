"""Limits that are checked before a request is read: address, length of the body, encoding."""

import tempfile
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.handlers.wsgi import LimitedStream
from django.http import HttpRequest, HttpResponse

from elevata.web.problems import answer

_IN_MEMORY = 2**20
_ENCODINGS = ("utf-8", "utf8", "us-ascii", "ascii")


class LimitsMiddleware:
    """Limits of a request: length of its address (414), length of its body (413), and UTF-8 as its encoding (415).

    A view set or page may define a body limit of its own by ``most_bytes``. A chunked body, which has no
    Content-Length, is read here up to the general limit.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        address = request.META.get("RAW_URI") or request.get_full_path()
        if len(address) > settings.LONGEST_ADDRESS:
            return answer(
                request,
                status=414,
                title="Address too long",
                detail=f"An address has at most {settings.LONGEST_ADDRESS} characters, its query included.",
                code="address_too_long",
            )
        encoding = (request.content_params or {}).get("charset", "utf-8").strip("\"'").lower()
        if encoding not in _ENCODINGS:
            return answer(
                request,
                status=415,
                title="Unsupported encoding",
                detail="Send text in UTF-8.",
                code="unsupported_charset",
            )
        return self.get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., HttpResponse], args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Check the length of the body against the limit of the view."""
        general = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        resource = getattr(view, "cls", None) or getattr(view, "view_class", None)
        most = general if resource is None or not hasattr(resource, "most_bytes") else resource.most_bytes()
        length = request.META.get("CONTENT_LENGTH") or ""
        if length:
            if not (length.isascii() and length.isdigit()):
                return answer(
                    request,
                    status=400,
                    title="Bad request",
                    detail="Content-Length is not a number.",
                    code="bad_request",
                )
            return body_too_big(request, most) if int(length) > most else None
        if "chunked" not in request.META.get("HTTP_TRANSFER_ENCODING", "").lower():
            return None
        if not request.META.get("wsgi.input_terminated"):
            return answer(
                request,
                status=411,
                title="Length required",
                detail="Send the length of the body in Content-Length.",
                code="length_required",
            )
        return None if _read_body(request, min(most, general)) else body_too_big(request, min(most, general))


def body_too_big(request: HttpRequest, most: int) -> HttpResponse:
    """Return the 413 response to a body of more than ``most`` bytes."""
    detail = f"A body may have at most {most} bytes: send several smaller requests."
    return answer(request, status=413, title="Body too big", detail=detail, code="body_too_big")


def _read_body(request: HttpRequest, most: int) -> bool:
    """Read a body of unknown length; return False if it has more than ``most`` bytes."""
    body = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115  closed with the request
    # Any: these are fields of Django's own WSGIRequest, and the stream only reads.
    handed_over: Any = request
    content: Any = body
    handed_over._body_file = body
    stream, length = request.META["wsgi.input"], 0
    while chunk := stream.read(min(_IN_MEMORY, most + 1 - length)):
        length += len(chunk)
        if length > most:
            return False
        body.write(chunk)
    body.seek(0)
    handed_over._stream = LimitedStream(content, length)
    request.META["CONTENT_LENGTH"] = str(length)
    return True
