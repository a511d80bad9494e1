"""Folder of a shop with orders, and the requests that sample, import and generate from it."""

from typing import Any

from django.http import HttpResponse
from django.test import Client

from metadata.models import SourceDataset
from tests.elevata.web.forms import typed
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read

ORDERS = "Order No,customer,amount,ordered at\nA1,7,12.50,2024-01-01\nA2,8,3.99,2024-01-02\n"
HTMX = {"HX-Request": "true"}


def import_page(client: Client, location: str = "orders.csv", **how: str) -> str:
    answer = client.get("/systems/shop/import/", {"location": location, "show": "now", **how})
    assert answer.status_code == 200, answer.content[:500]
    return html_of(answer)


def choose_columns(client: Client, page: str, **over: Any) -> HttpResponse:
    """Send the form of the columns; the answer redirects to the load type, or shows the errors."""
    fields = {name.replace("__", "-"): value for name, value in over.items()}
    return client.post("/systems/shop/import/", typed(page, having="lines", **fields))


def choose_load_type(client: Client, address: str, **over: Any) -> HttpResponse:
    """Send the form of the load type; the answer redirects to the summary, or shows the errors."""
    return client.post(address, typed(read(client, address), having="input", **over))


def import_as(client: Client, page: str, **over: Any) -> HttpResponse:
    """Submit all steps of the guided path, without a load."""
    answer = choose_columns(client, page, **over)
    if answer.status_code != 302:
        return answer
    summary = choose_load_type(client, answer.url).url
    return client.post(summary, {"create_only": "yes"})


def imported(client: Client) -> SourceDataset:
    import_as(client, import_page(client))
    return SourceDataset.objects.get(name="orders")


def generate_page(client: Client, source: SourceDataset) -> str:
    return read(client, f"/sources/{source.key}/generate/")


def generate(client: Client, source: SourceDataset, **over: Any) -> HttpResponse:
    page = generate_page(client, source)
    return client.post(f"/sources/{source.key}/generate/", typed(page, having="fingerprint", **over))
