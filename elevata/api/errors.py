"""Errors of the REST API, as problem+json (RFC 9457)."""

from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.views import set_rollback

from elevata.core.errors import ProductError
from elevata.web import middleware


def problem_json(raised: Exception, context: dict[str, Any]) -> JsonResponse | None:
    """DRF's exception handler: every error as problem+json; None leaves an accident to Django's 500."""
    if isinstance(raised, Http404):
        raised = exceptions.NotFound()
    elif isinstance(raised, PermissionDenied):
        raised = exceptions.PermissionDenied()
    elif isinstance(raised, ProductError):
        raised = _Refused(raised)
    elif isinstance(raised, OperationalError | InterfaceError):
        raised = _Unavailable()
    elif isinstance(raised, RequestDataTooBig):
        raised = _TooBig()
    elif isinstance(raised, SuspiciousOperation | BadRequest):
        raised = exceptions.ParseError()
    if not isinstance(raised, exceptions.APIException):
        return None
    set_rollback()
    body = middleware.problem(
        status=raised.status_code,
        title=_title(raised),
        detail=_detail(raised),
        code=_code(raised),
        request_id=getattr(context["request"], "request_id", ""),
        errors=_field_errors(raised),
    )
    body |= getattr(raised, "more", {})
    # No renderer has a say: the description's, for one, would write YAML.
    return JsonResponse(body, status=raised.status_code, headers=_headers(raised), content_type=middleware.CONTENT_TYPE)


class _Unavailable(exceptions.APIException):
    status_code = 503
    default_detail = middleware.DATABASE_DOWN
    default_code = "database_down"


class _TooBig(exceptions.APIException):
    status_code = 413
    default_detail = "Body too big"
    default_code = "body_too_big"

    def __init__(self) -> None:
        super().__init__(f"The fields of a form take at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes.")


def _title(raised: exceptions.APIException) -> str:
    if isinstance(raised, _Unavailable):
        return "Control database unavailable"
    if isinstance(raised, exceptions.ValidationError):
        return "Invalid request"
    return str(raised.default_detail).rstrip(".")


def _detail(raised: exceptions.APIException) -> str:
    if isinstance(raised.detail, dict):
        return f"Not valid: {', '.join(raised.detail)}."
    if isinstance(raised.detail, list):
        return " ".join(str(message) for message in raised.detail)
    return str(raised.detail)


def _code(raised: exceptions.APIException) -> str:
    codes = raised.get_codes()
    return codes if isinstance(codes, str) else raised.default_code


def _field_errors(raised: exceptions.APIException) -> dict | None:
    fields = getattr(raised, "fields", None)
    return raised.detail if isinstance(raised.detail, dict) else fields


def _headers(raised: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if getattr(raised, "etag", None):
        headers["ETag"] = raised.etag
    if getattr(raised, "auth_header", None):
        headers["WWW-Authenticate"] = raised.auth_header
    wait = getattr(raised, "wait", None) or (5 if isinstance(raised, _Unavailable) else None)
    if wait:
        headers["Retry-After"] = str(int(wait))
    return headers


# Codes after which the same request may succeed soon.
_AGAIN = frozenset({"READ_UNFINISHED", "TOO_MANY_READS", "TOO_MANY_STREAMS", "TOO_MANY_BATCHES"})


class _Refused(exceptions.APIException):
    """Problem response to an expected error, with the error's own code and status."""

    default_detail = "Refused"

    def __init__(self, error: ProductError) -> None:
        super().__init__(error.one_line(), code=error.code)
        self.status_code = error.status
        self.fields = {error.field: [error.message]} if error.field else None
        self.wait = 2 if error.code in _AGAIN else 0
