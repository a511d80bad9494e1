"""Lockouts after too many wrong passwords, by user name and address, and their end."""

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


def test_sign_in_allows_fewer_wrong_passwords_than_the_limit(person: User):
    assert [sign_in().status_code for _ in range(LIMIT - 1)] == [200] * (LIMIT - 1)
    assert sign_in(RIGHT).status_code == 302


def test_locked_account_refuses_the_right_password(locked: User):
    assert sign_in(RIGHT).status_code == 429


def test_lockout_shows_when_to_retry_and_not_the_name(locked: User):
    answer = sign_in(RIGHT)
    assert 0 < int(answer.headers["Retry-After"]) <= 15 * 60
    assert "Try again in 15 minutes" in html_of(answer)
    assert not re.search(r"\bada\b", html_of(answer))


def test_unknown_name_is_locked_like_a_known_one(db):
    for _ in range(LIMIT):
        last = sign_in(name="nobody")
    assert last.status_code == 429


def test_lockout_affects_only_its_name_and_address(locked: User, starter: User):
    assert sign_in(RIGHT, name="eve").status_code == 302
    assert sign_in(RIGHT, address="10.0.0.2").status_code == 302


def test_lockout_ends_after_its_time(locked: User):
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert sign_in(RIGHT).status_code == 302


def test_further_attempts_do_not_extend_a_lockout(locked: User):
    before = AccessAttempt.objects.values_list("attempt_time", "failures_since_start").get()
    sign_in()
    assert AccessAttempt.objects.values_list("attempt_time", "failures_since_start").get() == before


def test_successful_sign_in_deletes_earlier_failures(person: User):
    sign_in()
    sign_in(RIGHT)
    assert not AccessAttempt.objects.exists()


def test_unlock_by_an_administrator_is_logged(locked: User):
    assert [lock.name for lock in locks()] == ["ada"]
    assert unlock(name="ada") == 1
    assert sign_in(RIGHT).status_code == 302
    assert ChangeLogEntry.objects.latest("pk").changes == '{"sign_in":{"after":"unlocked","before":"locked"}}'


def test_unlock_command_opens_a_lockout(locked: User, capsys):
    call_command("unlock", "ada")
    assert "1 locks of ada opened" in capsys.readouterr().out
    assert sign_in(RIGHT).status_code == 302


def test_failed_sign_in_stores_no_password(person: User):
    sign_in("hunter2 is my password")
    assert "hunter2" not in str(AccessAttempt.objects.values().get())


# --- limits per name and address --------------------------------------------------------------------


@pytest.fixture
def low_limits(settings) -> None:
    """Set limits that are reached after a few attempts."""
    settings.SIGN_IN_FAILURES_OF_NAME, settings.SIGN_IN_FAILURES_OF_ADDRESS = 6, 7


def sign_in_from_many_addresses(times: int = 6) -> list[int]:
    return [sign_in(address=f"10.1.0.{number}").status_code for number in range(times)]


def sign_in_with_many_names(times: int = 7) -> list[int]:
    return [sign_in(name=f"guess{number}").status_code for number in range(times)]


@pytest.fixture
def known_browser(person: User) -> Client:
    """Return the client of a browser in which Ada has signed in and out."""
    client = Client()
    client.post("/sign-in/", {"username": "ada", "password": RIGHT}, REMOTE_ADDR="10.9.9.9")
    client.post("/sign-out/")
    return client


def with_browser(client: Client, password: str = RIGHT, *, name: str = "ada", address: str = "10.0.0.1") -> int:
    data = {"username": name, "password": password}
    return client.post("/sign-in/", data, REMOTE_ADDR=address).status_code


def test_name_tried_from_many_addresses_is_locked_at_every_address(low_limits: None, person: User):
    assert sign_in_from_many_addresses() == [200] * 6
    answer = sign_in(RIGHT, address="10.2.0.1")
    assert (answer.status_code, 0 < int(answer.headers["Retry-After"]) <= 15 * 60) == (429, True)


def test_other_names_can_sign_in_while_a_name_is_locked_everywhere(low_limits: None, person: User, starter: User):
    sign_in_from_many_addresses()
    assert sign_in(RIGHT, name="eve", address="10.2.0.1").status_code == 302


def test_many_names_from_one_address_lock_the_address(low_limits: None, person: User):
    assert sign_in_with_many_names() == [200] * 7
    assert sign_in(RIGHT).status_code == 429
    assert sign_in(RIGHT, address="10.0.0.2").status_code == 302


def test_address_is_not_locked_behind_a_proxy_without_a_client_address_header(low_limits: None, person: User, settings):
    settings.BEHIND_HTTPS, settings.CLIENT_ADDRESS_HEADER = True, ""
    sign_in_with_many_names()
    assert sign_in(RIGHT).status_code == 302


