"""Pages of the API's description: Swagger UI and Redoc, from local files."""

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
    """Generator of the OpenAPI description, which is cached per process because it is slow.

    Only the ``public`` description is cached; others depend on the user of the request.
    """

    _cache: ClassVar[dict[str | None, dict[str, Any]]] = {}

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict[str, Any]:
        if not public:
            return super().get_schema(request, public)
        if self.api_version not in self._cache:
            self._cache[self.api_version] = super().get_schema(request, public)
        return self._cache[self.api_version]


_FILES = "drf_spectacular_sidecar"


@require_safe
def swagger(request: HttpRequest) -> HttpResponse:
    """Show all operations, each with a form that sends it as the signed-in user."""
    context = {"tool": "swagger", "script": f"{_FILES}/swagger-ui-dist/swagger-ui-bundle.js"}
    return render(request, TEMPLATE, context)


@require_safe
def redoc(request: HttpRequest) -> HttpResponse:
    """Show all operations for reading.

    Redoc adds inline styles, which the nonce of the response permits.
    """
    nonce = secrets.token_urlsafe(16)
    context = {"tool": "redoc", "script": f"{_FILES}/redoc/bundles/redoc.standalone.js", "nonce": nonce}
    response = render(request, TEMPLATE, context)
    response.headers["Content-Security-Policy"] = f"{CONTENT_SECURITY_POLICY}; style-src 'self' 'nonce-{nonce}'"
    return response
