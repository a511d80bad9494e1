"""Actor of a request: the signed-in user, the user of a token, or the system; and access to the API."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import Client, RequestFactory
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.response import Response
from rest_framework.views import APIView

from elevata.accounts.actors import SYSTEM, Actor, current_actor
from elevata.accounts.models import PersonalToken
from elevata.accounts.services.tokens import create_token, revoke_tokens
from elevata.web.middleware import ActorMiddleware

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/systems/"


class ActorView(APIView):
    """View that records the current actor."""

    permission_classes = ()

    def get(self, request: HttpRequest) -> Response:
        ActorView.actor = current_actor()
        return Response({})


def actor_in_the_api(user: User | None = None, token: str = "") -> Actor:
    headers = {"Authorization": f"Token {token}"} if token else {}
    request = RequestFactory().get("/", headers=headers)
    request.request_id = "r-1"
    request.user = user
    ActorMiddleware(ActorView.as_view())(request)
    return ActorView.actor


def test_session_request_acts_as_the_signed_in_user(person: User) -> None:
    actor = actor_in_the_api(person)
    assert (actor.name, actor.kind, actor.user, actor.request_id) == ("ada", "person", person, "r-1")


def test_token_request_acts_as_the_user_of_the_token(person: User) -> None:
    actor = actor_in_the_api(token=create_token(user=person)[1])
    assert (actor.name, actor.kind, actor.user) == ("ada", "token", person)


def test_token_takes_precedence_over_a_session_cookie(person: User, starter: User) -> None:
    assert actor_in_the_api(starter, create_token(user=person)[1]).name == "ada"


def test_page_request_acts_as_the_signed_in_user(person: User) -> None:
    def page(request: HttpRequest) -> HttpResponse:
        return HttpResponse(current_actor().name)

    request = RequestFactory().get("/")
    request.request_id, request.user = "r-1", person
    assert ActorMiddleware(page)(request).content == b"ada"


def test_actor_is_reset_to_the_system_after_a_request(person: User) -> None:
    actor_in_the_api(person)
    assert current_actor() == SYSTEM


def test_request_without_writes_does_not_query_its_actor(client: Client) -> None:
    with CaptureQueriesContext(connection) as captured:
        client.get("/healthz")
    assert len(captured) == 0


# --- the API by token ----------------------------------------------------------------------------


def get(token: str, client: Client, scheme: str = "Token") -> HttpResponse:
    return client.get(ADDRESS, headers={"Authorization": f"{scheme} {token}"})


def test_a_token_opens_the_api(person: User, client: Client) -> None:
    assert get(create_token(user=person)[1], client).status_code == 200


def test_token_scheme_is_case_insensitive(person: User, client: Client) -> None:
    assert get(create_token(user=person)[1], client, "token").status_code == 200


@pytest.mark.parametrize("token", ["", "elv_wrong", "\xff\xfe", "a b c"])
def test_a_wrong_token_is_answered_with_401_and_a_code(client: Client, token: str) -> None:
    answer = get(token, client)
    assert (answer.status_code, answer.json()["code"]) == (401, "token_invalid")
    assert answer.headers["WWW-Authenticate"] == "Token"


def test_expired_token_returns_the_code_token_expired(person: User, client: Client) -> None:
    token, text = create_token(user=person)
    PersonalToken.objects.filter(pk=token.pk).update(expiry=timezone.now() - timedelta(days=1))
    assert get(text, client).json()["code"] == "token_expired"


def test_api_refuses_a_revoked_token(person: User, client: Client) -> None:
    _, text = create_token(user=person)
    revoke_tokens(user=person)
    assert get(text, client).status_code == 401


def test_invalid_token_is_refused_despite_a_valid_session(reader: Client) -> None:
    assert get("elv_wrong", reader).status_code == 401


def test_session_without_a_token_opens_the_api(reader: Client) -> None:
    assert reader.get(ADDRESS).status_code == 200


def test_foreign_authorization_scheme_is_ignored(client: Client) -> None:
    assert get("abc", client, "Bearer").json()["code"] == "not_authenticated"


def test_openapi_schema_names_the_token_header(reader: Client) -> None:
    schemes = reader.get("/api/v1/schema/", {"format": "json"}).json()["components"]["securitySchemes"]
    assert schemes["personalToken"]["name"] == "Authorization"
