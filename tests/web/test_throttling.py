"""Signing in too often with a wrong password: by name and address, for a while, and how it opens again."""

from datetime import timedelta

import pytest
from axes.models import AccessAttempt
from django.contrib.auth.models import User
from django.core.management import call_command
from django.http import HttpResponse
from django.test import Client, RequestFactory
from django.utils import timezone

from elevata.locks import locks, unlock
from elevata.throttling import address_of
from metadata.models import ChangeLogEntry

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
    assert "Try again in 15 minutes" in answer.content.decode()
    assert "ada" not in answer.content.decode()


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
