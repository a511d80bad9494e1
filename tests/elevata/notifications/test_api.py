"""Notices, webhooks and deliveries by the API."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from elevata.audit.models import ChangeLogEntry
from elevata.notifications.models import Delivery, Notice, Webhook
from tests.attacks.requests import send
from tests.factories import DeliveryFactory, NoticeFactory, WebhookFactory

pytestmark = pytest.mark.django_db

BODY = {
    "name": "team",
    "url": "https://hooks.example.org/in",
    "events": ["load.failed"],
    "secret": "ELEVATA_WEBHOOK_SECRET_TEAM",
}


def test_webhook_is_created_changed_and_deleted(operator: Client):
    answer = send(operator, "post", "webhooks/", BODY | {"changelog_message": "for the team"})
    assert answer.status_code == 201, answer.content
    key, tag = answer.json()["key"], answer.headers["ETag"]
    changed = send(operator, "patch", f"webhooks/{key}/", {"active": False}, **{"If-Match": tag})
    assert (changed.status_code, changed.json()["active"]) == (200, False)
    assert send(operator, "patch", f"webhooks/{key}/", {"active": True}, **{"If-Match": tag}).status_code == 412
    assert send(operator, "delete", f"webhooks/{key}/").status_code == 204
    assert not Webhook.objects.exists()
    assert ChangeLogEntry.objects.filter(subject_kind="webhook").first().subject_name == "team"


def test_webhook_with_an_unknown_event_is_refused_with_the_field(operator: Client):
    answer = send(operator, "post", "webhooks/", BODY | {"events": ["load.fallen"]})
    assert answer.status_code == 400
    assert "events" in answer.json()["errors"]


def test_webhook_test_returns_its_queued_delivery(operator: Client):
    row = WebhookFactory()
    answer = send(operator, "post", f"webhooks/{row.key}/test/")
    assert (answer.status_code, answer.json()["status"]) == (202, "queued")
    assert operator.get(f"/api/v1/deliveries/{answer.json()['id']}/").json()["event"]["type"] == "webhook.test"


def test_deliveries_are_found_by_their_webhook_and_state(operator: Client):
    failed = DeliveryFactory(status="failed")
    DeliveryFactory(webhook=failed.webhook)
    DeliveryFactory(status="failed")
    page = operator.get("/api/v1/deliveries/", {"webhook": str(failed.webhook.key), "status": "failed"}).json()
    assert [delivery["id"] for delivery in page["results"]] == [failed.pk]


def test_finished_delivery_is_replayed_and_a_queued_one_refused(operator: Client):
    delivery = DeliveryFactory(status="failed")
    assert send(operator, "post", f"deliveries/{delivery.pk}/replay/").status_code == 202
    again = send(operator, "post", f"deliveries/{delivery.pk}/replay/")
    assert (again.status_code, again.json()["code"]) == (409, "still_going")
    assert Delivery.objects.get().status == "queued"


def test_notices_are_read_one_by_one_and_all_at_once(reader: Client, person: User):
    first, *_ = NoticeFactory.create_batch(3, user=person)
    assert send(reader, "post", f"notices/{first.pk}/read/").json()["read_at"]
    assert [row["id"] for row in reader.get("/api/v1/notices/", {"unread": "false"}).json()["results"]] == [first.pk]
    assert send(reader, "post", "notices/read/").json() == {"read": 2}
    assert not Notice.objects.filter(read_at=None).exists()
