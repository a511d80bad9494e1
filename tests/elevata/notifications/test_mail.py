"""Tests of the mail server settings, given in one variable."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from elevata.notifications.mail import settings_of


def test_without_a_server_no_mail_is_sent():
    assert settings_of("")["EMAIL_ENABLED"] is False


def test_a_server_with_tls_after_the_greeting():
    found = settings_of("smtp://me:p%40ss@mail.example.org:2525?tls=start")
    assert (found["EMAIL_HOST"], found["EMAIL_PORT"]) == ("mail.example.org", 2525)
    assert (found["EMAIL_HOST_USER"], found["EMAIL_HOST_PASSWORD"]) == ("me", "p@ss")
    assert (found["EMAIL_USE_TLS"], found["EMAIL_USE_SSL"]) == (True, False)


@pytest.mark.parametrize(
    ("url", "port"), [("smtp://mail.example.org", 25), ("smtp://m?tls=start", 587), ("smtps://mail.example.org", 465)]
)
def test_a_port_that_is_not_said_is_the_usual_one(url: str, port: int):
    assert settings_of(url)["EMAIL_PORT"] == port


def test_mail_can_be_printed():
    assert settings_of("console:")["EMAIL_ENABLED"] is True


@pytest.mark.parametrize(
    "url", ["http://canary@x", "smtp://", "smtp://canary@x?tls=maybe", "smtp://canary@x:port", "smtp://canary@x?tls"]
)
def test_what_names_no_server_is_refused_without_being_told(url: str):
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(url)
    assert "canary" not in str(refused.value)
