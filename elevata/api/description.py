"""Page of the API's description: Swagger UI, from local files."""

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe
from drf_spectacular.generators import SchemaGenerator
from rest_framework.request import Request


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


@require_safe
def swagger(request: HttpRequest) -> HttpResponse:
    """Show all operations, each with a form that sends it as the signed-in user."""
    return render(request, "api/description.html")
