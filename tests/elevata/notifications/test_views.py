"""Notices, their settings, and webhooks on pages."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from elevata.audit.models import ChangeLogEntry
from elevata.notifications.kinds import CHOICES, WORDS
from elevata.notifications.models import Delivery, Notice, NoticeChoice, Webhook
from tests.elevata.web.forms import typed, words
from tests.elevata.web.html import html_of, text_of
from tests.factories import DeliveryFactory, NoticeFactory, WebhookFactory

pytestmark = pytest.mark.django_db


def test_bell_is_loaded_after_the_page(reader: Client):
    page = text_of(reader, "/notices/")
    assert 'hx-get="/notices/bell/" hx-trigger="load once"' in page


def test_the_bell_counts_what_is_unread(reader: Client, person: User):
    NoticeFactory.create_batch(2, user=person)
    assert "2 unread" in words(text_of(reader, "/notices/bell/"))


def test_bell_without_unread_notices_shows_no_number(reader: Client):
    assert "unread" not in text_of(reader, "/notices/bell/")


def test_opening_a_notice_redirects_to_its_page_and_marks_it_as_read(reader: Client, person: User):
    notice = NoticeFactory(user=person, event__subject_key="r7")
    assert reader.get(f"/notices/{notice.pk}/").url == "/load-runs/r7/"
    assert Notice.objects.get().read_at is not None


def test_group_of_notices_is_one_row_with_counts_and_opens_to_its_notices(reader: Client, person: User):
    group = uuid4()
    NoticeFactory(user=person, event__group=group, event__title="the first", read_at=timezone.now())
    NoticeFactory.create_batch(2, user=person, event__group=group, event__title="a later one")
    page = text_of(reader, "/notices/")
    assert "3 notices, 2 unread" in words(page)
    assert "the first" not in page
    assert page.count("a later one</a>") + page.count("a later one\n") == 1
    parts = text_of(reader, f"/notices/?group={group}")
    assert "the first" in parts
    assert parts.count('name="notice"') == 2


def test_a_group_is_found_by_any_of_its_parts(reader: Client, person: User):
    group = uuid4()
    NoticeFactory(user=person, event__group=group, event__title="about airports")
    NoticeFactory(user=person, event__group=group, event__title="about routes")
    page = text_of(reader, "/notices/?q=airports")
    assert "about airports" in page
    assert "2 notices" in words(page)


def test_a_group_is_marked_as_read(reader: Client, person: User):
    group = uuid4()
    NoticeFactory.create_batch(2, user=person, event__group=group)
    other = NoticeFactory(user=person)
    reader.post("/notices/read/", {"group": str(group)})
    assert [notice.pk for notice in Notice.objects.filter(read_at=None)] == [other.pk]


def test_single_notice_is_marked_as_read(reader: Client, person: User):
    first, second = NoticeFactory(user=person), NoticeFactory(user=person)
    reader.post("/notices/read/", {"notice": first.pk})
    assert [notice.pk for notice in Notice.objects.filter(read_at=None)] == [second.pk]


def test_notices_are_all_marked_as_read(reader: Client, person: User):
    NoticeFactory.create_batch(2, user=person)
    reader.post("/notices/read/")
    assert not Notice.objects.filter(read_at=None).exists()


def test_notice_list_is_filtered_by_kind(reader: Client, person: User):
    NoticeFactory(user=person, event__title="about a load")
    NoticeFactory(user=person, event__title="about a report", event__kind="report.waiting")
    page = text_of(reader, "/notices/?kind=report.waiting")
    assert "about a report" in page
    assert "about a load" not in page


def test_notice_settings_store_the_chosen_events(reader: Client, person: User):
    fields = typed(
        text_of(reader, "/notices/settings/"), having="listed", listed=["load.failed"], emailed=["drift.found"]
    )
    assert reader.post("/notices/settings/", fields).url == "/notices/settings/"
    choice = NoticeChoice.objects.get()
    always = ["account.changed", "policy.proposed", "policy.decided"]
    assert (choice.user, choice.listed, choice.emailed) == (person, ["load.failed", *always], ["drift.found"])


def test_every_event_has_a_box_for_the_list_and_one_for_mail(reader: Client):
    text = words(text_of(reader, "/notices/settings/"))
    for event in CHOICES:
        assert f"{WORDS[event]}: in the list" in text
        assert f"{WORDS[event]}: by email" in text


def test_notice_settings_state_that_email_is_disabled(reader: Client, settings: Any):
    settings.EMAIL_ENABLED = False
    assert "sends no email" in words(text_of(reader, "/notices/settings/"))


def test_email_address_is_stored_and_omitted_from_the_change_log(reader: Client, person: User):
    fields = typed(text_of(reader, "/notices/settings/"), having="listed", address="ada@example.org")
    reader.post("/notices/settings/", fields)
    person.refresh_from_db()
    assert person.email == "ada@example.org"
    entry = ChangeLogEntry.objects.get(subject_kind="user", subject_key="ada")
    assert "example.org" not in entry.changes


def test_invalid_email_address_is_refused(reader: Client, person: User):
    fields = typed(text_of(reader, "/notices/settings/"), having="listed", address="ada@example.org\nBcc: eve@x.org")
    assert reader.post("/notices/settings/", fields).status_code == 422


# --- webhooks ----------------------------------------------------------------------------------


def create_webhook(client: Client, **over: Any) -> Any:
    fields = {
        "name": "team",
        "url": "https://hooks.example.org/in",
        "events": ["load.failed"],
        "secret": "ELEVATA_WEBHOOK_SECRET_TEAM",
    }
    return client.post("/webhooks/new/", typed(text_of(client, "/webhooks/new/"), having="url", **(fields | over)))


def test_webhook_is_created_by_its_form(operator: Client):
    answer = create_webhook(operator)
    row = Webhook.objects.get()
    assert answer.url == f"/webhooks/{row.key}/"
    assert (row.events, row.active) == (["load.failed"], True)


def test_invalid_webhook_form_shows_the_error_and_keeps_the_input(operator: Client):
    page = html_of(create_webhook(operator, secret="hunter2", name="mine"))
    assert "names an environment variable" in words(page).lower()
    assert 'value="mine"' in page
    assert not Webhook.objects.exists()


def test_a_webhook_is_edited(operator: Client):
    row = WebhookFactory(events=["load.failed"])
    address = f"/webhooks/{row.key}/edit/"
    operator.post(address, typed(text_of(operator, address), events=["drift.found"], active=None))
    row.refresh_from_db()
    assert (row.events, row.active, row.version) == (["drift.found"], False, 2)


def test_second_edit_of_a_webhook_returns_409_with_the_other_value(operator: Client):
    row = WebhookFactory(name="team")
    address = f"/webhooks/{row.key}/edit/"
    page = text_of(operator, address)
    operator.post(address, typed(page, name="theirs"))
    answer = operator.post(address, typed(page, name="mine"))
    assert answer.status_code == 409
    assert "theirs" in words(html_of(answer))


def test_a_webhook_is_deleted_with_its_deliveries(operator: Client):
    delivery = DeliveryFactory()
    address = f"/webhooks/{delivery.webhook.key}/delete/"
    operator.post(address, typed(text_of(operator, address)))
    assert (Webhook.objects.count(), Delivery.objects.count()) == (0, 0)


def test_webhook_test_redirects_to_its_delivery(operator: Client):
    row = WebhookFactory()
    answer = operator.post(f"/webhooks/{row.key}/test/")
    assert answer.url == f"/deliveries/{Delivery.objects.get().pk}/"


def test_delivery_page_shows_its_attempts_and_refreshes_itself(operator: Client):
    delivery = DeliveryFactory(attempt=1)
    delivery.attempts.create(number=1, status_code=500, milliseconds=12, error="answered 500", answer="no")
    page = text_of(operator, f"/deliveries/{delivery.pk}/")
    assert "answered 500" in page
    assert f'hx-get="/deliveries/{delivery.pk}/?seen=queued-1"' in page


def test_unchanged_delivery_page_returns_204(operator: Client):
    delivery = DeliveryFactory(attempt=1)
    address = f"/deliveries/{delivery.pk}/?seen=queued-1"
    assert operator.get(address, headers={"HX-Request": "true"}).status_code == 204


def test_failed_delivery_is_queued_again_by_replay(operator: Client):
    delivery = DeliveryFactory(status="failed", attempt=8)
    operator.post(f"/deliveries/{delivery.pk}/replay/")
    delivery.refresh_from_db()
    assert delivery.status == "queued"
