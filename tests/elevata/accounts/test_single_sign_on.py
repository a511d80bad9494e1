"""Single sign-on, against a provider on this machine: who comes in, as whom, and who does not."""

import logging
import time
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import jwt
import pytest
import requests
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpResponse
from django.test import Client

from elevata.accounts.models import Identity
from elevata.accounts.permissions import acting_as, roles_of
from elevata.accounts.roles import Role
from elevata.accounts.services import users
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import (
    create_service_account,
    create_user,
    deactivate_user,
    ensure_user,
    link_identity,
)
from elevata.accounts.single_sign_on_provider import Provider, provider_of_environment
from elevata.audit.models import ChangeLogEntry
from tests.elevata.accounts.identity_provider import CLIENT, SECRET, LocalProvider, new_key
from tests.elevata.web.html import html_of

pytestmark = pytest.mark.django_db
BACKEND = "elevata.accounts.sign_in.ProviderBackend"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalProvider]:
    provider = LocalProvider().start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(running: LocalProvider, settings) -> LocalProvider:
    """A provider as it should be, and an installation that knows it and leaves roles to itself."""
    running.claims = {
        "sub": "248289761001",
        "preferred_username": "grace",
        "email": "grace@example.org",
        "email_verified": True,
        "groups": ["staff"],
    }
    running.bend, running.sign, running.userinfo_sub, running.kid = (lambda claims: claims), running.signed, "", "k1"
    settings.SINGLE_SIGN_ON = Provider(running.issuer, CLIENT, SECRET, name="Example ID")
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, BACKEND]
    return running


def go(client: Client, address: str = "/sign-in/sso/") -> str:
    """The way to the provider and back; where the browser is sent to."""
    sent = client.get(address)
    assert sent.status_code == 302
    back = requests.get(sent.url, allow_redirects=False, timeout=10).headers["Location"]
    parts = urlsplit(back)
    return f"{parts.path}?{parts.query}"


def sign_on(client: Client, address: str = "/sign-in/sso/") -> HttpResponse:
    return client.get(go(client, address))


def is_signed_in(client: Client) -> bool:
    return client.get("/me/").status_code == 200


def refused(client: Client, answer: HttpResponse, said: str = "Single sign-on failed") -> None:
    assert answer.status_code == 403
    assert said in html_of(answer)
    assert not is_signed_in(client)


# --- coming in ---------------------------------------------------------------------------------


def test_somebody_new_is_made_and_signed_in(client: Client, provider: LocalProvider):
    answer = sign_on(client)
    assert (answer.status_code, answer.url) == (302, "/")
    assert is_signed_in(client)
    grace = User.objects.get()
    assert (grace.username, grace.email, grace.has_usable_password()) == ("grace", "grace@example.org", False)
    assert Identity.objects.get().user == grace
    assert ChangeLogEntry.objects.filter(subject_kind="user", reason="single sign-on").exists()


def test_the_way_leads_back_to_where_one_wanted_to_go_and_nowhere_else(client: Client, provider: LocalProvider):
    assert sign_on(client, "/sign-in/sso/?next=/datasets/").url == "/datasets/"
    assert sign_on(Client(), "/sign-in/sso/?next=https://example.org/").url == "/"
    assert sign_on(Client(), "/sign-in/sso/?next=//example.org/").url == "/"


def test_the_request_carries_state_nonce_and_a_hashed_verifier(client: Client, provider: LocalProvider):
    asked = parse_qs(urlsplit(client.get("/sign-in/sso/").url).query)
    assert {"state", "nonce", "code_challenge"} <= set(asked)
    assert asked["code_challenge_method"] == ["S256"]


def test_the_session_is_another_one_after_it(client: Client, provider: LocalProvider):
    back = go(client)
    before = client.session.session_key
    client.get(back)
    assert client.session.session_key != before


def test_people_are_known_by_subject_not_by_name_or_address(client: Client, provider: LocalProvider):
    sign_on(client)
    provider.claims |= {"preferred_username": "grace.hopper", "email": "other@example.org"}
    sign_on(Client())
    assert User.objects.count() == 1


