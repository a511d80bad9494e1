"""Notices, webhooks and deliveries for pages and the API, with filters."""

from typing import Any

import django_filters as filters
from django.db.models import Count, Q, QuerySet

from elevata.jobs import states
from elevata.notifications.kinds import WORDS
from elevata.notifications.models import Delivery, Notice, Webhook
from elevata.web.paging import StableOrdering, YesNoFilter

KINDS = [(str(kind), words) for kind, words in WORDS.items()]


def notices_of(user: Any) -> QuerySet[Notice]:
    """Return a user's own notices, newest first."""
    return Notice.objects.filter(user=user).select_related("event")


def unread_count(user: Any) -> int:
    return Notice.objects.filter(user=user, read_at__isnull=True).count()


def webhooks() -> QuerySet[Webhook]:
    """Return all webhooks by name, with their numbers of waiting and failed deliveries."""
    waiting = Q(deliveries__status__in=states.ACTIVE)
    failed = Q(deliveries__status=Delivery.Status.FAILED)
    return Webhook.objects.annotate(
        waiting=Count("deliveries", filter=waiting), failed=Count("deliveries", filter=failed)
    ).order_by("name", "pk")


def deliveries() -> QuerySet[Delivery]:
    """Return all deliveries, newest first."""
    return Delivery.objects.select_related("event", "webhook", "user")


class NoticeFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="event__title", lookup_expr="icontains", label="Text")
    kind = filters.ChoiceFilter(field_name="event__kind", choices=KINDS, label="Event")
    unread = filters.ChoiceFilter(method="only_unread", choices=(("true", "Unread"), ("false", "Read")), label="State")
    ordering = StableOrdering(fields=(("event__at", "at"),))

    class Meta:
        model = Notice
        fields = ()

    def only_unread(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(read_at__isnull=value == "true")


class WebhookFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", label="Text")
    active = YesNoFilter(field_name="active", label="Active")
    ordering = StableOrdering(fields=("name",))

    class Meta:
        model = Webhook
        fields = ()


class DeliveryFilter(filters.FilterSet):
    q = filters.CharFilter(field_name="event__title", lookup_expr="icontains", label="Text")
    status = filters.ChoiceFilter(choices=Delivery.STATUSES, label="State")
    kind = filters.ChoiceFilter(field_name="event__kind", choices=KINDS, label="Event")
    webhook = filters.ModelChoiceFilter(queryset=Webhook.objects.all(), to_field_name="key", label="Webhook")
    ordering = StableOrdering(fields=(("event__at", "at"), ("not_before", "next_at")))

    class Meta:
        model = Delivery
        fields = ()
