"""Helpers for API requests."""

from typing import Any

from django.http import HttpResponse
from django.test import Client


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
    """Send a request with a JSON body to the API."""
    return getattr(client, method)(
        f"/api/v1/{path}", {} if body is None else body, content_type="application/json", headers=headers
    )


def get(client: Client, path: str) -> Any:
    """Return the body of a response with status 200."""
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()
