"""Tests of the mail server settings, given in one variable."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from elevata.notifications.mail import settings_of


def test_without_a_server_no_mail_is_sent():
    assert settings_of("")["EMAIL_ENABLED"] is False


def test_mail_url_with_tls_start_has_host_port_user_password_and_starttls():
    options = settings_of("smtp://me:p%40ss@mail.example.org:2525?tls=start")
    assert (options["EMAIL_HOST"], options["EMAIL_PORT"]) == ("mail.example.org", 2525)
    assert (options["EMAIL_HOST_USER"], options["EMAIL_HOST_PASSWORD"]) == ("me", "p@ss")
    assert (options["EMAIL_USE_TLS"], options["EMAIL_USE_SSL"]) == (True, False)


@pytest.mark.parametrize(
    ("url", "port"), [("smtp://mail.example.org", 25), ("smtp://m?tls=start", 587), ("smtps://mail.example.org", 465)]
)
def test_mail_url_without_a_port_has_the_usual_port(url: str, port: int):
    assert settings_of(url)["EMAIL_PORT"] == port


def test_console_mail_url_enables_email():
    assert settings_of("console:")["EMAIL_ENABLED"] is True


@pytest.mark.parametrize(
    "url", ["http://canary@x", "smtp://", "smtp://canary@x?tls=maybe", "smtp://canary@x:port", "smtp://canary@x?tls"]
)
def test_invalid_mail_url_is_refused_without_its_text_in_the_error(url: str):
    with pytest.raises(ImproperlyConfigured) as refused:
        settings_of(url)
    assert "canary" not in str(refused.value)
