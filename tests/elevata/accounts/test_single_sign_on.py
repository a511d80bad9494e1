"""Single sign-on with a local provider: created and linked users, roles, and refusals."""

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

from elevata.accounts.actors import acting_as
from elevata.accounts.models import Identity, RoleGrant
from elevata.accounts.openid_connect import ProviderBackend
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Role
from elevata.accounts.services import single_sign_on_users
from elevata.accounts.services.tokens import create_token
from elevata.accounts.services.users import (
    create_service_account,
    create_user,
    deactivate_user,
    ensure_user,
    grant_role,
    link_identity,
)
from elevata.accounts.single_sign_on_provider import Provider, provider_of_environment, provider_slot
from elevata.audit.models import ChangeLogEntry
from tests.elevata.accounts.identity_provider import CLIENT, SECRET, LocalProvider, new_key
from tests.elevata.web.html import html_of

pytestmark = pytest.mark.django_db
BACKEND = "elevata.accounts.openid_connect.ProviderBackend"


@pytest.fixture(scope="module")
def local_provider() -> Iterator[LocalProvider]:
    provider = LocalProvider().start()
    yield provider
    provider.stop()


@pytest.fixture
def provider(local_provider: LocalProvider, settings) -> LocalProvider:
    """Return the provider with valid answers, configured in the settings without a role map."""
    local_provider.claims = {
        "sub": "248289761001",
        "preferred_username": "grace",
        "email": "grace@example.org",
        "email_verified": True,
        "groups": ["staff"],
    }
    local_provider.bend, local_provider.sign, local_provider.userinfo_sub, local_provider.kid = (
        (lambda claims: claims),
        local_provider.signed,
        "",
        "k1",
    )
    settings.SINGLE_SIGN_ON = Provider(local_provider.issuer, CLIENT, SECRET, name="Example ID")
    settings.AUTHENTICATION_BACKENDS = [*settings.AUTHENTICATION_BACKENDS, BACKEND]
    return local_provider


def callback_address(client: Client, address: str = "/sign-in/sso/") -> str:
    """Return the address of the callback after a round trip to the provider."""
    redirect = client.get(address)
    assert redirect.status_code == 302
    location = requests.get(redirect.url, allow_redirects=False, timeout=10).headers["Location"]
    parts = urlsplit(location)
    return f"{parts.path}?{parts.query}"


def sign_on(client: Client, address: str = "/sign-in/sso/") -> HttpResponse:
    return client.get(callback_address(client, address))


def is_signed_in(client: Client) -> bool:
    return client.get("/me/").status_code == 200


def assert_refused(client: Client, answer: HttpResponse, message: str = "Single sign-on failed") -> None:
    assert answer.status_code == 403
    assert message in html_of(answer)
    assert not is_signed_in(client)


# --- sign-in -----------------------------------------------------------------------------------


def test_sign_on_creates_and_signs_in_a_new_user(client: Client, provider: LocalProvider):
    answer = sign_on(client)
    assert (answer.status_code, answer.url) == (302, "/")
    assert is_signed_in(client)
    grace = User.objects.get()
    assert (grace.username, grace.email, grace.has_usable_password()) == ("grace", "grace@example.org", False)
    assert Identity.objects.get().user == grace
    assert ChangeLogEntry.objects.filter(subject_kind="user", reason="single sign-on").exists()


def test_sign_on_returns_to_the_requested_page_of_this_site_only(client: Client, provider: LocalProvider):
    assert sign_on(client, "/sign-in/sso/?next=/datasets/").url == "/datasets/"
    assert sign_on(Client(), "/sign-in/sso/?next=https://example.org/").url == "/"
    assert sign_on(Client(), "/sign-in/sso/?next=//example.org/").url == "/"


def test_sign_on_request_sends_state_nonce_and_a_hashed_verifier(client: Client, provider: LocalProvider):
    query = parse_qs(urlsplit(client.get("/sign-in/sso/").url).query)
    assert {"state", "nonce", "code_challenge"} <= set(query)
    assert query["code_challenge_method"] == ["S256"]


def test_sign_on_replaces_the_session_key(client: Client, provider: LocalProvider):
    back = callback_address(client)
    before = client.session.session_key
    client.get(back)
    assert client.session.session_key != before


