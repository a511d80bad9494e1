"""Tests of the rules for webhook requests, retry times and webhook fields."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elevata.core.errors import MetadataError
from elevata.notifications.kinds import CHOICES, Kind, check_kinds, check_secret_name, check_url, shown_url
from elevata.notifications.webhook_requests import MAX_ATTEMPTS, WebhookPayload, signature, wait_after

TOLD = WebhookPayload(
    event_id="5e6f",
    kind="report.waiting",
    time="2026-11-22T02:00:00.000+00:00",
    environment="prod",
    title="The report of all datasets waits",
    subject={"kind": "report", "key": "1", "name": "report"},
    page="/reports/1/",
    facts={"risk": "safe"},
)


def by_hand(secret: bytes, event_id: str, timestamp: int, body: bytes) -> str:
    digest = hmac.new(secret, f"{event_id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode()


def test_a_signature_covers_id_time_and_body():
    signed = signature(event_id="5e6f", timestamp=1700000000, body=b"{}", secrets=["s3cret"])
    assert signed == by_hand(b"s3cret", "5e6f", 1700000000, b"{}")


def test_every_secret_signs_so_that_one_can_be_replaced():
    signed = signature(event_id="a", timestamp=1, body=b"x", secrets=["new", "old"]).split()
    assert signed == [by_hand(b"new", "a", 1, b"x"), by_hand(b"old", "a", 1, b"x")]


def test_signature_matches_the_published_example_of_the_convention():
    signed = signature(
        event_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_invalid_base64_secret_is_refused_without_its_text_in_the_error():
    with pytest.raises(MetadataError) as refused:
        signature(event_id="a", timestamp=1, body=b"", secrets=["whsec_canary!"])
    assert "canary" not in str(refused.value)


def test_a_body_is_the_same_at_every_try():
    assert TOLD.body() == TOLD.body()
    assert b'"type":"report.waiting"' in TOLD.body()


def test_slack_and_teams_bodies_have_one_escaped_line_with_a_link():
    message = replace(TOLD, title="Drift in <!channel>\n*rc_a*", page="https://elevata.example.org/drift/")
    text = json.loads(message.slack_body())["text"]
    assert text == "[prod] Drift in &lt;!channel&gt; *rc_a* <https://elevata.example.org/drift/|Open>"
    card = json.loads(message.teams_body())["attachments"][0]["content"]
    assert card["body"][0]["text"] == r"\[prod\] Drift in \<!channel\> \*rc\_a\*"
    assert card["actions"][0]["url"] == "https://elevata.example.org/drift/"


def test_slack_and_teams_bodies_omit_a_link_without_a_host():
    assert json.loads(TOLD.slack_body())["text"] == "[prod] The report of all datasets waits"
    assert "actions" not in json.loads(TOLD.teams_body())["attachments"][0]["content"]


@given(attempt=st.integers(1, 1000), spread=st.floats(0, 1))
def test_waits_grow_up_to_a_bound(attempt: int, spread: float):
    assert timedelta(seconds=20) < wait_after(attempt, spread) <= timedelta(hours=7.5)
    assert wait_after(attempt, spread) <= wait_after(attempt + 1, 1.0)


def test_delivery_is_retried_for_at_least_nine_hours():
    assert sum((wait_after(attempt, 0.0) for attempt in range(1, MAX_ATTEMPTS)), timedelta()) > timedelta(hours=9)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://hooks.example.org/",
        "file:///etc/passwd",
        "gopher://127.0.0.1:6379/_x",
        "https://",
        "hooks.example.org",
        "https://user:pass@hooks.example.org/",
        "https://token@hooks.example.org/",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org/\r\nX-Injected: yes",
        "https://hooks.example.org/a b",
        "https://hooks.éxample.org/",
        "https://[::1",
        "https://hooks.example.org/#there",
        "https://hooks.example.org/" + "a" * 1000,
    ],
)
def test_invalid_webhook_url_is_refused(url: str):
    with pytest.raises(MetadataError) as refused:
        check_url(url)
    assert (refused.value.code, refused.value.field) == ("bad_url", "url")


@pytest.mark.parametrize(
    "url", ["https://hooks.example.org", "http://10.0.0.7:8080/in?team=a", "https://[2001:db8::1]/"]
)
def test_webhook_url_with_a_private_address_is_accepted(url: str):
    check_url(url)


def test_a_shown_address_has_no_path():
    assert shown_url("https://hooks.example.org/services/T0/canary?x=1") == "https://hooks.example.org/…"
    assert shown_url("https://hooks.example.org:8443") == "https://hooks.example.org:8443"


@pytest.mark.parametrize(
    "name",
    ["ELEVATA_SECRET_KEY", "DATABASE_URL", "ELEVATA_WEBHOOK_SECRET_", "ELEVATA_WEBHOOK_SECRET_A_FILE", "PATH", "key"],
)
def test_secret_name_outside_the_webhook_variables_is_refused(name: str):
    with pytest.raises(MetadataError, match="names an environment variable"):
        check_secret_name(name, "secret")


def test_webhook_events_are_deduplicated_and_ordered():
    assert check_kinds(["load.failed", "report.waiting", "load.failed"]) == ["report.waiting", "load.failed"]


def test_unknown_event_is_refused_with_the_list_of_events():
    with pytest.raises(MetadataError, match=r"unknown are report.waited.*report.waiting"):
        check_kinds(["report.waited"])


def test_webhook_test_is_not_among_the_choices():
    assert Kind.WEBHOOK_TEST not in CHOICES
