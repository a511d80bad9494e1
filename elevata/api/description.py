"""The API's description to look at: Swagger UI to try it, Redoc to read it, both from local files."""

import secrets
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from rest_framework.request import Request

from elevata.web.middleware import CONTENT_SECURITY_POLICY

TEMPLATE = "api/description.html"


class Describer(SchemaGenerator):
    """Generator of the OpenAPI description, cached per process because generating it is slow.

    Only the ``public`` description is cached: others depend on the user of the request.
    """

    _kept: ClassVar[dict[str | None, dict[str, Any]]] = {}

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict[str, Any]:
        if not public:
            return super().get_schema(request, public)
        if self.api_version not in self._kept:
            self._kept[self.api_version] = super().get_schema(request, public)
        return self._kept[self.api_version]


_FILES = "drf_spectacular_sidecar"


@require_safe
def swagger(request: HttpRequest) -> HttpResponse:
    """Page of all operations, with a form that sends each as the signed-in user."""
    context = {"tool": "swagger", "script": f"{_FILES}/swagger-ui-dist/swagger-ui-bundle.js"}
    return render(request, TEMPLATE, context)


@require_safe
def redoc(request: HttpRequest) -> HttpResponse:
    """Show every operation of the API.

    Redoc makes its styles itself: a nonce of this answer lets those in, and nothing else inline.
    """
    nonce = secrets.token_urlsafe(16)
    context = {"tool": "redoc", "script": f"{_FILES}/redoc/bundles/redoc.standalone.js", "nonce": nonce}
    response = render(request, TEMPLATE, context)
    response.headers["Content-Security-Policy"] = f"{CONTENT_SECURITY_POLICY}; style-src 'self' 'nonce-{nonce}'"
    return response


# OpenAPI description of the API: parameters and responses that every operation shares.
