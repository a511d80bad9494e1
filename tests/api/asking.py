"""What tests of the API send."""

from typing import Any

from django.http import HttpResponse
from django.test import Client


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
    """A request to the API with a JSON body."""
    return getattr(client, method)(
        f"/api/v1/{path}", {} if body is None else body, content_type="application/json", headers=headers
    )


def get(client: Client, path: str) -> Any:
    """What the API answers with 200."""
    answer = client.get(f"/api/v1/{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()
