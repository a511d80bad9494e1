"""REST APIs on the pages: registration, connection test, naming of an endpoint, import from its first page."""

import json

import pytest
from django.test import Client
from django.urls import reverse

from metadata.models import SourceDataset, System
from tests.elevata.web.forms import form_of, typed, words
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import read
from tests.factories import SourceDatasetFactory
from tests.loader.readers.rest.api_server import HERE, Answer, ApiServer, Request, by_cursor
from tests.loader.views.sources.shop import HTMX, import_as

pytestmark = pytest.mark.django_db

ADD = "/add-source/rest/"
SECRET, TOKEN = "ELEVATA_SOURCE_SHOP", "tok-correct-horse"
PAGED = {"path": "items", "paging": "cursor", "next_path": "meta.next", "page_parameter": "after"}


@pytest.fixture
def api(api: ApiServer, settings, monkeypatch) -> ApiServer:
    """Return the server, whose host is permitted and whose secret is set."""
    settings.SOURCE_HOSTS = list(HERE)
    monkeypatch.setenv(SECRET, TOKEN)
    return api


@pytest.fixture
def shop(api: ApiServer) -> System:
    return System.objects.create(short_name="shop", name="Shop", kind="rest", location=api.url, secret=SECRET)


def test_a_system_is_registered_with_its_authentication(editor: Client):
    page = read(editor, ADD)
    given = {"location": "https://api.example.org/v1", "secret": SECRET}
    options = {"authentication": "basic", "user": "reader", "requests_per_minute": "60"}
    editor.post(ADD, typed(page, having="short_name", name="Shop", short_name="shop", **given, **options))
    system = System.objects.get()
    assert (system.kind, system.location) == ("rest", "https://api.example.org/v1")
    assert system.options == {"authentication": "basic", "user": "reader", "requests_per_minute": 60}


def test_an_option_that_is_missing_is_named_at_its_field(editor: Client):
    page = read(editor, ADD)
    given = {"location": "https://h", "secret": SECRET, "authentication": "oauth2", "user": "id"}
    answer = editor.post(ADD, typed(page, having="short_name", name="S", short_name="s", **given))
    assert (answer.status_code, System.objects.count()) == (422, 0)
    assert 'id="id_token_url_error"' in html_of(answer)


def test_a_changed_option_keeps_the_others(editor: Client, shop: System):
    System.objects.update(options={"authentication": "api_key", "header": "Api-Token"})
    page = read(editor, "/systems/shop/edit/")
    assert form_of(page, having="short_name")["header"] == ["Api-Token"]
    editor.post("/systems/shop/edit/", typed(page, having="short_name", header="X-Key"))
    assert System.objects.get().options == {"authentication": "api_key", "header": "X-Key"}


def test_the_page_of_a_system_shows_its_options_and_the_name_of_its_secret(editor: Client, shop: System):
    System.objects.update(options={"authentication": "api_key", "header": "Api-Token"})
    page = words(read(editor, "/systems/shop/"))
    assert f"Password environment variable {SECRET} Option authentication api_key Option header Api-Token" in page
    assert TOKEN not in page


def test_a_secret_parameter_of_an_endpoint_is_not_shown(editor: Client, shop: System):
    source = SourceDatasetFactory(
        system=shop, location="orders", format="rest", options={"parameters": "status=open&token=abc"}
    )
    assert "status=open&token=***" in words(read(editor, f"/sources/{source.key}/"))


@pytest.mark.parametrize("status", [200, 404])
def test_connection_test_accepts_an_api_that_answers(editor: Client, shop: System, api: ApiServer, status: int):
    api.serve("/", Answer.of({}, status))
    text = words(html_of(editor.post("/systems/shop/test/", headers=HTMX)))
    assert "The API answers." in text
    assert str(status) in text
    assert api.requests[0].headers["authorization"] == f"Bearer {TOKEN}"


def test_a_wrong_secret_is_refused_and_not_shown(editor: Client, shop: System, api: ApiServer):
    api.serve("/", Answer.of({"token": TOKEN}, 401))
    page = html_of(editor.post("/systems/shop/test/", headers=HTMX))
    assert "answered 401 Unauthorized" in words(page)
    assert TOKEN not in page


def test_connection_test_sends_no_request_to_a_host_that_is_not_allowed(
    editor: Client, shop: System, api: ApiServer, settings
):
    settings.SOURCE_HOSTS = []
    assert "no host that may be asked" in words(html_of(editor.post("/systems/shop/test/", headers=HTMX)))
    assert api.requests == []


def test_discovery_lists_described_endpoints_and_accepts_another(editor: Client, shop: System):
    address = reverse("system_discover", args=["shop"])
    assert "Name one above to import it" in words(html_of(editor.get(address, {"show": "now"})))
    SourceDataset.objects.create(
        system=shop, key="00000000-0000-0000-0000-000000000001", name="orders", short_name="orders",
        location="v2/orders",
        format="rest",
    )  # fmt: skip
    page = html_of(editor.get(address, {"show": "now"}))
    assert "v2/orders" in words(page)
    assert form_of(page, having="location")


def import_page(editor: Client, **options: str) -> str:
    return html_of(editor.get("/systems/shop/import/", {"location": "items", "show": "now"} | options))


def test_an_endpoint_is_imported_from_its_first_page(editor: Client, shop: System, api: ApiServer):
    api.routes["/items"] = by_cursor
    page = import_page(editor, format="rest", **PAGED)
    assert "3 rows of the first page of items" in words(page)
    assert len(api.requests) == 1
    import_as(editor, page)
    source = SourceDataset.objects.get()
    assert (source.location, source.format, source.options) == ("items", "rest", PAGED)
    assert [(column.name, str(column.type)) for column in source.columns.all()] == [
        ("id", "integer"),
        ("name", "string"),
    ]


def test_unreadable_page_of_an_endpoint_is_refused_with_the_form(editor: Client, shop: System, api: ApiServer):
    def page(request: Request) -> Answer:
        return Answer(b"<html>sign in</html>")

    api.routes["/items"] = page
    text = import_page(editor)
    assert "is no JSON document" in words(text)
    assert form_of(text, having="paging")


def test_missing_paging_option_is_refused_without_a_request(editor: Client, shop: System, api: ApiServer):
    text = import_page(editor, format="rest", paging="offset")
    assert 'id="id_page_size_error"' in text
    assert api.requests == []


def test_the_contract_of_an_endpoint_is_edited(editor: Client, shop: System):
    source = SourceDataset.objects.create(
        system=shop, key="00000000-0000-0000-0000-000000000001", name="orders", short_name="orders", location="orders",
        format="rest", options={"paging": "page", "first_page": 0},
    )  # fmt: skip
    address = f"/sources/{source.key}/edit/"
    page = read(editor, address)
    form = form_of(page, having="paging")
    assert (form["first_page"], "delimiter" in form) == (["0"], False)
    editor.post(address, typed(page, having="paging", page_size="100"))
    source.refresh_from_db()
    assert source.options == {"paging": "page", "first_page": 0, "page_size": 100}


def test_api_creates_and_returns_a_rest_system(editor: Client, api: ApiServer):
    body = {"short_name": "crm", "name": "CRM", "kind": "rest", "location": "https://crm", "secret": SECRET}
    body["options"] = {"authentication": "api_key"}
    answer = editor.post("/api/v1/systems/", json.dumps(body), content_type="application/json")
    assert (answer.status_code, answer.json()["options"]) == (201, {"authentication": "api_key"})