def test_user_is_identified_by_subject_not_by_name_or_email(client: Client, provider: LocalProvider):
    sign_on(client)
    provider.claims |= {"preferred_username": "grace.hopper", "email": "other@example.org"}
    sign_on(Client())
    assert User.objects.count() == 1


def test_sign_on_does_not_take_over_a_user_with_the_same_email(client: Client, provider: LocalProvider):
    User.objects.create_user("root", email="grace@example.org", is_superuser=True)
    sign_on(client)
    assert Identity.objects.get().user.username == "grace"


def test_unverified_email_is_not_stored(client: Client, provider: LocalProvider):
    provider.claims |= {"email_verified": False, "preferred_username": ""}
    sign_on(client)
    assert (User.objects.get().email, User.objects.get().username) == ("", "248289761001")


def test_email_of_the_id_token_is_not_stored_if_userinfo_verifies_another(client: Client, provider: LocalProvider):
    """Check a sign-in with another address in the ID token than the verified one of userinfo."""
    provider.bend = lambda claims: claims | {"email": "root@example.org"}
    sign_on(client)
    assert User.objects.get().email == "grace@example.org"


def test_sign_on_refuses_a_name_of_an_existing_user(client: Client, provider: LocalProvider):
    create_user(name="Grace", roles=["admin"])
    assert_refused(client, sign_on(client), "A user grace already exists")
    provider.claims["preferred_username"] = "ＧＲＡＣＥ"
    assert_refused(client, sign_on(client), "A user GRACE already exists")


def test_linked_identity_signs_in_as_the_existing_user(client: Client, provider: LocalProvider):
    grace = create_user(name="grace", roles=["editor"])
    link_identity(user=grace, issuer=provider.issuer, subject="248289761001")
    sign_on(client)
    assert is_signed_in(client)
    assert roles_of(grace) == {Role.EDITOR}


def test_sign_on_refuses_an_inactive_user(client: Client, provider: LocalProvider):
    sign_on(client)
    deactivate_user(user=User.objects.get())
    assert not is_signed_in(client)
    again = Client()
    assert_refused(again, sign_on(again), "inactive")


def test_service_account_cannot_be_linked_to_an_identity(provider: LocalProvider):
    robot = create_service_account(name="robot", owner=create_user(name="ada", roles=[]))
    with pytest.raises(Exception, match="signs in nowhere"):
        link_identity(user=robot, issuer=provider.issuer, subject="1")


# --- roles -------------------------------------------------------------------------------------


@pytest.fixture
def with_roles(provider: LocalProvider, settings) -> LocalProvider:
    configuration = provider_of_environment(
        {
            "ELEVATA_OIDC_ISSUER": provider.issuer,
            "ELEVATA_OIDC_CLIENT_ID": CLIENT,
            "ELEVATA_OIDC_CLIENT_SECRET": SECRET,
            "ELEVATA_OIDC_ROLES": "editor=modellers, approver=leads, editor=leads",
        }
    )
    settings.SINGLE_SIGN_ON = configuration
    return provider


