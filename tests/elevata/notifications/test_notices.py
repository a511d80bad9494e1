"""Tests of notices to users and webhooks, and of their deliveries."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.utils import timezone

from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import ensure_user
from elevata.audit.models import ChangeLogEntry
from elevata.core.errors import MetadataError, StaleVersion
from elevata.jobs.models import Job
from elevata.jobs.registry import MESSAGES, next_work
from elevata.jobs.services import Attempt, claim, mark_lost
from elevata.notifications import deliveries, services
from elevata.notifications.deliveries import Outcome, end_attempt
from elevata.notifications.kinds import Kind
from elevata.notifications.models import Delivery, DeliveryAttempt, Event, Notice, Webhook
from elevata.notifications.selectors import unread_count
from elevata.notifications.webhook_requests import MAX_ATTEMPTS
from tests.factories import DeliveryFactory, EventFactory, NoticeFactory, WebhookFactory

pytestmark = pytest.mark.django_db


def create_user(name: str, **fields: Any) -> User:
    user = User.objects.create_user(name, **fields)
    user.groups.add(Group.objects.get(name="viewer"))
    return user


def notify(*people: User, kind: Kind = Kind.LOAD_FAILED, **changes: Any) -> Event:
    fields = {
        "subject_kind": "load run",
        "subject_key": "r1",
        "subject_name": "r1",
        "title": "It failed",
        "link": "/x/",
    }
    with transaction.atomic():
        return services.tell(event=kind, users=people, **(fields | changes))


# --- events ------------------------------------------------------------------------------------


def test_event_creates_one_notice_for_each_user():
    ada, bob = create_user("ada"), create_user("bob")
    notify(ada, bob, ada)
    assert sorted(Notice.objects.values_list("user__username", flat=True)) == ["ada", "bob"]


def test_inactive_users_get_no_notice():
    notify(create_user("gone", is_active=False), None)
    assert not Notice.objects.exists()


def test_users_without_a_role_get_no_notice_and_no_delivery():
    notify(User.objects.create_user("nora", email="nora@example.org"))
    assert not Notice.objects.exists()
    assert not Delivery.objects.exists()


def test_event_creates_one_delivery_for_each_active_webhook_that_lists_it():
    wanted = WebhookFactory(events=["load.failed"])
    WebhookFactory(events=["report.waiting"])
    WebhookFactory(events=["load.failed"], active=False)
    notify()
    assert [delivery.webhook for delivery in Delivery.objects.all()] == [wanted]


def test_rolled_back_event_leaves_no_notice_and_no_delivery():
    ada = create_user("ada")
    WebhookFactory()
    with transaction.atomic():
        notify(ada)
        transaction.set_rollback(True)
    assert (Event.objects.count(), Notice.objects.count(), Delivery.objects.count()) == (0, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_event_outside_a_transaction_is_refused():
    with pytest.raises(RuntimeError, match="in the transaction"):
        services.tell(
            event=Kind.LOAD_FAILED, subject_kind="x", subject_key="x", subject_name="x", title="x", link="/x/"
        )


def test_worker_is_woken_after_the_event_is_committed(django_capture_on_commit_callbacks, monkeypatch):
    woken = []
    monkeypatch.setattr("elevata.notifications.services.wake", woken.append)
    WebhookFactory()
    with django_capture_on_commit_callbacks(execute=True):
        notify()
        assert woken == []
    assert woken == [Delivery.objects.get().pk]


def test_mail_delivery_is_not_created_if_email_is_disabled(settings):
    settings.EMAIL_ENABLED = False
    ada = create_user("ada", email="ada@example.org")
    services.choose_events(user=ada, listed=[], emailed=["load.failed"])
    notify(ada)
    assert not Delivery.objects.exists()


def test_mail_delivery_is_created_only_for_users_who_chose_the_event(settings):
    settings.EMAIL_ENABLED = True
    ada, bob = create_user("ada", email="ada@example.org"), create_user("bob", email="bob@example.org")
    services.choose_events(user=ada, listed=["load.failed"], emailed=["load.failed"])
    notify(ada, bob)
    assert [delivery.user for delivery in Delivery.objects.all()] == [ada]


def test_user_without_an_address_gets_no_mail_delivery(settings):
    settings.EMAIL_ENABLED = True
    ada = create_user("ada")
    services.choose_events(user=ada, listed=[], emailed=["load.failed"])
    notify(ada)
    assert not Delivery.objects.exists()


def test_event_that_a_user_did_not_choose_creates_no_notice():
    ada = create_user("ada")
    services.choose_events(user=ada, listed=["report.waiting"], emailed=[])
    notify(ada)
    assert not Notice.objects.exists()


def test_an_event_that_cannot_be_chosen_is_refused():
    with pytest.raises(MetadataError) as refused:
        services.choose_events(user=create_user("ada"), listed=["webhook.test"], emailed=[])
    assert (refused.value.code, refused.value.field) == ("unknown_event", "listed")


# --- grouping ----------------------------------------------------------------------------------


def earlier(event: Event, **ago: int) -> None:
    Event.objects.filter(pk=event.pk).update(at=timezone.now() - timedelta(**ago))


def test_events_of_one_kind_about_one_thing_are_one_group():
    first = notify(create_user("ada"))
    earlier(first, days=3)
    assert notify().group == first.group == first.event_id


def test_events_of_one_kind_within_minutes_are_one_group():
    first = notify()
    assert notify(subject_key="r2").group == first.group


def test_group_excludes_other_subjects_after_ten_minutes():
    first = notify()
    earlier(first, minutes=11)
    second = notify(subject_key="r2")
    assert second.group != first.group
    earlier(second, minutes=11)
    assert notify(subject_key="r3").group == Event.objects.latest("pk").event_id


def test_group_with_several_subjects_excludes_further_events_after_ten_minutes():
    first = notify()
    notify(subject_key="r2")
    Event.objects.update(at=timezone.now() - timedelta(minutes=11))
    assert notify().group != first.group


@pytest.mark.parametrize("other", [{"kind": Kind.DRIFT_FOUND}, {"environment": "prod"}])
def test_another_kind_or_environment_is_another_group(other: dict[str, Any]):
    assert notify().group != notify(**other).group


def test_groups_are_counted_as_one_and_read_as_one():
    ada = create_user("ada")
    notify(ada)
    group = notify(ada, subject_key="r2").group
    notify(ada, kind=Kind.DRIFT_FOUND)
    assert unread_count(ada) == 2
    assert services.mark_read(user=ada, group=group) == 2
    assert unread_count(ada) == 1


def test_a_title_is_one_line():
    assert notify(title="It failed:\n\n  twice").title == "It failed: twice"


# --- reading -----------------------------------------------------------------------------------


def test_marking_a_notice_as_read_keeps_other_notices_unread():
    ada = create_user("ada")
    first, second = NoticeFactory(user=ada), NoticeFactory(user=ada)
    assert services.mark_read(user=ada, notice=first) == 1
    second.refresh_from_db()
    assert second.read_at is None


def test_notices_of_other_users_are_not_marked_as_read():
    notice = NoticeFactory(user=create_user("ada"))
    assert services.mark_read(user=create_user("eve"), notice=notice) == 0
    notice.refresh_from_db()
    assert notice.read_at is None


def test_marking_a_read_notice_keeps_its_first_time():
    ada = create_user("ada")
    notice = NoticeFactory(user=ada, read_at=timezone.now() - timedelta(days=1))
    assert services.mark_read(user=ada) == 0
    assert Notice.objects.get().read_at == notice.read_at


def test_old_events_are_deleted_unless_a_delivery_is_queued():
    old, waiting = EventFactory(), DeliveryFactory().event
    Event.objects.update(at=timezone.now() - timedelta(days=91))
    young = EventFactory()
    services.forget_old_events()
    assert set(Event.objects.all()) == {waiting, young}
    assert old not in Event.objects.all()


# --- states of a delivery ------------------------------------------------------------------------


def claim_next() -> Attempt | None:
    job = next_work(lane=MESSAGES)
    return claim(job_pk=job.pk, worker="test") if job is not None else None


def end(outcome: Outcome) -> bool:
    return end_attempt(claim_next(), outcome)


def lose_workers() -> None:
    """Mark all deliveries in progress as lost after an old heartbeat."""
    Job.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    mark_lost()


def test_claimed_delivery_cannot_be_claimed_again():
    delivery = DeliveryFactory()
    assert claim_next() == Attempt(delivery.pk, 1)
    assert claim_next() is None
    assert claim(job_pk=delivery.pk, worker="another") is None


def test_sent_delivery_succeeds_and_stores_the_answer():
    DeliveryFactory()
    end(Outcome(204, 12, "ok"))
    attempt = DeliveryAttempt.objects.get()
    assert (attempt.number, attempt.status_code, attempt.milliseconds, attempt.answer) == (1, 204, 12, "ok")
    assert Delivery.objects.get().status == "succeeded"


def test_failed_delivery_waits_before_its_next_attempt():
    DeliveryFactory()
    end(Outcome(500, 12, "", "answered 500"))
    delivery = Delivery.objects.get()
    assert delivery.status == "queued"
    assert timedelta(seconds=15) < delivery.not_before - timezone.now() < timedelta(seconds=45)
    assert claim_next() is None
    assert claim(job_pk=delivery.pk, worker="test") is None


def test_delivery_fails_after_its_last_attempt():
    DeliveryFactory(attempt=MAX_ATTEMPTS - 1)
    end(Outcome(500, 12, "", "answered 500"))
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.error["message"]) == ("failed", "answered 500")


def test_delivery_with_a_final_error_is_not_retried():
    DeliveryFactory()
    end(Outcome(error="no public address", is_final=True))
    assert Delivery.objects.get().status == "failed"


def test_delivery_of_a_lost_worker_is_queued_again():
    delivery = DeliveryFactory()
    claim_next()
    lose_workers()
    assert Delivery.objects.get().status == "queued"
    assert "sent its last heartbeat at" in delivery.attempts.get().error
    Job.objects.update(not_before=timezone.now())
    assert claim_next().number == 2


def test_delivery_fails_if_its_worker_is_lost_in_the_last_attempt():
    DeliveryFactory(attempt=MAX_ATTEMPTS - 1)
    claim_next()
    lose_workers()
    assert Delivery.objects.get().status == "failed"


def test_outcome_of_a_lost_worker_is_ignored():
    DeliveryFactory()
    slow = claim_next()
    lose_workers()
    DeliveryAttempt.objects.all().delete()
    Job.objects.update(not_before=timezone.now())
    claim_next()
    assert not end_attempt(slow, Outcome(200, 1))
    assert not DeliveryAttempt.objects.exists()
    assert Delivery.objects.get().status == "running"


def test_an_answer_is_kept_up_to_a_bound_and_without_nul():
    DeliveryFactory()
    end(Outcome(200, 1, "\x00" + "x" * 10_000))
    answer = DeliveryAttempt.objects.get().answer
    assert len(answer) == 2000
    assert "\x00" not in answer


@pytest.mark.parametrize("status", ["failed", "succeeded"])
def test_a_replay_sends_the_same_event_again_with_all_its_tries(status: str):
    delivery = DeliveryFactory(status=status, attempt=MAX_ATTEMPTS)
    deliveries.replay(delivery=delivery)
    assert claim_next() == Attempt(delivery.pk, MAX_ATTEMPTS + 1)
    again = Delivery.objects.get()
    assert (again.event, again.max_attempts) == (delivery.event, 2 * MAX_ATTEMPTS)


def test_a_replayed_delivery_that_fails_waits_as_after_a_first_try():
    deliveries.replay(delivery=DeliveryFactory(status="failed", attempt=MAX_ATTEMPTS))
    end(Outcome(500, 1, "", "answered 500"))
    assert Delivery.objects.get().not_before - timezone.now() < timedelta(minutes=1)


def test_replay_is_logged_with_actor_and_reason():
    with acting_as(ensure_user(name="root", roles=[Role.ADMIN])):
        deliveries.replay(delivery=DeliveryFactory(status="failed"), reason="they were down")
    entry = ChangeLogEntry.objects.get(subject_kind="delivery")
    assert (entry.action, entry.actor, entry.reason) == ("replayed", "root", "they were down")


def test_replay_of_a_queued_delivery_is_refused():
    with pytest.raises(MetadataError) as refused:
        deliveries.replay(delivery=DeliveryFactory())
    assert refused.value.code == "still_going"


# --- webhooks ----------------------------------------------------------------------------------

DESCRIBED = {
    "name": "team",
    "url": "https://hooks.example.org/services/T0/canary-in-the-path",
    "events": ["load.failed"],
    "secret": "ELEVATA_WEBHOOK_SECRET_TEAM",
}


def test_change_log_omits_the_path_of_a_webhook_url():
    row = services.create_webhook(**DESCRIBED)
    services.update_webhook(webhook=row, expected_version=1, url=DESCRIBED["url"] + "-2")
    row.refresh_from_db()
    services.delete_webhook(webhook=row, expected_version=2)
    entries = list(ChangeLogEntry.objects.filter(subject_kind="webhook"))
    assert [entry.action for entry in entries] == ["created", "changed", "deleted"]
    assert all("https://hooks.example.org/…" in entry.changes for entry in entries)
    assert not any("canary" in entry.changes for entry in entries)


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("name", " ", "invalid"),
        ("name", "x" * 101, "invalid"),
        ("url", "ftp://x/", "bad_url"),
        ("events", [], "invalid"),
        ("events", ["report.waited"], "unknown_event"),
        ("secret", "DATABASE_URL", "bad_secret"),
        ("former_secret", "ELEVATA_SECRET_KEY", "bad_secret"),
        ("version", 7, "unknown_field"),
    ],
)
def test_invalid_webhook_is_refused_with_its_field(field: str, value: Any, code: str):
    with pytest.raises(MetadataError) as refused:
        services.create_webhook(**(DESCRIBED | {field: value}))
    assert (refused.value.code, refused.value.field) == (code, field)
    assert not Webhook.objects.exists()


def test_webhook_with_an_existing_name_is_refused():
    services.create_webhook(**DESCRIBED)
    with pytest.raises(MetadataError) as refused:
        services.create_webhook(**DESCRIBED)
    assert refused.value.code == "name_taken"


def test_update_of_a_webhook_refuses_a_stale_version():
    row = services.create_webhook(**DESCRIBED)
    services.update_webhook(webhook=row, expected_version=1, active=False)
    with pytest.raises(StaleVersion):
        services.update_webhook(webhook=row, expected_version=1, name="other")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR, Role.APPROVER, Role.OPERATOR])
def test_create_webhook_refuses_users_who_are_not_admins(role: Role):
    with acting_as(ensure_user(name="ada", roles=[role])), pytest.raises(MetadataError) as refused:
        services.create_webhook(**DESCRIBED)
    assert refused.value.code == "not_permitted"


def test_test_event_is_delivered_only_to_its_webhook_even_if_inactive():
    WebhookFactory(events=["load.failed"])
    row = WebhookFactory(active=False)
    delivery = services.send_test_event(webhook=row)
    assert [delivery.webhook for delivery in Delivery.objects.all()] == [row]
    assert delivery.event.kind == "webhook.test"
