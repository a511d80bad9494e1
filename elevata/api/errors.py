"""Errors of the REST API, as problem+json (RFC 9457)."""

from typing import Any

from django.conf import settings
from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404, JsonResponse
from rest_framework import exceptions
from rest_framework.views import set_rollback

from elevata.core.errors import ProductError
from elevata.web import problems


def problem_json(raised: Exception, context: dict[str, Any]) -> JsonResponse | None:
    """Return an error as problem+json, as DRF's exception handler; None for an unexpected error, a 500 of Django."""
    if isinstance(raised, Http404):
        raised = exceptions.NotFound()
    elif isinstance(raised, PermissionDenied):
        raised = exceptions.PermissionDenied()
    elif isinstance(raised, ProductError):
        raised = _Refused(raised)
    elif isinstance(raised, OperationalError | InterfaceError):
        raised = _Unavailable(*problems.reason_of(raised))
    elif isinstance(raised, RequestDataTooBig):
        raised = _TooBig()
    elif isinstance(raised, SuspiciousOperation | BadRequest):
        raised = exceptions.ParseError()
    if not isinstance(raised, exceptions.APIException):
        return None
    set_rollback()
    body = problems.problem(
        status=raised.status_code,
        title=_title(raised),
        detail=_detail(raised),
        code=_code(raised),
        request_id=getattr(context["request"], "request_id", ""),
        errors=_field_errors(raised),
    )
    body |= getattr(raised, "more", {})
    # The view's renderer is not used: that of the API description writes YAML.
    return JsonResponse(body, status=raised.status_code, headers=_headers(raised), content_type=problems.CONTENT_TYPE)


class _Unavailable(exceptions.APIException):
    status_code = 503
    default_detail = problems.DATABASE_DOWN
    default_code = "database_down"


class _TooBig(exceptions.APIException):
    status_code = 413
    default_detail = "Body too big"
    default_code = "body_too_big"

    def __init__(self) -> None:
        super().__init__(f"The fields of a form take at most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes.")


def _title(error: exceptions.APIException) -> str:
    if isinstance(error, _Unavailable):
        return "Control database unavailable"
    if isinstance(error, exceptions.ValidationError):
        return "Invalid request"
    return str(error.default_detail).rstrip(".")


def _detail(error: exceptions.APIException) -> str:
    if isinstance(error.detail, dict):
        return f"Not valid: {', '.join(error.detail)}."
    if isinstance(error.detail, list):
        return " ".join(str(message) for message in error.detail)
    return str(error.detail)


def _code(error: exceptions.APIException) -> str:
    codes = error.get_codes()
    return codes if isinstance(codes, str) else error.default_code


def _field_errors(error: exceptions.APIException) -> dict | None:
    fields = getattr(error, "fields", None)
    return error.detail if isinstance(error.detail, dict) else fields


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    if tag := getattr(error, "etag", None):
        headers["ETag"] = tag
    if scheme := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = scheme
    wait = getattr(error, "wait", None) or (5 if isinstance(error, _Unavailable) else None)
    if wait:
        headers["Retry-After"] = str(int(wait))
    return headers


# Codes of errors after which the same request may soon succeed.
_RETRYABLE = frozenset({"READ_UNFINISHED", "TOO_MANY_READS", "TOO_MANY_STREAMS", "TOO_MANY_BATCHES"})


class _Refused(exceptions.APIException):
    """Problem response to an expected error, with the error's own code and status."""

    default_detail = "Refused"

    def __init__(self, error: ProductError) -> None:
        super().__init__(error.one_line(), code=error.code)
        self.status_code = error.status
        self.fields = {error.field: [error.message]} if error.field else None
        self.more = {"hint": error.hint} if error.hint else {}
        self.wait = 2 if error.code in _RETRYABLE else 0
