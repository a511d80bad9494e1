"""Sign-in, sign-out, and a session that ends under somebody's hands."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.elevata.web.html import html_of
from tests.loader.factories import LoadRunFactory

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
    assert "Please enter a correct username and password" in html_of(answer)
    assert 'value="ada"' in html_of(answer)
    assert 'value="/load-runs/"' in html_of(answer)
    assert "wrong" not in html_of(answer)


def test_before_anybody_is_there_it_says_how_the_first_account_is_made(client: Client):
    assert "manage.py createsuperuser" in html_of(client.get("/sign-in/"))


def test_once_somebody_is_there_others_are_told_whom_to_ask(client: Client, person: User):
    page = html_of(client.get("/sign-in/"))
    assert "Contact your administrator." in page
    assert "createsuperuser" not in page


def test_empty_fields_are_said_beside_them(client: Client):
    assert html_of(client.post("/sign-in/", {})).count("This field is required.") == 2


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


def test_who_sent_a_form_after_the_session_ended_comes_back_to_the_page_of_the_form(client: Client):
    answer = client.post("/start-load/", {"scope": "all"}, headers={"Referer": "http://testserver/load-runs/?q=a"})
    assert answer.url == "/sign-in/?next=/load-runs/%3Fq%3Da&sent=yes"
    said = html_of(client.get(answer.url))
    assert "Your session has ended; your changes were not saved." in said
    assert 'value="/load-runs/?q=a"' in said


@pytest.mark.parametrize("referer", ["", "https://example.org/load-runs/", "http://testserver.example.org/"])
def test_a_page_of_another_site_is_no_place_to_come_back_to(client: Client, referer: str):
    answer = client.post("/start-load/", {"scope": "all"}, headers={"Referer": referer} if referer else {})
    assert answer.url == "/sign-in/?next=/&sent=yes"


def test_a_part_sent_after_the_session_ended_says_so_too(client: Client):
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/load-runs/"}
    answer = client.post("/start-load/", {"scope": "all"}, headers=headers, follow=True)
    assert answer.headers["HX-Redirect"] == "/sign-in/?next=%2Fload-runs%2F&sent=yes"


def test_who_only_looked_is_not_told_of_something_sent(client: Client):
    assert "were not saved" not in html_of(client.get("/load-runs/", follow=True))


def test_forms_need_their_token(starter: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(starter)
    answer = client.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 403
    assert "The form was not accepted" in html_of(answer)