def test_who_has_the_same_address_is_somebody_else(client: Client, provider: LocalProvider):
    User.objects.create_user("root", email="grace@example.org", is_superuser=True)
    sign_on(client)
    assert Identity.objects.get().user.username == "grace"


def test_an_address_that_was_not_verified_is_not_taken(client: Client, provider: LocalProvider):
    provider.claims |= {"email_verified": False, "preferred_username": ""}
    sign_on(client)
    assert (User.objects.get().email, User.objects.get().username) == ("", "248289761001")


def test_the_provider_must_have_verified_the_address_that_is_taken(client: Client, provider: LocalProvider):
    """The ID token has another address, and userinfo verifies its own only."""
    provider.bend = lambda claims: claims | {"email": "root@example.org"}
    sign_on(client)
    assert User.objects.get().email == "grace@example.org"


def test_a_name_that_somebody_has_is_not_taken_over(client: Client, provider: LocalProvider):
    create_user(name="Grace", roles=["admin"])
    refused(client, sign_on(client), "A user grace already exists")
    provider.claims["preferred_username"] = "ＧＲＡＣＥ"
    refused(client, sign_on(client), "A user GRACE already exists")


def test_an_administrator_links_the_two(client: Client, provider: LocalProvider):
    grace = create_user(name="grace", roles=["editor"])
    link_identity(user=grace, issuer=provider.issuer, subject="248289761001")
    sign_on(client)
    assert is_signed_in(client)
    assert roles_of(grace) == {Role.EDITOR}


def test_who_is_out_of_use_stays_out(client: Client, provider: LocalProvider):
    sign_on(client)
    deactivate_user(user=User.objects.get())
    assert not is_signed_in(client)
    again = Client()
    refused(again, sign_on(again), "inactive")


def test_a_service_account_is_nobody_at_the_provider(provider: LocalProvider):
    robot = create_service_account(name="robot", owner=create_user(name="ada", roles=[]))
    with pytest.raises(Exception, match="signs in nowhere"):
        link_identity(user=robot, issuer=provider.issuer, subject="1")


# --- roles -------------------------------------------------------------------------------------


@pytest.fixture
def with_roles(provider: LocalProvider, settings) -> LocalProvider:
    told = provider_of_environment(
        {
            "ELEVATA_OIDC_ISSUER": provider.issuer,
            "ELEVATA_OIDC_CLIENT_ID": CLIENT,
            "ELEVATA_OIDC_CLIENT_SECRET": SECRET,
            "ELEVATA_OIDC_ROLES": "editor=modellers, approver=leads, editor=leads",
        }
    )
    settings.SINGLE_SIGN_ON = told
    return provider