def test_groups_give_roles(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["leads", "staff"]
    sign_on(client)
    assert roles_of(User.objects.get()) == {Role.EDITOR, Role.APPROVER}


def test_provider_groups_replace_roles_at_the_next_sign_in(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["leads"]
    sign_on(client)
    with_roles.claims["groups"] = ["modellers"]
    sign_on(Client())
    assert roles_of(User.objects.get()) == {Role.EDITOR}


def test_roles_for_one_place_stay_when_provider_groups_replace_roles(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["modellers"]
    sign_on(client)
    grant_role(user=User.objects.get(), role=Role.OPERATOR, environment="prod")
    with_roles.claims["groups"] = ["leads"]
    sign_on(Client())
    assert RoleGrant.objects.filter(user=User.objects.get(), role=Role.OPERATOR.value, environment="prod").exists()


@pytest.mark.parametrize("groups", [["staff"], [], None, "lead"])
def test_sign_on_refuses_a_user_without_a_role_from_their_groups(client: Client, with_roles: LocalProvider, groups):
    with_roles.claims["groups"] = groups
    assert_refused(client, sign_on(client), "None of your groups has a role here")
    assert not User.objects.exists()


def test_user_who_lost_all_groups_keeps_no_role_for_tokens(client: Client, with_roles: LocalProvider):
    with_roles.claims["groups"] = ["modellers"]
    sign_on(client)
    grace = User.objects.get()
    with acting_as(grace):
        _, token = create_token(user=grace)
    with_roles.claims["groups"] = []
    again = Client()
    assert_refused(again, sign_on(again), "None of your groups has a role here")
    assert roles_of(grace) == frozenset()
    answer = client.get("/api/v1/systems/", headers={"Authorization": f"Token {token}"})
    assert answer.status_code == 403


def test_sign_on_does_not_reactivate_a_user_deactivated_meanwhile(
    client: Client, with_roles: LocalProvider, monkeypatch: pytest.MonkeyPatch
):
    with_roles.claims["groups"] = ["leads"]
    sign_on(client)
    with_roles.claims["groups"] = ["modellers"]

    def deactivate_meanwhile(user: User) -> frozenset[Role]:
        monkeypatch.undo()
        User.objects.update(is_active=False)
        return roles_of(user)

    monkeypatch.setattr(single_sign_on_users, "roles_of", deactivate_meanwhile)
    sign_on(Client())
    assert not User.objects.get().is_active


def test_sign_on_without_a_role_map_keeps_local_roles(client: Client, provider: LocalProvider):
    sign_on(client)
    ensure_user(name="grace", roles=["operator"])
    sign_on(Client())
    assert roles_of(User.objects.get()) == {Role.OPERATOR}


# --- invalid answers -----------------------------------------------------------------------------


def expired(claims: dict) -> dict:
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
        pytest.param(expired, id="expired"),
        pytest.param(lambda claims: {k: v for k, v in claims.items() if k != "exp"}, id="for ever"),
        pytest.param(lambda claims: claims | {"iat": int(time.time()) + 3600}, id="from tomorrow"),
        pytest.param(lambda claims: {k: v for k, v in claims.items() if k != "sub"}, id="of nobody"),
    ],
)
def test_id_token_with_wrong_or_missing_claims_is_refused(client: Client, provider: LocalProvider, bent):
    provider.bend = bent
    assert_refused(client, sign_on(client))


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
    assert_refused(client, sign_on(client))


@pytest.mark.parametrize(
    "claims",
    [
        pytest.param({"sub": "9" * 256}, id="subject beyond its column"),
        pytest.param({"email": f"{'a' * 300}@example.org"}, id="address beyond its column"),
        pytest.param({"preferred_username": "---"}, id="no name"),
    ],
)
def test_claims_too_long_to_be_stored_are_refused_or_omitted(client: Client, provider: LocalProvider, claims):
    provider.claims |= claims
    assert sign_on(client).status_code in (302, 403)
    assert all(len(user.email) <= 254 and user.username for user in User.objects.all())
    assert all(len(identity.subject) <= 255 for identity in Identity.objects.all())


def test_userinfo_of_another_subject_is_refused(client: Client, provider: LocalProvider):
    provider.userinfo_sub = "another"
    assert_refused(client, sign_on(client))


def test_callback_without_a_request_in_this_session_is_refused(client: Client, provider: LocalProvider):
    back = callback_address(Client())
    assert_refused(client, client.get(back))


def test_callback_is_accepted_only_once(client: Client, provider: LocalProvider):
    back = callback_address(client)
    client.get(back)
    client.post("/sign-out/")
    assert_refused(client, client.get(back))


def test_sign_in_form_ignores_a_code_in_its_query(client: Client, provider: LocalProvider):
    data = {"username": "grace", "password": "x"}
    client.post(f"/sign-in/?{urlsplit(callback_address(Client())).query}", data)
    assert not is_signed_in(client)


def test_denial_by_the_provider_is_shown_as_a_failed_sign_on(client: Client, provider: LocalProvider):
    callback_address(client)
    state = provider.asked[-1]["state"]
    assert_refused(client, client.get(f"/sign-in/sso/callback/?error=access_denied&state={state}"))


def test_failed_callback_keeps_the_current_session(operator: Client, provider: LocalProvider):
    assert operator.get("/sign-in/sso/callback/?error=x").status_code == 403
    assert is_signed_in(operator)


def test_failed_sign_on_causes_no_lockout(client: Client, provider: LocalProvider, settings):
    provider.bend = expired
    for _ in range(settings.AXES_FAILURE_LIMIT + 1):
        sign_on(client)
    provider.bend = lambda claims: claims
    assert sign_on(client).status_code == 302


def test_unreachable_provider_returns_503_with_a_message(client: Client, provider: LocalProvider, settings):
    settings.SINGLE_SIGN_ON = replace(settings.SINGLE_SIGN_ON, issuer="http://127.0.0.1:9")
    answer = client.get("/sign-in/sso/")
    assert answer.status_code == 503
    assert "The single sign-on provider does not respond." in html_of(answer)


def test_provider_that_did_not_answer_is_not_asked_again_at_once(client: Client, provider, settings, monkeypatch):
    requested = []

    def silent(address: str, **_):
        requested.append(address)
        raise requests.ConnectTimeout

    settings.SINGLE_SIGN_ON = replace(settings.SINGLE_SIGN_ON, issuer="https://silent.example.org")
    monkeypatch.setattr("elevata.accounts.single_sign_on_provider.requests.get", silent)
    assert [client.get("/sign-in/sso/").status_code for _ in range(3)] == [503, 503, 503]
    assert len(requested) == 1


def test_requests_that_wait_for_the_provider_leave_threads_to_others(client: Client, provider):
    """Check the limit with callbacks, which make the product call the provider even for an invalid code."""
    back = callback_address(client)
    with provider_slot(), provider_slot():
        assert_refused(client, client.get(back))
    assert sign_on(client).status_code == 302


@pytest.mark.parametrize("answer", [[], None, "x", {"keys": [1]}, {"id_token": ["x"]}])
def test_answer_of_another_structure_is_shown_as_a_failed_sign_on(client: Client, provider, monkeypatch, answer):
    back = callback_address(client)
    monkeypatch.setattr(ProviderBackend, "get_token", lambda self, payload: answer)
    assert_refused(client, client.get(back))


def test_session_of_an_unfinished_sign_on_ends_soon(client: Client, provider: LocalProvider, settings):
    back = callback_address(client)
    assert client.session.get_expiry_age() <= 1800
    client.get(back)
    assert is_signed_in(client)
    assert client.session.get_expiry_age() == settings.SESSION_COOKIE_AGE


def test_provider_with_another_issuer_name_is_refused(client: Client, provider: LocalProvider, settings):
    other = provider.issuer.replace("127.0.0.1", "localhost")
    settings.SINGLE_SIGN_ON = replace(settings.SINGLE_SIGN_ON, issuer=other)
    assert client.get("/sign-in/sso/").status_code == 503


def test_no_secret_is_logged(client: Client, provider: LocalProvider, caplog):
    caplog.set_level(logging.DEBUG)
    provider.bend = expired
    sign_on(client)
    assert SECRET not in caplog.text
    assert SECRET not in repr(Provider("https://id.example.org", CLIENT, SECRET))


# --- settings ----------------------------------------------------------------------------------


def test_sign_in_page_shows_the_single_sign_on_link(client: Client, provider: LocalProvider):
    text = html_of(client.get("/sign-in/?next=/datasets/"))
    assert "Sign in with Example ID" in text
    assert 'href="/sign-in/sso/?next=%2Fdatasets%2F"' in text
    assert 'name="password"' in text


def test_password_sign_in_can_be_disabled(client: Client, person: User, provider: LocalProvider, settings):
    settings.PASSWORD_SIGN_IN = False
    assert 'name="password"' not in html_of(client.get("/sign-in/"))
    data = {"username": "ada", "password": "analytical engine"}
    assert client.post("/sign-in/", data).status_code == 403
    assert not is_signed_in(client)


@pytest.mark.parametrize("address", ["/sign-in/sso/", "/sign-in/sso/callback/?code=a&state=b"])
def test_single_sign_on_pages_return_404_without_a_provider(client: Client, address: str):
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
def test_invalid_provider_configuration_is_refused(environ: dict[str, str]):
    with pytest.raises(ImproperlyConfigured):
        provider_of_environment(environ)


def test_client_secret_is_read_from_a_file(tmp_path):
    file = tmp_path / "secret"
    file.write_text("hidden\n")
    configuration = provider_of_environment(ISSUER | {"ELEVATA_OIDC_CLIENT_SECRET_FILE": str(file)})
    assert configuration.client_secret == "hidden"


def test_empty_environment_configures_no_provider():
    assert provider_of_environment({}) is None
