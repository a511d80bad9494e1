"""API of notices, webhooks and deliveries."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from elevata.accounts.places import Place
from elevata.api.requests import ChangeSerializer, NoParametersSerializer
from elevata.api.resources import AnyUser, Deletable, ReadOnly, permitted_to
from elevata.audit.services.transactions import writing
from elevata.notifications.deliveries import replay
from elevata.notifications.kinds import URL_LENGTH, WEBHOOK_CHOICES
from elevata.notifications.models import Delivery, DeliveryAttempt, Event, Notice, Webhook
from elevata.notifications.selectors import (
    DeliveryFilter,
    NoticeFilter,
    WebhookFilter,
    deliveries,
    notices_of,
    webhooks,
)
from elevata.notifications.services import (
    MANAGE,
    create_webhook,
    delete_webhook,
    mark_read,
    send_test_event,
    update_webhook,
)

EVENTS = [(str(kind), str(kind)) for kind in WEBHOOK_CHOICES]
_MANAGERS = permitted_to(MANAGE, on=Place)
_SECRET_HELP = "The name of the worker's environment variable that holds the secret; never the secret."


class EventSerializer(serializers.ModelSerializer):
    group = serializers.UUIDField(help_text="Shared by events that are one line of a user's list.")
    type = serializers.CharField(source="kind", help_text="What happened, for example load.failed.")

    class Meta:
        model = Event
        fields = (
            "event_id",
            "group",
            "type",
            "at",
            "environment",
            "subject_kind",
            "subject_key",
            "subject_name",
            "title",
            "link",
            "facts",
        )


class NoticeSerializer(serializers.ModelSerializer):
    event = EventSerializer(read_only=True)

    class Meta:
        model = Notice
        fields = ("id", "event", "read_at")


class WebhookSerializer(serializers.ModelSerializer):
    events = serializers.ListField(child=serializers.CharField())
    waiting = serializers.IntegerField(read_only=True, help_text="Deliveries still to be sent.")
    failed = serializers.IntegerField(read_only=True, help_text="Failed deliveries.")

    class Meta:
        model = Webhook
        fields = (
            "key",
            "name",
            "url",
            "format",
            "events",
            "secret",
            "former_secret",
            "active",
            "waiting",
            "failed",
            "version",
            "updated_at",
        )


class AttemptSerializer(serializers.ModelSerializer):
    class Meta:
        model = DeliveryAttempt
        fields = ("number", "at", "status_code", "milliseconds", "answer", "error")


class DeliverySerializer(serializers.ModelSerializer):
    event = EventSerializer(read_only=True)
    webhook: Any = serializers.SlugRelatedField(slug_field="key", read_only=True, allow_null=True)
    user: Any = serializers.SlugRelatedField(slug_field="username", read_only=True, allow_null=True)
    status = serializers.ChoiceField(choices=Delivery.STATUSES, read_only=True)
    next_at = serializers.DateTimeField(source="not_before", read_only=True)
    attempts = AttemptSerializer(many=True, read_only=True)

    class Meta:
        model = Delivery
        fields = ("id", "event", "webhook", "user", "status", "next_at", "finished_at", "attempts")


class WebhookChange(ChangeSerializer):
    name = serializers.CharField(max_length=100)
    url = serializers.CharField(max_length=URL_LENGTH)
    format = serializers.ChoiceField(choices=Webhook.Format.choices, required=False)
    events = serializers.ListField(child=serializers.ChoiceField(choices=EVENTS), max_length=len(EVENTS))
    secret = serializers.CharField(max_length=110, help_text=_SECRET_HELP)
    former_secret = serializers.CharField(max_length=110, required=False, allow_blank=True, help_text=_SECRET_HELP)
    active = serializers.BooleanField(required=False)


class ReadAnswer(serializers.Serializer):
    read = serializers.IntegerField(help_text="How many were unread before.")


class NoticeViewSet(ReadOnly):
    """Your own notices, newest first."""

    queryset = Notice.objects.none()
    serializer_class = NoticeSerializer
    filterset_class = NoticeFilter
    lookup_value_converter = "int"
    writes = AnyUser

    def get_queryset(self) -> QuerySet[Notice]:
        return notices_of(self.request.user)

    @extend_schema(request=NoParametersSerializer, responses=NoticeSerializer)
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def read(self, request: Request, pk: int) -> Response:
        """Mark a notice as read."""
        _, reason = self.given(NoParametersSerializer)
        notice = self.get_object()
        with writing(reason):
            mark_read(user=request.user, notice=notice)
        return self.answer(self.get_object())

    @extend_schema(operation_id="notices_read_all", request=NoParametersSerializer, responses=ReadAnswer)
    @action(detail=False, methods=["post"], url_path="read", filter_backends=(), pagination_class=None)
    def read_all(self, request: Request) -> Response:
        """Mark all notices as read."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            count = mark_read(user=request.user)
        return Response({"read": count})


@extend_schema_view(
    create=extend_schema(description="Create a webhook."),
    partial_update=extend_schema(description="Change a webhook. Queued deliveries go to the new address."),
    destroy=extend_schema(description="Delete a webhook with its deliveries."),
)
class WebhookViewSet(Deletable):
    """Webhooks: addresses that receive events by signed requests. For administrators."""

    queryset = Webhook.objects.none()
    serializer_class = WebhookSerializer
    create_serializer = change_serializer = WebhookChange
    subject, creating = "webhook", staticmethod(create_webhook)
    updating, deleting = staticmethod(update_webhook), staticmethod(delete_webhook)
    writes = _MANAGERS
    needs = {"list": _MANAGERS, "retrieve": _MANAGERS}
    filterset_class = WebhookFilter
    lookup_field = "key"
    lookup_value_converter = "uuid"

    def get_queryset(self) -> QuerySet[Webhook]:
        return webhooks()

    @extend_schema(request=NoParametersSerializer, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def test(self, request: Request, key: Any) -> Response:
        """Send a test event; see its delivery for the result."""
        _, reason = self.given(NoParametersSerializer)
        with writing(reason):
            delivery = send_test_event(webhook=self.get_object())
        return Response(DeliverySerializer(delivery).data, status=status.HTTP_202_ACCEPTED)


class DeliveryViewSet(ReadOnly):
    """Webhook deliveries and emails, newest first, with every attempt. For administrators."""

    queryset = Delivery.objects.none()
    serializer_class = DeliverySerializer
    writes = _MANAGERS
    needs = {"list": _MANAGERS, "retrieve": _MANAGERS}
    filterset_class = DeliveryFilter
    # The job's own number: the key to the job would overflow beyond its range.
    lookup_field, lookup_url_kwarg = "id", "pk"
    lookup_value_converter = "int"

    def get_queryset(self) -> QuerySet[Delivery]:
        return deliveries().prefetch_related("attempts")

    @extend_schema(request=NoParametersSerializer, responses={202: DeliverySerializer})
    @action(detail=True, methods=["post"], filter_backends=(), pagination_class=None)
    def replay(self, request: Request, pk: int) -> Response:
        """Send a finished delivery again: the same event, id and body."""
        _, reason = self.given(NoParametersSerializer)
        delivery = self.get_object()
        with writing(reason):
            again = replay(delivery=delivery, reason=reason)
        return Response(DeliverySerializer(again).data, status=status.HTTP_202_ACCEPTED)
