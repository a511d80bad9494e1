"""Webhook deliveries and mail: signed requests, and a recorded outcome in every case."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core import mail
from django.db.models import QuerySet
from django.utils import timezone

from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.jobs import states, submission
from elevata.jobs.services import give_up
from elevata.notifications import deliveries
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Delivery, DeliveryAttempt, Event, Notice
from elevata.notifications.safe_http import Answer, CannotCall
from loader.runner import sweep as cleanup
from loader.services.loads.attempts import LoadAttempt
from tests.elevata.notifications.deliveries import send_due
from tests.factories import DeliveryFactory, EventFactory, WebhookFactory
from tests.loader.factories import LoadRunFactory

pytestmark = pytest.mark.django_db
SECRET, FORMER = "a secret that nobody may see", "the one before"


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_TEAM", SECRET)


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, bytes, dict[str, str]]]]:
    """Return a function that sets the receiver's answers and returns the requests sent."""

    def answer_with(*responses: Any) -> list[tuple[str, bytes, dict[str, str]]]:
        requests, remaining = [], list(responses)

        def post(url: str, body: bytes, headers: dict[str, str], **_: Any) -> Answer:
            requests.append((url, body, headers))
            answer = remaining.pop(0) if len(remaining) > 1 else remaining[0]
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(deliveries, "post", post)
        return requests

    return answer_with


def test_a_request_is_signed_over_id_time_and_body(posted: Callable):
    sent = posted(Answer(200, "ok", 3))
    delivery = DeliveryFactory()
    assert send_due() == 1
    _, body, headers = sent[0]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = base64.b64encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()).decode()
    assert headers["webhook-signature"] == f"v1,{wanted}"
    assert headers["webhook-id"] == json.loads(body)["id"] == str(delivery.event.event_id)


def test_the_documented_way_verifies_a_request(posted: Callable):
    sent = posted(Answer(200, "", 3))
    DeliveryFactory()
    send_due()
    page = (settings.BASE_DIR / "docs" / "use" / "notify.md").read_text()
    code = page.partition("```python\n")[2].partition("```")[0]
    names: dict[str, Any] = {}
    exec(code, names)
    _, body, headers = sent[0]
    assert names["is_ours"](headers, body, SECRET)
    assert not names["is_ours"](headers, body + b" ", SECRET)
    assert not names["is_ours"](headers, body, "another")
    assert not names["is_ours"](headers | {"webhook-timestamp": "1700000000"}, body, SECRET)


def test_delivery_is_signed_with_the_secret_and_the_former_secret(posted: Callable, monkeypatch: pytest.MonkeyPatch):
    sent = posted(Answer(200, "", 3))
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_OLD", FORMER)
    DeliveryFactory(webhook=WebhookFactory(former_secret="ELEVATA_WEBHOOK_SECRET_OLD"))
    send_due()
    assert sent[0][2]["webhook-signature"].count("v1,") == 2


def test_webhook_secret_is_read_from_a_file(posted: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path):
    sent = posted(Answer(200, "", 3))
    monkeypatch.delenv("ELEVATA_WEBHOOK_SECRET_TEAM")
    (tmp_path / "team").write_text(f"{SECRET}\n")
    monkeypatch.setenv("ELEVATA_WEBHOOK_SECRET_TEAM_FILE", str(tmp_path / "team"))
    DeliveryFactory()
    send_due()
    headers, body = sent[0][2], sent[0][1]
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"


def test_delivery_without_a_secret_is_not_sent_and_stores_the_error(posted: Callable, monkeypatch: pytest.MonkeyPatch):
    sent = posted(Answer(200, "", 3))
    monkeypatch.delenv("ELEVATA_WEBHOOK_SECRET_TEAM")
    DeliveryFactory()
    send_due()
    assert sent == []
    assert "ELEVATA_WEBHOOK_SECRET_TEAM is not set" in DeliveryAttempt.objects.get().error


def test_delivery_body_has_event_environment_and_page(posted: Callable, settings: Any):
    settings.PUBLIC_URL = "https://warehouse.example.org"
    sent = posted(Answer(200, "", 3))
    DeliveryFactory(event=EventFactory(subject_key="r7"))
    send_due()
    body = json.loads(sent[0][1])
    assert (body["type"], body["environment"]) == ("load.failed", "dev")
    assert body["links"] == {"page": "https://warehouse.example.org/load-runs/r7/"}


