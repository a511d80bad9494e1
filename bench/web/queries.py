"""Number of queries of a page."""

from typing import Any

from django.core.cache import cache
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from bench.problem import BenchProblem
from bench.web.pages import Page


def signed_in(person: Any) -> Client:
    """Return a client that uses the server's host name, signed in as this user."""
    client = Client(SERVER_NAME="localhost")
    client.force_login(person)
    return client


def statements(client: Client, page: Page) -> list[str]:
    """Return the SQL statements of a page at its first request."""
    cache.clear()
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(page.address)
    if answer.status_code >= 400:
        raise BenchProblem(f"{page.name} at {page.address} answers {answer.status_code}")
    return [query["sql"] for query in asked.captured_queries]
