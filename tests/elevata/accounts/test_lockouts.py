"""Signing in too often with a wrong password: by name and address, for a while, and how it opens again."""

import re
from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone

from elevata.accounts.known_browsers import COOKIE
from elevata.accounts.lockouts import address_of, locks, unlock
from elevata.audit.models import ChangeLogEntry
from tests.elevata.web.html import html_of

pytestmark = pytest.mark.django_db
RIGHT, LIMIT = "analytical engine", 5


def sign_in(password: str = "wrong", *, name: str = "ada", address: str = "10.0.0.1") -> HttpResponse:
    return Client().post("/sign-in/", {"username": name, "password": password}, REMOTE_ADDR=address)


@pytest.fixture
def locked(person: User) -> User:
    for _ in range(LIMIT):
        last = sign_in()
    assert last.status_code == 429
    return person


def test_wrong_passwords_are_allowed_a_few_times(person: User):
    assert [sign_in().status_code for _ in range(LIMIT - 1)] == [200] * (LIMIT - 1)
    assert sign_in(RIGHT).status_code == 302


def test_then_even_the_right_one_is_not_looked_at(locked: User):
    assert sign_in(RIGHT).status_code == 429


def test_the_answer_says_when_to_try_again(locked: User):
    answer = sign_in(RIGHT)
    assert 0 < int(answer.headers["Retry-After"]) <= 15 * 60
    assert "Try again in 15 minutes" in html_of(answer)
    assert not re.search(r"\bada\b", html_of(answer))


def test_a_name_that_nobody_has_is_locked_just_the_same(db):
    for _ in range(LIMIT):
        last = sign_in(name="nobody")
    assert last.status_code == 429


def test_others_at_this_address_and_this_name_elsewhere_are_not_locked(locked: User, starter: User):
    assert sign_in(RIGHT, name="eve").status_code == 302
    assert sign_in(RIGHT, address="10.0.0.2").status_code == 302


def test_it_opens_by_itself(locked: User):
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert sign_in(RIGHT).status_code == 302


def test_trying_on_makes_it_no_longer(locked: User):
    before = AccessAttempt.objects.values_list("attempt_time", "failures_since_start").get()
    sign_in()
    assert AccessAttempt.objects.values_list("attempt_time", "failures_since_start").get() == before


def test_signing_in_forgets_what_was_wrong_before(person: User):
    sign_in()
    sign_in(RIGHT)
    assert not AccessAttempt.objects.exists()


def test_an_administrator_unlocks_it_and_it_stands_in_the_log(locked: User):
    assert [lock.name for lock in locks()] == ["ada"]
    assert unlock(name="ada") == 1
    assert sign_in(RIGHT).status_code == 302
    assert ChangeLogEntry.objects.latest("pk").changes == '{"sign_in":{"after":"unlocked","before":"locked"}}'


def test_so_does_a_command(locked: User, capsys):
    call_command("unlock", "ada")
    assert "1 locks of ada opened" in capsys.readouterr().out
    assert sign_in(RIGHT).status_code == 302


def test_no_password_is_kept(person: User):
    sign_in("hunter2 is my password")
    assert "hunter2" not in str(AccessAttempt.objects.values().get())


# --- around the first bound ------------------------------------------------------------------------


@pytest.fixture
def wide(settings) -> None:
    """Bounds that are reached in a few tries."""
    settings.SIGN_IN_FAILURES_OF_NAME, settings.SIGN_IN_FAILURES_OF_ADDRESS = 6, 7


def tried_from_everywhere(times: int = 6) -> list[int]:
    return [sign_in(address=f"10.1.0.{number}").status_code for number in range(times)]


def many_names(times: int = 7) -> list[int]:
    return [sign_in(name=f"guess{number}").status_code for number in range(times)]


@pytest.fixture
def at_home(person: User) -> Client:
    """The browser that Ada has signed in with before; she has signed out."""
    client = Client()
    client.post("/sign-in/", {"username": "ada", "password": RIGHT}, REMOTE_ADDR="10.9.9.9")
    client.post("/sign-out/")
    return client


def with_browser(client: Client, password: str = RIGHT, *, name: str = "ada", address: str = "10.0.0.1") -> int:
    given = {"username": name, "password": password}
    return client.post("/sign-in/", given, REMOTE_ADDR=address).status_code


def test_one_name_from_many_addresses_is_locked_everywhere(wide: None, person: User):
    assert tried_from_everywhere() == [200] * 6
    answer = sign_in(RIGHT, address="10.2.0.1")
    assert (answer.status_code, 0 < int(answer.headers["Retry-After"]) <= 15 * 60) == (429, True)


def test_other_names_go_on_meanwhile(wide: None, person: User, starter: User):
    tried_from_everywhere()
    assert sign_in(RIGHT, name="eve", address="10.2.0.1").status_code == 302


def test_many_names_from_one_address_lock_the_address(wide: None, person: User):
    assert many_names() == [200] * 7
    assert sign_in(RIGHT).status_code == 429
    assert sign_in(RIGHT, address="10.0.0.2").status_code == 302


