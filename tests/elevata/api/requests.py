"""Requests of API tests."""

from typing import Any

from django.http import HttpResponse
from django.test import Client


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
    """A request to the API with a JSON body."""
    return getattr(client, method)(
        f"/api/v1/{path}", {} if body is None else body, content_type="application/json", headers=headers
    )


def get(client: Client, path: str) -> Any:
    """Return the body of a 200 answer of the API."""
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()
