"""Sign-in, sign-out, and a session that ends under somebody's hands."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.loader_factories import LoadRunFactory

pytestmark = pytest.mark.django_db


def test_sign_in_leads_where_one_wanted_to_go(client: Client, person: User):
    given = {"username": "ada", "password": "analytical engine", "next": "/datasets/"}
    answer = client.post("/sign-in/?next=/datasets/", given)
    assert (answer.status_code, answer.url) == (302, "/datasets/")


def test_sign_in_leads_nowhere_else(client: Client, person: User):
    given = {"username": "ada", "password": "analytical engine", "next": "https://example.org/"}
    assert client.post("/sign-in/", given).url == "/"


def test_a_wrong_password_is_said_and_the_name_is_kept(client: Client, person: User):
    answer = client.post("/sign-in/", {"username": "ada", "password": "wrong", "next": "/load-runs/"})
    assert answer.status_code == 200
    assert "Please enter a correct username and password" in answer.content.decode()
    assert 'value="ada"' in answer.content.decode()
    assert 'value="/load-runs/"' in answer.content.decode()
    assert "wrong" not in answer.content.decode()


def test_empty_fields_are_said_beside_them(client: Client):
    assert client.post("/sign-in/", {}).content.decode().count("This field is required.") == 2


def test_sign_out_takes_a_post(reader: Client):
    assert reader.get("/sign-out/").status_code == 405
    assert reader.post("/sign-out/").url == "/sign-in/"
    assert reader.get("/").status_code == 302


def test_a_part_asked_for_after_the_session_ended_leads_to_sign_in(client: Client):
    LoadRunFactory(run_id="busy", status="running")
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/load-runs/busy/"}
    answer = client.get("/load-runs/busy/live/", headers=headers, follow=True)
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"] == "/sign-in/?next=%2Fload-runs%2Fbusy%2F"


def test_forms_need_their_token(starter: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(starter)
    answer = client.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 403
    assert "The form was not accepted" in answer.content.decode()