def test_groups_give_roles(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["leads", "staff"]
    sign_on(client)
    assert roles_of(User.objects.get()) == {Role.EDITOR, Role.APPROVER}


def test_and_take_them_at_the_next_sign_in(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["leads"]
    sign_on(client)
    with_roles.claims["groups"] = ["modellers"]
    sign_on(Client())
    assert roles_of(User.objects.get()) == {Role.EDITOR}


@pytest.mark.parametrize("groups", [["staff"], [], None, "lead"])
def test_who_has_no_role_there_does_not_come_in(client: Client, with_roles: LocalProvider, groups):
    with_roles.claims["groups"] = groups
    refused(client, sign_on(client), "None of your groups has a role here")
    assert not User.objects.exists()


def test_a_user_whose_groups_were_taken_away_keeps_no_role_for_tokens(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["modellers"]
    sign_on(client)
    grace = User.objects.get()
    with acting_as(grace):
        _, token = create_token(user=grace)
    with_roles.claims["groups"] = []
    again = Client()
    refused(again, sign_on(again), "None of your groups has a role here")
    assert roles_of(grace) == frozenset()
    answer = client.get("/api/v1/systems/", headers={"Authorization": f"Token {token}"})
    assert answer.status_code == 403


def test_a_sign_in_does_not_activate_a_user_who_is_deactivated_meanwhile(
    client: Client, with_roles: LocalProvider, monkeypatch: pytest.MonkeyPatch
):
    with_roles.claims["groups"] = ["leads"]
    sign_on(client)
    with_roles.claims["groups"] = ["modellers"]

    def deactivated_meanwhile(user: User) -> frozenset[Role]:
        monkeypatch.undo()
        User.objects.update(is_active=False)
        return roles_of(user)

    monkeypatch.setattr(users, "roles_of", deactivated_meanwhile)
    sign_on(Client())
    assert not User.objects.get().is_active


def test_without_a_map_roles_are_given_here(client: Client, provider: LocalProvider):
    sign_on(client)
    ensure_user(name="grace", roles=["operator"])
    sign_on(Client())
    assert roles_of(User.objects.get()) == {Role.OPERATOR}


# --- what is not believed ------------------------------------------------------------------------


def old(claims: dict) -> dict:
    return claims | {"iat": int(time.time()) - 4000, "exp": int(time.time()) - 3600}


@pytest.mark.parametrize(
    "bent",
    [
        pytest.param(lambda claims: claims | {"nonce": "another"}, id="another nonce"),
        pytest.param(lambda claims: {k: v for k, v in claims.items() if k != "nonce"}, id="no nonce"),
        pytest.param(lambda claims: claims | {"aud": "another-client"}, id="for another client"),
        pytest.param(lambda claims: claims | {"aud": [CLIENT, "another"]}, id="for several, without saying for whom"),
        pytest.param(lambda claims: claims | {"azp": "another"}, id="asked for by another"),
        pytest.param(lambda claims: claims | {"iss": "https://example.org"}, id="of another issuer"),
        pytest.param(old, id="expired"),
        pytest.param(lambda claims: {k: v for k, v in claims.items() if k != "exp"}, id="for ever"),
        pytest.param(lambda claims: claims | {"iat": int(time.time()) + 3600}, id="from tomorrow"),
        pytest.param(lambda claims: {k: v for k, v in claims.items() if k != "sub"}, id="of nobody"),
    ],
)
def test_an_id_token_that_was_not_made_for_this_is_refused(client: Client, provider: LocalProvider, bent):
    provider.bend = bent
    refused(client, sign_on(client))


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param(lambda claims: jwt.encode(claims, "", algorithm="none"), id="unsigned"),
        pytest.param(
            lambda claims: jwt.encode(claims, new_key(), algorithm="RS256", headers={"kid": "k1"}), id="forged"
        ),
        pytest.param(
            lambda claims: jwt.encode(claims, new_key(), algorithm="RS256", headers={"kid": "k9"}), id="unknown key"
        ),
        pytest.param(
            lambda claims: jwt.encode(claims, SECRET * 3, algorithm="HS256", headers={"kid": "k1"}), id="client secret"
        ),
        pytest.param(lambda claims: "not.a.token", id="no token"),
        pytest.param(lambda claims: None, id="nothing"),
    ],
)
def test_an_id_token_that_the_provider_did_not_sign_is_refused(client: Client, provider: LocalProvider, sign):
    provider.sign = sign
    refused(client, sign_on(client))


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"sub": "9" * 256}, id="subject beyond its column"),
        pytest.param({"email": f"{'a' * 300}@example.org"}, id="address beyond its column"),
        pytest.param({"preferred_username": "---"}, id="no name"),
    ],
)
def test_claims_that_cannot_be_stored_are_refused_or_left_out(client: Client, provider: LocalProvider, claims):
    provider.claims |= claims
    assert sign_on(client).status_code in (302, 403)
    assert all(len(user.email) <= 254 and user.username for user in User.objects.all())
    assert all(len(identity.subject) <= 255 for identity in Identity.objects.all())


def test_what_is_told_of_somebody_else_is_refused(client: Client, provider: LocalProvider):
    provider.userinfo_sub = "another"
    refused(client, sign_on(client))


def test_an_answer_that_nobody_asked_for_is_refused(client: Client, provider: LocalProvider):
    back = go(Client())
    refused(client, client.get(back))


def test_an_answer_counts_once(client: Client, provider: LocalProvider):
    back = go(client)
    client.get(back)
    client.post("/sign-out/")
    refused(client, client.get(back))


def test_a_code_on_the_sign_in_form_is_not_looked_at(client: Client, provider: LocalProvider):
    given = {"username": "grace", "password": "x"}
    client.post(f"/sign-in/?{urlsplit(go(Client())).query}", given)
    assert not is_signed_in(client)


