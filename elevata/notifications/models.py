"""Events, notices, webhooks, and deliveries."""

from typing import ClassVar
from uuid import uuid4

from django.conf import settings
from django.db import models

from elevata.audit.models import Versioned
from elevata.jobs import states
from elevata.jobs.models import Job, status_choices
from elevata.notifications.kinds import Kind


class Event(models.Model):
    """Event for users and programs, created in the transaction that it reports.

    ``link`` is the path of its page; ``facts`` are additional values for programs. Events with the same ``group`` are
    shown as one line; the value is the ``event_id`` of the first of them (``services.tell``).
    """

    event_id = models.UUIDField(unique=True, default=uuid4, editable=False)
    group = models.UUIDField(default=uuid4, editable=False, db_index=True)
    kind = models.CharField(max_length=40, choices=[(str(kind), str(kind)) for kind in Kind])
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    environment = models.CharField(max_length=50, blank=True, default="")
    subject_kind = models.CharField(max_length=40)
    subject_key = models.CharField(max_length=200)
    subject_name = models.CharField(max_length=400)
    title = models.CharField(max_length=500)
    link = models.CharField(max_length=500)
    facts = models.JSONField(default=dict)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["subject_kind", "subject_key", "kind"], name="event_of_subject")]

    def __str__(self) -> str:
        return self.title


class Notice(models.Model):
    """Notice: an event in a user's list."""

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="notices")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["user", "-id"], name="notice_of_user"),
            models.Index(fields=["user"], condition=models.Q(read_at__isnull=True), name="notice_unread"),
        ]
        constraints = [models.UniqueConstraint(fields=["event", "user"], name="notice_once")]

    def __str__(self) -> str:
        return f"{self.user}: {self.event}"


class NoticeChoice(models.Model):
    """Notification settings of a user; without a row, all events are listed and none is sent by e-mail."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    listed = models.JSONField(default=list)
    emailed = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"choice of {self.user}"


class Webhook(Versioned):
    """Address to which events are sent. ``secret`` names the variable with the signing secret.

    While ``former_secret`` names a variable, deliveries are signed with both secrets; an administrator clears it when
    the receiver uses the new one. An OpenLineage endpoint receives events of that standard, about loads only, and the
    secret is sent as its API key. Slack and Teams receive one line of text with a link.
    """

    class Format(models.TextChoices):
        SIGNED = "signed", "Signed JSON"
        OPENLINEAGE = "openlineage", "OpenLineage"
        SLACK = "slack", "Slack message"
        TEAMS = "teams", "Teams message"

    key = models.UUIDField(unique=True, default=uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=1000)
    format = models.CharField(max_length=20, choices=Format, default=Format.SIGNED)
    events = models.JSONField(default=list)
    secret = models.CharField(max_length=110)
    former_secret = models.CharField(max_length=110, blank=True, default="")
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                name="webhook_format_is_known",
                condition=models.Q(format__in=["signed", "openlineage", "slack", "teams"]),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Delivery(Job):
    """Job that delivers one event to one webhook, or to one user by e-mail.

    After a failed attempt it is queued again with a growing wait, up to ``max_attempts`` attempts. ``sent`` is the
    number of requests that the receiver has accepted: an OpenLineage endpoint gets several per event, and the next
    attempt continues after the last accepted one.
    """

    class Kind(models.TextChoices):
        WEBHOOK = "webhook_delivery", "Webhook delivery"
        EMAIL = "email_delivery", "E-mail delivery"

    KIND = Kind.WEBHOOK
    STATUSES: ClassVar = status_choices({states.QUEUED, states.RUNNING, states.SUCCEEDED, states.FAILED})

    job = models.OneToOneField(
        Job, on_delete=models.CASCADE, parent_link=True, primary_key=True, related_name="delivery_row"
    )
    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="deliveries")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    max_attempts = models.PositiveIntegerField()
    sent = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                name="delivery_to_one",
                condition=models.Q(webhook__isnull=False, user__isnull=True)
                | models.Q(webhook__isnull=True, user__isnull=False),
            ),
            models.UniqueConstraint(fields=["event", "webhook"], name="delivery_once_per_webhook"),
            models.UniqueConstraint(fields=["event", "user"], name="delivery_once_per_user"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook or self.user}"


class DeliveryAttempt(models.Model):
    """Result of one attempt: status and beginning of the response, or the error."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(auto_now_add=True)
    status_code = models.PositiveSmallIntegerField(null=True)
    milliseconds = models.PositiveIntegerField(null=True)
    answer = models.TextField(blank=True, default="")
    error = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="delivery_attempt_once")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.delivery}"
