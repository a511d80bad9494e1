"""Tests of notices to users and webhooks, and of their deliveries."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.utils import timezone

from elevata.accounts.permissions import acting_as
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


def somebody(name: str, **fields: Any) -> User:
    user = User.objects.create_user(name, **fields)
    user.groups.add(Group.objects.get(name="viewer"))
    return user


def told(*people: User, kind: Kind = Kind.LOAD_FAILED, **fields: Any) -> Event:
    said = {"subject_kind": "load run", "subject_key": "r1", "subject_name": "r1", "title": "It failed", "link": "/x/"}
    with transaction.atomic():
        return services.tell(event=kind, users=people, **(said | fields))


# --- telling -----------------------------------------------------------------------------------


def test_each_person_concerned_has_one_notice():
    ada, bob = somebody("ada"), somebody("bob")
    told(ada, bob, ada)
    assert sorted(Notice.objects.values_list("user__username", flat=True)) == ["ada", "bob"]


def test_people_out_of_use_and_nobody_are_not_told():
    told(somebody("gone", is_active=False), None)
    assert not Notice.objects.exists()


def test_users_without_a_role_are_told_nothing():
    told(User.objects.create_user("nora", email="nora@example.org"))
    assert not Notice.objects.exists()
    assert not Delivery.objects.exists()


def test_every_webhook_that_wants_the_event_has_one_delivery():
    wanted = WebhookFactory(events=["load.failed"])
    WebhookFactory(events=["report.waiting"])
    WebhookFactory(events=["load.failed"], active=False)
    told()
    assert [one.webhook for one in Delivery.objects.all()] == [wanted]


def test_what_is_rolled_back_is_told_to_nobody():
    ada = somebody("ada")
    WebhookFactory()
    with transaction.atomic():
        told(ada)
        transaction.set_rollback(True)
    assert (Event.objects.count(), Notice.objects.count(), Delivery.objects.count()) == (0, 0, 0)


@pytest.mark.django_db(transaction=True)
def test_telling_outside_of_a_transaction_is_a_mistake():
    with pytest.raises(RuntimeError, match="in the transaction"):
        services.tell(
            event=Kind.LOAD_FAILED, subject_kind="x", subject_key="x", subject_name="x", title="x", link="/x/"
        )


def test_a_worker_is_woken_once_it_is_committed(django_capture_on_commit_callbacks, monkeypatch):
    woken = []
    monkeypatch.setattr("elevata.notifications.services.wake", woken.append)
    WebhookFactory()
    with django_capture_on_commit_callbacks(execute=True):
        told()
        assert woken == []
    assert woken == [Delivery.objects.get().pk]


def test_nobody_is_mailed_where_the_installation_sends_none(settings):
    settings.EMAIL_ENABLED = False
    ada = somebody("ada", email="ada@example.org")
    services.choose_events(user=ada, listed=[], emailed=["load.failed"])
    told(ada)
    assert not Delivery.objects.exists()


def test_only_who_chose_it_is_mailed(settings):
    settings.EMAIL_ENABLED = True
    ada, bob = somebody("ada", email="ada@example.org"), somebody("bob", email="bob@example.org")
    services.choose_events(user=ada, listed=["load.failed"], emailed=["load.failed"])
    told(ada, bob)
    assert [one.user for one in Delivery.objects.all()] == [ada]


def test_somebody_without_an_address_is_not_mailed(settings):
    settings.EMAIL_ENABLED = True
    ada = somebody("ada")
    services.choose_events(user=ada, listed=[], emailed=["load.failed"])
    told(ada)
    assert not Delivery.objects.exists()


def test_what_somebody_does_not_want_is_not_listed():
    ada = somebody("ada")
    services.choose_events(user=ada, listed=["report.waiting"], emailed=[])
    told(ada)
    assert not Notice.objects.exists()


def test_an_event_that_cannot_be_chosen_is_refused():
    with pytest.raises(MetadataError) as refused:
        services.choose_events(user=somebody("ada"), listed=["webhook.test"], emailed=[])
    assert (refused.value.code, refused.value.field) == ("unknown_event", "listed")


# --- grouping ----------------------------------------------------------------------------------


def earlier(event: Event, **ago: int) -> None:
    Event.objects.filter(pk=event.pk).update(at=timezone.now() - timedelta(**ago))


def test_events_of_one_kind_about_one_thing_are_one_group():
    first = told(somebody("ada"))
    earlier(first, days=3)
    assert told().group == first.group == first.event_id


def test_events_of_one_kind_within_minutes_are_one_group():
    first = told()
    assert told(subject_key="r2").group == first.group


def test_a_group_takes_no_other_things_after_some_minutes():
    first = told()
    earlier(first, minutes=11)
    second = told(subject_key="r2")
    assert second.group != first.group
    earlier(second, minutes=11)
    assert told(subject_key="r3").group == Event.objects.latest("pk").event_id


def test_a_group_about_several_things_takes_none_of_them_after_some_minutes():
    first = told()
    told(subject_key="r2")
    Event.objects.update(at=timezone.now() - timedelta(minutes=11))
    assert told().group != first.group


@pytest.mark.parametrize("other", [{"kind": Kind.DRIFT_FOUND}, {"environment": "prod"}])
def test_another_kind_or_environment_is_another_group(other: dict[str, Any]):
    assert told().group != told(**other).group


def test_groups_are_counted_as_one_and_read_as_one():
    ada = somebody("ada")
    told(ada)
    group = told(ada, subject_key="r2").group
    told(ada, kind=Kind.DRIFT_FOUND)
    assert unread_count(ada) == 2
    assert services.mark_read(user=ada, group=group) == 2
    assert unread_count(ada) == 1


def test_a_title_is_one_line():
    assert told(title="It failed:\n\n  twice").title == "It failed: twice"


# --- reading -----------------------------------------------------------------------------------


def test_reading_one_leaves_the_others_unread():
    ada = somebody("ada")
    first, second = NoticeFactory(user=ada), NoticeFactory(user=ada)
    assert services.mark_read(user=ada, notice=first) == 1
    second.refresh_from_db()
    assert second.read_at is None


def test_nobody_reads_for_others():
    notice = NoticeFactory(user=somebody("ada"))
    assert services.mark_read(user=somebody("eve"), notice=notice) == 0
    notice.refresh_from_db()
    assert notice.read_at is None


def test_when_something_was_read_first_stays():
    ada = somebody("ada")
    notice = NoticeFactory(user=ada, read_at=timezone.now() - timedelta(days=1))
    assert services.mark_read(user=ada) == 0
    assert Notice.objects.get().read_at == notice.read_at


def test_old_events_are_forgotten_but_not_while_something_is_to_be_sent():
    old, waiting = EventFactory(), DeliveryFactory().event
    Event.objects.update(at=timezone.now() - timedelta(days=91))
    young = EventFactory()
    services.forget_old_events()
    assert set(Event.objects.all()) == {waiting, young}
    assert old not in Event.objects.all()


# --- the life of a delivery ----------------------------------------------------------------------


def claimed() -> Attempt | None:
    job = next_work(lane=MESSAGES)
    return claim(job_pk=job.pk, worker="test") if job is not None else None


def end(outcome: Outcome) -> bool:
    return end_attempt(claimed(), outcome)


def fall_silent() -> None:
    """Let the worker of every delivery in progress fall silent."""
    Job.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=1))
    mark_lost()


def test_a_claimed_delivery_is_nobody_elses():
    made = DeliveryFactory()
    assert claimed() == Attempt(made.pk, 1)
    assert claimed() is None
    assert claim(job_pk=made.pk, worker="another") is None


def test_one_that_was_sent_is_done_and_says_what_was_answered():
    DeliveryFactory()
    end(Outcome(204, 12, "ok"))
    attempt = DeliveryAttempt.objects.get()
    assert (attempt.number, attempt.status_code, attempt.milliseconds, attempt.answer) == (1, 204, 12, "ok")
    assert Delivery.objects.get().status == "succeeded"


def test_one_that_failed_waits_before_it_is_tried_again():
    DeliveryFactory()
    end(Outcome(500, 12, "", "answered 500"))
    delivery = Delivery.objects.get()
    assert delivery.status == "queued"
    assert timedelta(seconds=15) < delivery.not_before - timezone.now() < timedelta(seconds=45)
    assert claimed() is None
    assert claim(job_pk=delivery.pk, worker="test") is None


def test_it_is_given_up_after_the_last_try():
    DeliveryFactory(attempt=MAX_ATTEMPTS - 1)
    end(Outcome(500, 12, "", "answered 500"))
    delivery = Delivery.objects.get()
    assert (delivery.status, delivery.error["message"]) == ("failed", "answered 500")


def test_what_will_never_succeed_is_not_tried_again():
    DeliveryFactory()
    end(Outcome(error="no public address", is_final=True))
    assert Delivery.objects.get().status == "failed"


def test_one_whose_worker_died_is_sent_again():
    delivery = DeliveryFactory()
    claimed()
    fall_silent()
    assert Delivery.objects.get().status == "queued"
    assert "sent its last heartbeat at" in delivery.attempts.get().error
    Job.objects.update(not_before=timezone.now())
    assert claimed().number == 2


def test_one_whose_worker_died_in_the_last_try_has_failed():
    DeliveryFactory(attempt=MAX_ATTEMPTS - 1)
    claimed()
    fall_silent()
    assert Delivery.objects.get().status == "failed"


def test_a_worker_that_was_given_up_writes_nothing_any_more():
    DeliveryFactory()
    slow = claimed()
    fall_silent()
    DeliveryAttempt.objects.all().delete()
    Job.objects.update(not_before=timezone.now())
    claimed()
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
    assert claimed() == Attempt(delivery.pk, MAX_ATTEMPTS + 1)
    again = Delivery.objects.get()
    assert (again.event, again.max_attempts) == (delivery.event, 2 * MAX_ATTEMPTS)


def test_a_replayed_delivery_that_fails_waits_as_after_a_first_try():
    deliveries.replay(delivery=DeliveryFactory(status="failed", attempt=MAX_ATTEMPTS))
    end(Outcome(500, 1, "", "answered 500"))
    assert Delivery.objects.get().not_before - timezone.now() < timedelta(minutes=1)


def test_a_replay_stands_in_the_change_log():
    with acting_as(ensure_user(name="root", roles=[Role.ADMIN])):
        deliveries.replay(delivery=DeliveryFactory(status="failed"), reason="they were down")
    entry = ChangeLogEntry.objects.get(subject_kind="delivery")
    assert (entry.action, entry.actor, entry.reason) == ("replayed", "root", "they were down")


def test_what_is_under_way_is_not_replayed():
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


def test_the_change_log_has_no_whole_address():
    row = services.create_webhook(**DESCRIBED)
    services.update_webhook(webhook=row, expected_version=1, url=DESCRIBED["url"] + "-2")
    row.refresh_from_db()
    services.delete_webhook(webhook=row, expected_version=2)
    entries = list(ChangeLogEntry.objects.filter(subject_kind="webhook"))
    assert [one.action for one in entries] == ["created", "changed", "deleted"]
    assert all("https://hooks.example.org/…" in one.changes for one in entries)
    assert not any("canary" in one.changes for one in entries)


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
def test_what_cannot_be_a_webhook_is_refused_at_its_field(field: str, value: Any, code: str):
    with pytest.raises(MetadataError) as refused:
        services.create_webhook(**(DESCRIBED | {field: value}))
    assert (refused.value.code, refused.value.field) == (code, field)
    assert not Webhook.objects.exists()


def test_two_of_one_name_are_refused():
    services.create_webhook(**DESCRIBED)
    with pytest.raises(MetadataError) as refused:
        services.create_webhook(**DESCRIBED)
    assert refused.value.code == "name_taken"


def test_who_comes_second_is_told():
    row = services.create_webhook(**DESCRIBED)
    services.update_webhook(webhook=row, expected_version=1, active=False)
    with pytest.raises(StaleVersion):
        services.update_webhook(webhook=row, expected_version=1, name="other")


@pytest.mark.parametrize("role", [Role.VIEWER, Role.EDITOR, Role.APPROVER, Role.OPERATOR])
def test_only_administrators_describe_webhooks(role: Role):
    with acting_as(ensure_user(name="ada", roles=[role])), pytest.raises(MetadataError) as refused:
        services.create_webhook(**DESCRIBED)
    assert refused.value.code == "not_permitted"


def test_a_test_goes_to_this_webhook_alone_even_out_of_use():
    WebhookFactory(events=["load.failed"])
    row = WebhookFactory(active=False)
    delivery = services.send_test_event(webhook=row)
    assert [one.webhook for one in Delivery.objects.all()] == [row]
    assert delivery.event.kind == "webhook.test"