def test_a_no_at_the_provider_is_said(client: Client, provider: LocalProvider):
    go(client)
    state = provider.asked[-1]["state"]
    refused(client, client.get(f"/sign-in/sso/callback/?error=access_denied&state={state}"))


def test_it_does_not_sign_anybody_out(operator: Client, provider: LocalProvider):
    assert operator.get("/sign-in/sso/callback/?error=x").status_code == 403
    assert is_signed_in(operator)


def test_failing_there_locks_nobody_out(client: Client, provider: LocalProvider, settings):
    provider.bend = old
    for _ in range(settings.AXES_FAILURE_LIMIT + 1):
        sign_on(client)
    provider.bend = lambda claims: claims
    assert sign_on(client).status_code == 302


def test_a_provider_that_is_away_is_said(client: Client, provider: LocalProvider, settings):
    settings.SINGLE_SIGN_ON = replace(settings.SINGLE_SIGN_ON, issuer="http://127.0.0.1:9")
    answer = client.get("/sign-in/sso/")
    assert answer.status_code == 503
    assert "The single sign-on provider does not respond." in html_of(answer)


def test_a_provider_that_calls_itself_otherwise_is_not_believed(client: Client, provider: LocalProvider, settings):
    other = provider.issuer.replace("127.0.0.1", "localhost")
    settings.SINGLE_SIGN_ON = replace(settings.SINGLE_SIGN_ON, issuer=other)
    assert client.get("/sign-in/sso/").status_code == 503


def test_no_secret_is_logged(client: Client, provider: LocalProvider, caplog):
    caplog.set_level(logging.DEBUG)
    provider.bend = old
    sign_on(client)
    assert SECRET not in caplog.text
    assert SECRET not in repr(Provider("https://id.example.org", CLIENT, SECRET))


# --- settings ----------------------------------------------------------------------------------


def test_the_sign_in_page_shows_the_way(client: Client, provider: LocalProvider):
    text = html_of(client.get("/sign-in/?next=/datasets/"))
    assert "Sign in with Example ID" in text
    assert 'href="/sign-in/sso/?next=%2Fdatasets%2F"' in text
    assert 'name="password"' in text


def test_passwords_may_be_switched_off(client: Client, person: User, provider: LocalProvider, settings):
    settings.PASSWORD_SIGN_IN = False
    assert 'name="password"' not in html_of(client.get("/sign-in/"))
    given = {"username": "ada", "password": "analytical engine"}
    assert client.post("/sign-in/", given).status_code == 403
    assert not is_signed_in(client)


@pytest.mark.parametrize("address", ["/sign-in/sso/", "/sign-in/sso/callback/?code=a&state=b"])
def test_without_a_provider_there_is_no_such_way(client: Client, address: str):
    assert client.get(address).status_code == 404
    assert "sign-in/sso" not in html_of(client.get("/sign-in/"))


ISSUER = {"ELEVATA_OIDC_ISSUER": "https://id.example.org", "ELEVATA_OIDC_CLIENT_ID": "e"}


@pytest.mark.parametrize(
    "environ",
    [
        {"ELEVATA_OIDC_ISSUER": "https://id.example.org"},
        ISSUER | {"ELEVATA_OIDC_ISSUER": "http://id.example.org"},
        ISSUER | {"ELEVATA_OIDC_ISSUER": "id.example.org"},
        ISSUER | {"ELEVATA_OIDC_ROLES": "king=throne"},
        ISSUER | {"ELEVATA_OIDC_ROLES": "editor"},
        ISSUER | {"ELEVATA_OIDC_CLIENT_SECRET_FILE": "/nowhere/at/all"},
    ],
)
def test_half_a_configuration_is_refused_at_start(environ: dict[str, str]):
    with pytest.raises(ImproperlyConfigured):
        provider_of_environment(environ)


def test_a_secret_may_stand_in_a_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("hidden\n")
    told = provider_of_environment(ISSUER | {"ELEVATA_OIDC_CLIENT_SECRET_FILE": str(file)})
    assert told.client_secret == "hidden"


def test_nothing_set_is_no_provider():
    assert provider_of_environment({}) is None
