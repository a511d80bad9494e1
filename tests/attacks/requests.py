"""Forged requests, and the check that a response refuses them."""

from typing import Any

from django.http import HttpResponse
from django.test import Client

# Codes of the product's own refusals: an attack must not end with another error.
REFUSED = (400, 404, 409, 413, 415, 422)


def send(client: Client, method: str, path: str, body: Any = None, **headers: str) -> HttpResponse:
    return getattr(client, method)(
        f"/api/v1/{path}", {} if body is None else body, content_type="application/json", headers=headers
    )


def must_be_refused(answer: HttpResponse, *codes: str) -> None:
    """Check that a REST request is refused with a problem document, with one of these codes if any are given."""
    assert answer.status_code in REFUSED, (answer.status_code, answer.content[:300])
    code = answer.json()["code"]
    assert code in codes if codes else code, answer.content[:300]