@pytest.mark.parametrize(
    ("answer", "status", "error"),
    [
        (Answer(204, "", 1), "succeeded", ""),
        (Answer(500, "", 1), "queued", "answered 500"),
        (Answer(404, "", 1), "queued", "answered 404"),
        (Answer(302, "", 1), "queued", "redirects are not followed"),
        (Answer(410, "", 1), "failed", "answered 410"),
        (CannotCall("nobody there"), "queued", "nobody there"),
        (CannotCall("no public address", is_final=True), "failed", "no public address"),
        (ValueError("surprise"), "queued", "unexpected: ValueError"),
    ],
)
def test_delivery_attempt_stores_the_outcome_of_each_answer(posted: Callable, answer: Any, status: str, error: str):
    posted(answer)
    DeliveryFactory()
    send_due()
    assert Delivery.objects.get().status == status
    assert error in DeliveryAttempt.objects.get().error


def test_inactive_webhook_receives_only_test_events(posted: Callable):
    sent = posted(Answer(200, "", 1))
    off = WebhookFactory(active=False)
    DeliveryFactory(webhook=off)
    DeliveryFactory(webhook=off, event=EventFactory(kind="webhook.test"))
    send_due()
    assert [json.loads(body)["type"] for _, body, _ in sent] == ["webhook.test"]


def test_a_secret_is_in_no_row_and_no_line_of_the_log(posted: Callable, caplog: pytest.LogCaptureFixture):
    posted(Answer(500, "no", 1), ValueError(SECRET))
    DeliveryFactory()
    DeliveryFactory()
    caplog.set_level("DEBUG")
    send_due()
    rows = str(list(Event.objects.values())) + str(list(Delivery.objects.values()))
    rows += str(list(DeliveryAttempt.objects.values()))
    assert SECRET not in rows
    assert SECRET not in "".join(record.getMessage() for record in caplog.records)


def test_mail_is_sent_to_the_user_with_a_subject_of_one_line(settings):
    settings.EMAIL_ENABLED = True
    ada = User.objects.create_user("ada", email="ada@example.org")
    ada.groups.add(Group.objects.get(name=Role.VIEWER))
    DeliveryFactory(webhook=None, user=ada, event=EventFactory(title="Load run\r\nBcc: eve@example.org failed"))
    send_due()
    assert Delivery.objects.get().status == "succeeded"
    sent = mail.outbox[0]
    assert sent.to == ["ada@example.org"]
    assert "\n" not in sent.subject
    assert sent.bcc == []


def test_mail_delivery_fails_if_email_is_disabled(settings):
    settings.EMAIL_ENABLED = False
    DeliveryFactory(webhook=None, user=User.objects.create_user("ada", email="ada@example.org"))
    send_due()
    assert Delivery.objects.get().status == "failed"


def test_sweep_wakes_a_worker_for_due_deliveries(monkeypatch: pytest.MonkeyPatch):
    woken: list[int] = []
    monkeypatch.setattr(submission, "_send", lambda _, pk: woken.append(pk) or "")
    first = DeliveryFactory()
    DeliveryFactory()
    DeliveryFactory(not_before=timezone.now() + timedelta(minutes=1))
    cleanup.sweep(resent_after=timedelta(0))
    assert woken == [first.pk]


# --- notices of loads ----------------------------------------------------------------------------


@pytest.fixture
def operators(db) -> None:
    ensure_user(name="olga", roles=[Role.OPERATOR])
    ensure_user(name="ada", roles=[Role.EDITOR])


def of_loads() -> QuerySet[Event]:
    """Return the events except those about the test's accounts."""
    return Event.objects.exclude(kind=Kind.ACCOUNT_CHANGED)


@pytest.mark.parametrize("status", [states.FAILED, states.BLOCKED])
def test_operators_get_a_notice_of_a_failed_or_blocked_load(operators: None, status: str):
    run = LoadRunFactory(status="running", attempt=1)
    LoadAttempt(run.pk, 1).finish(status=status, error={"code": "X", "message": "the disk is full"})
    assert [notice.user.username for notice in Notice.objects.filter(event__in=of_loads())] == ["olga"]
    assert of_loads().get().link == f"/load-runs/{run.run_id}/"


def test_lost_load_creates_an_event_with_its_error(operators: None):
    run = LoadRunFactory(status="running", attempt=1)
    give_up(job=run, error={"code": "WORKER_LOST", "message": "gone"})
    assert "lost its worker: gone" in of_loads().get().title


def test_succeeded_load_creates_no_event(operators: None):
    LoadAttempt(LoadRunFactory(status="running", attempt=1).pk, 1).finish(status=states.SUCCEEDED)
    assert not of_loads().exists()