def test_known_browser_signs_in_despite_name_and_address_lockouts(low_limits: None, known_browser: Client):
    sign_in_from_many_addresses()
    sign_in_with_many_names()
    assert with_browser(known_browser) == 302


def test_known_browser_is_trusted_for_its_user_only(low_limits: None, known_browser: Client, starter: User):
    sign_in_with_many_names()
    assert with_browser(known_browser, name="eve") == 429


def test_known_browser_is_locked_by_the_limit_per_name_and_address(low_limits: None, known_browser: Client):
    assert [with_browser(known_browser, "wrong") for _ in range(LIMIT)][-1] == 429


def test_changed_password_makes_a_known_browser_unknown(low_limits: None, known_browser: Client, person: User):
    person.set_password("difference engine")
    person.save()
    sign_in_from_many_addresses()
    assert with_browser(known_browser, "difference engine") == 429


@pytest.mark.parametrize("forged", ["", "nonsense", "MQ:1abc:def"])
def test_forged_browser_cookie_is_ignored(low_limits: None, person: User, forged: str):
    client = Client()
    client.cookies[COOKIE] = forged
    sign_in_from_many_addresses()
    assert with_browser(client) == 429


def test_browser_cookie_is_httponly_and_limited_to_the_sign_in_page(known_browser: Client):
    cookie = known_browser.cookies[COOKIE]
    assert (cookie["path"], cookie["httponly"], cookie["samesite"]) == ("/sign-in/", True, "Lax")


def test_name_lockout_ends_after_its_time(low_limits: None, person: User):
    sign_in_from_many_addresses()
    AccessAttempt.objects.update(attempt_time=timezone.now() - timedelta(minutes=16))
    assert sign_in(RIGHT).status_code == 302


def test_name_lockout_ends_when_its_oldest_attempt_expires(low_limits: None, person: User):
    sign_in_from_many_addresses()
    oldest = AccessAttempt.objects.order_by("pk").first()
    AccessAttempt.objects.filter(pk=oldest.pk).update(attempt_time=timezone.now() - timedelta(minutes=14))
    answer = sign_in(RIGHT, address="10.2.0.1")
    assert (answer.status_code, int(answer.headers["Retry-After"]) <= 60) == (429, True)


def test_unlock_opens_a_name_locked_at_many_addresses(low_limits: None, person: User):
    sign_in_from_many_addresses()
    assert [(lock.name, lock.address) for lock in locks()] == [("ada", "many addresses")]
    assert unlock(name="ada") == 1
    assert sign_in(RIGHT).status_code == 302


def test_unlock_command_opens_an_address(low_limits: None, person: User, capsys):
    sign_in_with_many_names()
    call_command("unlock", "--address", "10.0.0.1")
    assert "10.0.0.1 is open again" in capsys.readouterr().out
    assert sign_in(RIGHT).status_code == 302
    assert ChangeLogEntry.objects.latest("pk").subject_key == "10.0.0.1"


def test_successful_sign_in_does_not_reset_the_failures_of_its_address(low_limits: None, person: User, starter: User):
    sign_in_with_many_names(6)
    assert sign_in(RIGHT, name="eve").status_code == 302
    sign_in_with_many_names(1)
    assert sign_in(RIGHT).status_code == 429


# --- client address ----------------------------------------------------------------------------


def address(**meta: str) -> str | None:
    return address_of(RequestFactory().get("/", **meta))


def test_address_ignores_forwarded_headers_that_settings_do_not_name():
    assert address(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR="1.2.3.4") == "10.0.0.1"


@pytest.mark.parametrize(
    ("proxies", "forwarded", "expected"),
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
def test_address_is_the_entry_the_declared_proxies_added(settings, proxies: int, forwarded: str, expected: str):
    settings.CLIENT_ADDRESS_HEADER, settings.CLIENT_ADDRESS_PROXIES = "X-Forwarded-For", proxies
    assert address(REMOTE_ADDR="10.0.0.1", HTTP_X_FORWARDED_FOR=forwarded) == expected


def test_forged_forwarded_addresses_do_not_avoid_a_lockout(settings, person: User):
    settings.CLIENT_ADDRESS_HEADER = "X-Forwarded-For"
    data = {"username": "ada", "password": "wrong"}
    answers = [
        Client().post("/sign-in/", data, HTTP_X_FORWARDED_FOR=f"6.6.6.{n}, 1.2.3.4").status_code for n in range(LIMIT)
    ]
    assert answers[-1] == 429


def test_address_of_a_socket_request_is_none():
    assert address(REMOTE_ADDR="") is None
