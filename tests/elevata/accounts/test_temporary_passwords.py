"""Temporary passwords, which their owner must replace before any other action."""

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from elevata.accounts.actors import acting_as
from elevata.accounts.models import PersonalToken, TemporaryPassword
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import set_password
from tests.elevata.web.html import html_of
from tests.elevata.web.pages import words

pytestmark = pytest.mark.django_db
GIVEN, OWN = "a password of the admin", "a password of her own"


@pytest.fixture
def ada(person: User, starter: User) -> User:
    """Return Ada after Eve has set her password."""
    with acting_as(starter):
        set_password(user=person, password=GIVEN)
    return person


@pytest.fixture
def signed_in_client(ada: User) -> Client:
    client = Client()
    answer = client.post("/sign-in/", {"username": "ada", "password": GIVEN})
    assert answer.status_code == 302
    return client


@pytest.mark.parametrize("page", ["/", "/me/", "/reports/", "/users/", "/notices/"])
def test_page_with_a_temporary_password_redirects_to_the_password_form(signed_in_client: Client, page: str):
    assert signed_in_client.get(page).url == "/me/password/"


def test_fragment_with_a_temporary_password_redirects_to_the_password_form(signed_in_client: Client):
    answer = signed_in_client.get("/inbox/", headers={"HX-Request": "true"})
    assert (answer.status_code, answer.headers["HX-Redirect"]) == (204, "/me/password/")


def test_form_sent_with_a_temporary_password_changes_nothing(signed_in_client: Client):
    data = {"do": "token", "token-label": "x", "token-scope": "write", "token-days": "1"}
    assert signed_in_client.post("/me/", data).url == "/me/password/"
    assert not PersonalToken.objects.exists()


def test_api_refuses_a_session_with_a_temporary_password(signed_in_client: Client):
    answer = signed_in_client.get("/api/v1/schemas/")
    assert (answer.status_code, answer.json()["code"]) == (403, "password_temporary")


def test_token_works_despite_a_temporary_password(ada: User):
    _, text = create_token(user=ada)
    assert Client().get("/api/v1/schemas/", headers={"Authorization": f"Token {text}"}).status_code == 200


def test_temporary_password_must_be_replaced_by_a_different_one(signed_in_client: Client, ada: User):
    assert "eve set the password of ada" in words(html_of(signed_in_client.get("/me/password/")))
    data = {"own-old": GIVEN, "own-password": OWN}
    assert signed_in_client.post("/me/password/", data | {"own-old": "wrong"}).status_code == 422
    assert "choose another" in words(html_of(signed_in_client.post("/me/password/", data | {"own-password": GIVEN})))
    assert signed_in_client.post("/me/password/", data).url == "/"
    assert not TemporaryPassword.objects.exists()
    assert signed_in_client.get("/me/").status_code == 200


def test_user_with_a_temporary_password_can_sign_out(signed_in_client: Client):
    assert signed_in_client.post("/sign-out/").url == "/sign-in/"


def test_password_form_redirects_a_user_with_their_own_password(reader: Client):
    assert reader.get("/me/password/").url == "/me/"


def test_single_sign_on_session_needs_no_password_replacement(ada: User, settings):
    settings.AUTHENTICATION_BACKENDS = [
        *settings.AUTHENTICATION_BACKENDS,
        "elevata.accounts.openid_connect.ProviderBackend",
    ]
    client = Client()
    client.force_login(ada, backend="elevata.accounts.openid_connect.ProviderBackend")
    assert client.get("/me/").status_code == 200


def test_password_reset_by_mail_does_not_exist():
    """Check that no reset by e-mail exists, because users can set their e-mail address themselves."""
    names = {name for name in reverse.__globals__["get_resolver"](None).reverse_dict if isinstance(name, str)}
    assert not {name for name in names if "reset" in name}