def test_behind_a_proxy_that_tells_no_address_none_is_locked_as_a_whole(wide: None, person: User, settings):
    settings.BEHIND_HTTPS, settings.CLIENT_ADDRESS_HEADER = True, ""
    many_names()
    assert sign_in(RIGHT).status_code == 302


def test_whoever_guesses_keeps_nobody_out_of_a_browser_that_is_known(wide: None, at_home: Client):
    tried_from_everywhere()
    many_names()
    assert with_browser(at_home) == 302


def test_a_known_browser_is_known_for_its_person_alone(wide: None, at_home: Client, starter: User):
    many_names()
    assert with_browser(at_home, name="eve") == 429


def test_a_known_browser_is_held_to_the_first_bound(wide: None, at_home: Client):
    assert [with_browser(at_home, "wrong") for _ in range(LIMIT)][-1] == 429


def test_a_browser_is_not_known_any_more_with_another_password(wide: None, at_home: Client, person: User):
    person.set_password("difference engine")
    person.save()
    tried_from_everywhere()
    assert with_browser(at_home, "difference engine") == 429


@pytest.mark.parametrize("told", ["", "nonsense", "MQ:1abc:def"])
def test_a_cookie_that_was_made_up_is_worth_nothing(wide: None, person: User, told: str):
    client = Client()
    client.cookies[COOKIE] = told
    tried_from_everywhere()
    assert with_browser(client) == 429


def test_the_cookie_is_for_the_sign_in_page_and_no_script(at_home: Client):
    cookie = at_home.cookies[COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/sign-in/", True, "Lax")


def test_the_wider_bounds_open_by_themselves(wide: None, person: User):
    tried_from_everywhere()
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert sign_in(RIGHT).status_code == 302


def test_a_wider_bound_opens_when_enough_is_old(wide: None, person: User):
    tried_from_everywhere()
    oldest = AccessAttempt.objects.order_by("pk").first()
    AccessAttempt.objects.filter(pk=oldest.pk).update(attempt_time=timezone.now() - timedelta(minutes=14))
    answer = sign_in(RIGHT, address="10.2.0.1")
    assert (answer.status_code, int(answer.headers["Retry-After"]) <= 60) == (429, True)


def test_an_administrator_opens_a_name_that_was_tried_from_everywhere(wide: None, person: User):
    tried_from_everywhere()
    assert [(lock.name, lock.address) for lock in locks()] == [("ada", "many addresses")]
    assert unlock(name="ada") == 1
    assert sign_in(RIGHT).status_code == 302


def test_a_command_opens_an_address(wide: None, person: User, capsys):
    many_names()
    call_command("unlock", "--address", "10.0.0.1")
    assert "10.0.0.1 is open again" in capsys.readouterr().out
    assert sign_in(RIGHT).status_code == 302
    assert ChangeLogEntry.objects.latest("pk").subject_key == "10.0.0.1"


def test_the_own_account_of_who_guesses_makes_no_room_for_more(wide: None, person: User, starter: User):
    many_names(6)
    assert sign_in(RIGHT, name="eve").status_code == 302
    many_names(1)
    assert sign_in(RIGHT).status_code == 429


# --- who asks ----------------------------------------------------------------------------------


def address(**meta: str) -> str | None:
    return address_of(RequestFactory().get("/", **meta))


def test_no_header_is_believed_unless_settings_name_it():
    assert address(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="1.2.3.4") == "10.0.0.1"


@pytest.mark.parametrize(
    ("proxies", "told", "expected"),
    [
        (1, "1.2.3.4", "1.2.3.4"),
        (1, "6.6.6.6, 1.2.3.4", "1.2.3.4"),
        (2, "6.6.6.6, 1.2.3.4, 10.0.0.9", "1.2.3.4"),
        (2, "1.2.3.4", "10.0.0.1"),
        (1, "", "10.0.0.1"),
        (1, "unknown", "10.0.0.1"),
        (1, "1.2.3.4:5678", "1.2.3.4"),
        (1, "[2001:db8::7]:443", "2001:db8::"),
        (1, "::ffff:1.2.3.4", "1.2.3.4"),
    ],
)
def test_behind_proxies_only_what_they_wrote_is_believed(settings, proxies: int, told: str, expected: str):
    settings.CLIENT_ADDRESS_HEADER, settings.CLIENT_ADDRESS_PROXIES = "X-Forwarded-For", proxies
    assert address(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=told) == expected


def test_an_address_for_each_try_does_not_help(settings, person: User):
    settings.CLIENT_ADDRESS_HEADER = "X-Forwarded-For"
    given = {"username": "ada", "password": "wrong"}
    answers = [
        Client().post("/sign-in/", given, HTTP_X_FORWARDED_FOR=f"6.6.6.{n}, 1.2.3.4").status_code for n in range(LIMIT)
    ]
    assert answers[-1] == 429


def test_a_socket_has_no_address():
    assert address(REMOTE_ADDR="") is None
