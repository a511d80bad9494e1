"""Sign-in, sign-out, and requests after the end of a session."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.elevata.web.html import html_of
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db


def test_sign_in_redirects_to_the_requested_page(client: Client, person: User):
    data = {"username": "ada", "password": "analytical engine", "next": "/datasets/"}
    answer = client.post("/sign-in/?next=/datasets/", data)
    assert (answer.status_code, answer.url) == (302, "/datasets/")


def test_sign_in_ignores_a_next_address_of_another_site(client: Client, person: User):
    data = {"username": "ada", "password": "analytical engine", "next": "https://example.org/"}
    assert client.post("/sign-in/", data).url == "/"


def test_wrong_password_shows_an_error_and_keeps_the_name(client: Client, person: User):
    answer = client.post("/sign-in/", {"username": "ada", "password": "wrong", "next": "/load-runs/"})
    assert answer.status_code == 200
    assert "Please enter a correct username and password" in html_of(answer)
    assert 'value="ada"' in html_of(answer)
    assert 'value="/load-runs/"' in html_of(answer)
    assert "wrong" not in html_of(answer)


def test_sign_in_page_without_accounts_explains_how_to_create_the_first(client: Client):
    assert "manage.py createsuperuser" in html_of(client.get("/sign-in/"))


def test_sign_in_page_with_accounts_refers_to_the_administrator(client: Client, person: User):
    page = html_of(client.get("/sign-in/"))
    assert "Contact your administrator." in page
    assert "createsuperuser" not in page


def test_empty_sign_in_fields_are_each_marked_as_required(client: Client):
    assert html_of(client.post("/sign-in/", {})).count("This field is required.") == 2


def test_sign_out_requires_post(reader: Client):
    assert reader.get("/sign-out/").status_code == 405
    assert reader.post("/sign-out/").url == "/sign-in/"
    assert reader.get("/").status_code == 302


def test_fragment_request_after_the_session_ended_redirects_to_sign_in(client: Client):
    LoadRunFactory(run_id="busy", status="running")
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/load-runs/busy/"}
    answer = client.get("/load-runs/busy/live/", headers=headers, follow=True)
    assert answer.status_code == 204
    assert answer.headers["HX-Redirect"] == "/sign-in/?next=%2Fload-runs%2Fbusy%2F"


def test_form_sent_after_the_session_ended_returns_to_its_page_after_sign_in(client: Client):
    answer = client.post("/start-load/", {"scope": "all"}, headers={"Referer": "http://testserver/load-runs/?q=a"})
    assert answer.url == "/sign-in/?next=/load-runs/%3Fq%3Da&sent=yes"
    html = html_of(client.get(answer.url))
    assert "Your session has ended; your changes were not saved." in html
    assert 'value="/load-runs/?q=a"' in html


@pytest.mark.parametrize("referer", ["", "https://example.org/load-runs/", "http://testserver.example.org/"])
def test_referer_of_another_site_is_not_used_as_the_return_page(client: Client, referer: str):
    answer = client.post("/start-load/", {"scope": "all"}, headers={"Referer": referer} if referer else {})
    assert answer.url == "/sign-in/?next=/&sent=yes"


def test_fragment_sent_after_the_session_ended_redirects_with_a_warning(client: Client):
    headers = {"HX-Request": "true", "HX-Current-URL": "http://testserver/load-runs/"}
    answer = client.post("/start-load/", {"scope": "all"}, headers=headers, follow=True)
    assert answer.headers["HX-Redirect"] == "/sign-in/?next=%2Fload-runs%2F&sent=yes"


def test_sign_in_after_a_page_request_shows_no_warning_about_unsaved_changes(client: Client):
    assert "were not saved" not in html_of(client.get("/load-runs/", follow=True))


def test_form_without_a_csrf_token_is_refused(starter: User):
    client = Client(enforce_csrf_checks=True)
    client.force_login(starter)
    answer = client.post("/start-load/", {"scope": "all"})
    assert answer.status_code == 403
    assert "The form was not accepted" in html_of(answer)
