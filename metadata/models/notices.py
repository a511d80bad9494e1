"""Events, notices, webhooks, and deliveries."""

from uuid import uuid4

from django.conf import settings
from django.db import models

from metadata.domain.notices import Kind
from metadata.models.base import Versioned


class Event(models.Model):
    """Something that people and other programs are told of; written with the work it tells of.

    ``link`` is the path of the page to go to, ``facts`` what programs may want to know besides.
    """

    event_id = models.UUIDField(unique=True, default=uuid4, editable=False)
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

    def __str__(self) -> str:
        return self.title


class Notice(models.Model):
    """An event in one person's list."""

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="notices")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    read_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["person", "-id"], name="notice_of_person"),
            models.Index(fields=["person"], condition=models.Q(read_at__isnull=True), name="notice_unread"),
        ]
        constraints = [models.UniqueConstraint(fields=["event", "person"], name="notice_once")]

    def __str__(self) -> str:
        return f"{self.person}: {self.event}"


class NoticeChoice(models.Model):
    """Notification settings of a user; without a row: every event is listed, none is sent by e-mail."""

    person = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    listed = models.JSONField(default=list)
    emailed = models.JSONField(default=list)

    def __str__(self) -> str:
        return f"choice of {self.person}"


class Webhook(Versioned):
    """An address that events are sent to. ``secret`` names the variable that holds what signs them.

    ``former_secret`` names the one before, with which deliveries are signed, too, until the receiver
    knows the new one.
    """

    key = models.UUIDField(unique=True, default=uuid4, editable=False)
    name = models.CharField(max_length=100, unique=True)
    url = models.CharField(max_length=1000)
    events = models.JSONField(default=list)
    secret = models.CharField(max_length=110)
    former_secret = models.CharField(max_length=110, blank=True, default="")
    active = models.BooleanField(default=True)

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Delivery(models.Model):
    """One event on its way to one webhook, or to one person by e-mail.

    ``attempts`` counts its tries and fences their writes; it is given up after ``tries`` of them.
    While it is sending, ``next_at`` is when its worker counts as dead.
    """

    class Status(models.TextChoices):
        QUEUED = "queued", "Queued"
        SENDING = "sending", "Sending"
        SUCCEEDED = "succeeded", "Succeeded"
        FAILED = "failed", "Failed"

    event = models.ForeignKey(Event, on_delete=models.CASCADE, related_name="deliveries")
    webhook = models.ForeignKey(Webhook, on_delete=models.CASCADE, null=True, related_name="deliveries")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    attempts = models.PositiveIntegerField(default=0)
    tries = models.PositiveIntegerField()
    next_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["status", "next_at"], name="delivery_due")]
        constraints = [
            models.CheckConstraint(
                name="delivery_to_one",
                condition=models.Q(webhook__isnull=False, person__isnull=True)
                | models.Q(webhook__isnull=True, person__isnull=False),
            ),
            models.UniqueConstraint(fields=["event", "webhook"], name="delivery_once_per_webhook"),
            models.UniqueConstraint(fields=["event", "person"], name="delivery_once_per_person"),
        ]

    def __str__(self) -> str:
        return f"{self.event} to {self.webhook or self.person}"

    @property
    def is_finished(self) -> bool:
        return self.status in (self.Status.SUCCEEDED, self.Status.FAILED)


class DeliveryAttempt(models.Model):
    """Result of one attempt: the answer's status and beginning, or the error."""

    delivery = models.ForeignKey(Delivery, on_delete=models.CASCADE, related_name="tried")
    number = models.PositiveIntegerField()
    at = models.DateTimeField(auto_now_add=True)
    code = models.PositiveSmallIntegerField(null=True)
    milliseconds = models.PositiveIntegerField(null=True)
    answer = models.TextField(blank=True, default="")
    error = models.CharField(max_length=500, blank=True, default="")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["delivery", "number"], name="delivery_attempt_once")]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.delivery}"
