"""Attacks on sign-in, forms and tokens, all of which are refused."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from rest_framework.settings import api_settings

from elevata.accounts.models import PersonalToken
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import create_service_account, ensure_user
from metadata.models import TargetSchema
from tests.elevata.web.html import html_of
from tests.elevata.web.permissions import TABLE, patterns
from tests.elevata.web.routes import RULES
from tests.elevata.web.test_routes import Addresses, addresses, controlled  # noqa: F401  fixtures

pytestmark = pytest.mark.django_db

PASSWORD = "analytical engine"
# Warehouse queries are sent by POST and change nothing.
ASKING = {"api-read-list", "api-history-check-list", "api-query-list"}


# --- session -----------------------------------------------------------------------------------


def test_sign_in_replaces_a_planted_session(client: Client, person: User):
    client.get("/sign-in/")
    session = client.session
    session["planted"] = "yes"
    session.save()
    client.cookies["sessionid"] = planted = session.session_key
    client.post("/sign-in/", {"username": "ada", "password": PASSWORD})
    assert client.session.session_key != planted
    stranger = Client()
    stranger.cookies["sessionid"] = planted
    assert stranger.get("/").status_code == 302


def test_sign_in_as_another_user_clears_the_session_data(client: Client, person: User, starter: User):
    client.post("/sign-in/", {"username": "ada", "password": PASSWORD})
    session = client.session
    session["secret"] = "ada's"
    session.save()
    client.post("/sign-out/")
    client.post("/sign-in/", {"username": "eve", "password": PASSWORD})
    assert "secret" not in client.session


def test_a_session_ends_on_the_server_not_only_in_the_browser(client: Client, person: User):
    client.post("/sign-in/", {"username": "ada", "password": PASSWORD})
    session_key = client.cookies["sessionid"].value
    client.post("/sign-out/")
    thief = Client()
    thief.cookies["sessionid"] = session_key
    assert thief.get("/").status_code == 302


def test_session_cookie_is_httponly_and_samesite_lax(client: Client, person: User):
    client.post("/sign-in/", {"username": "ada", "password": PASSWORD})
    cookie = client.cookies["sessionid"]
    assert (cookie["httponly"], cookie["samesite"]) == (True, "Lax")


# --- redirect, frame, forged forms ---------------------------------------------------------------


@pytest.mark.parametrize(
    "address",
    [
        "https://example.org/",
        "//example.org/",
        "///example.org/",
        "\\\\example.org",
        "/\\example.org",
        "http:///example.org",
        "javascript:alert(1)",
        "https:example.org",
        " //example.org",
        "//testserver@example.org/",
        "http://testserver.example.org/",
    ],
)
def test_sign_in_redirects_to_no_other_site(client: Client, person: User, address: str):
    data = {"username": "ada", "password": PASSWORD, "next": address}
    assert client.post("/sign-in/", data).url == "/"
    assert Client().post(f"/sign-in/?next={address}", data | {"next": ""}).url == "/"
    assert client.get("/sign-in/", {"next": address}).url == "/"


@pytest.mark.parametrize("address", ["/sign-in/", "/me/", "/datasets/", "/api/v1/datasets/"])
def test_pages_and_api_forbid_framing(operator: Client, address: str):
    headers = operator.get(address).headers
    assert headers["X-Frame-Options"] == "DENY"
    assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


def unsafe_routes() -> list[str]:
    known = patterns()
    return sorted(name for name, row in TABLE.items() if set(row) - {"GET"} and name in known)


def test_forms_and_session_writes_require_a_csrf_token(starter: User, addresses: Addresses):  # noqa: F811
    client = Client(enforce_csrf_checks=True)
    client.force_login(starter)
    taken = []
    for name in unsafe_routes():
        for method in set(TABLE[name]) - {"GET"}:
            is_api = addresses[name].startswith("/api/")
            options = {"content_type": "application/json"} if is_api else {}
            data = RULES[name].data if method == RULES[name].method.upper() else {}
            answer = getattr(client, method.lower())(addresses[name], data, **options)
            if answer.status_code != 403:
                taken.append(f"{method} {name}: {answer.status_code}")
    assert taken == []


def test_sign_in_requires_a_csrf_token(person: User):
    client = Client(enforce_csrf_checks=True)
    assert client.post("/sign-in/", {"username": "ada", "password": PASSWORD}).status_code == 403


# --- mass assignment -----------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["version", "id", "created_at", "dataset_count", "is_superuser"])
def test_read_only_fields_are_refused_not_ignored(operator: Client, field: str):
    body = {"name": "attic", "layer": "bizcore", field: 1}
    answer = operator.post("/api/v1/schemas/", body, content_type="application/json")
    assert answer.status_code == 400
    assert field in answer.json()["errors"]
    assert not TargetSchema.objects.exists()


def test_user_forms_cannot_create_a_superuser(operator: Client, person: User):
    operator.post("/new-user/", {"name": "mallory", "is_superuser": "on", "is_staff": "on"})
    operator.post("/users/ada/", {"do": "roles", "is_superuser": "on", "roles-is_superuser": "on"})
    assert not User.objects.filter(is_superuser=True).exists()


# --- tokens ------------------------------------------------------------------------------------


def with_token(text: str) -> dict[str, str]:
    return {"Authorization": f"Token {text}"}


@pytest.fixture
def read_token(starter: User) -> str:
    return create_token(user=starter, scope="read")[1]


def test_read_only_token_reads(client: Client, read_token: str):
    assert client.get("/api/v1/schemas/", headers=with_token(read_token)).status_code == 200


def test_read_only_token_is_refused_by_every_write_endpoint(client: Client, read_token: str, addresses: Addresses):  # noqa: F811
    taken = []
    for name in (name for name in unsafe_routes() if name.startswith("api-") and name not in ASKING):
        for method in set(TABLE[name]) - {"GET"}:
            address = addresses[name]
            call = getattr(client, method.lower())
            answer = call(address, {}, content_type="application/json", headers=with_token(read_token))
            if answer.status_code != 403 or answer.json()["code"] != "token_scope":
                taken.append(f"{method} {name}: {answer.status_code}")
    assert taken == []


def test_only_warehouse_queries_accept_read_only_tokens_beyond_get():
    views = {name: getattr(pattern.callback, "cls", object) for name, pattern in patterns().items()}
    assert {name for name in unsafe_routes() if getattr(views[name], "only_asks", False)} == ASKING


def test_every_endpoint_uses_the_default_authentication():
    """Check that no resource has an authentication of its own, which could ignore the scope of a token."""
    usual = api_settings.DEFAULT_AUTHENTICATION_CLASSES
    views = {name: getattr(pattern.callback, "cls", object) for name, pattern in patterns().items()}
    own = {name for name, view in views.items() if getattr(view, "authentication_classes", usual) != usual}
    assert own == set()


def test_token_does_not_sign_in_to_pages(client: Client, starter: User):
    _, text = create_token(user=starter)
    assert client.get("/me/", headers=with_token(text)).url.startswith("/sign-in/")


def test_service_account_signs_in_by_token_and_not_by_password(client: Client, person: User):
    robot = create_service_account(name="robot", owner=person, roles=["viewer"])
    _, text = create_token(user=robot)
    assert client.get("/api/v1/schemas/", headers=with_token(text)).status_code == 200
    for password in ("", "!", robot.password):
        client.post("/sign-in/", {"username": "robot", "password": password})
        assert client.get("/").status_code == 302


def test_tokens_of_other_users_are_neither_shown_nor_revoked(reader: Client, starter: User):
    token, _ = create_token(user=starter, name="hers")
    assert "hers" not in html_of(reader.get("/me/"))
    assert reader.post("/me/", {"do": "revoke", "token": token.digest[:32]}).status_code == 404
    assert PersonalToken.objects.filter(pk=token.pk).exists()


@pytest.mark.parametrize("named", ["", "%", "_" * 32, "a", "0" * 31, "0" * 33])
def test_revoking_a_token_refuses_guessed_ids(reader: Client, person: User, named: str):
    create_token(user=person)
    assert reader.post("/me/", {"do": "revoke", "token": named}).status_code == 404


def test_user_cannot_create_a_token_for_another_user(reader: Client, starter: User):
    data = {"do": "token", "token-label": "x", "token-scope": "write", "token-days": "1", "token-account": "eve"}
    reader.post("/me/", data)
    assert not PersonalToken.objects.filter(user=starter).exists()


def test_token_hash_is_refused_as_a_token(client: Client, person: User):
    token, _ = create_token(user=person)
    for guess in (token.digest, token.token_key, token.digest[:32]):
        assert client.get("/api/v1/schemas/", headers=with_token(guess)).status_code == 401


def test_token_loses_the_permissions_its_user_loses(client: Client):
    ada = ensure_user(name="ada", roles=["editor"])
    _, text = create_token(user=ada)
    ensure_user(name="ada", roles=["viewer"])
    body = {"name": "attic", "layer": "bizcore"}
    answer = client.post("/api/v1/schemas/", body, content_type="application/json", headers=with_token(text))
    assert answer.status_code == 403


def test_unknown_user_page_is_forbidden_like_an_existing_one(reader: Client, person: User):
    assert reader.get(reverse("user_page", args=["ada"])).status_code == 403
    assert reader.get(reverse("user_page", args=["nobody"])).status_code == 403
