"""Lists of notices, webhooks and webhook deliveries for pages and the API: selectors and filters."""

from typing import Any

import django_filters as filters
from django.db.models import Count, Q, QuerySet

from metadata.domain.notices import WORDS
from metadata.filtersets import StableOrdering, YesNoFilter
from metadata.models import Delivery, Notice, Webhook

KINDS = [(str(kind), words) for kind, words in WORDS.items()]


def notices_of(person: Any) -> QuerySet[Notice]:
    """Somebody's own notices, newest first; there is no way to anybody else's."""
    return Notice.objects.filter(person=person).select_related("event")


def unread_count(person: Any) -> int:
    return Notice.objects.filter(person=person, read_at__isnull=True).count()


def webhooks() -> QuerySet[Webhook]:
    """All webhooks by name, each with how many deliveries wait and were given up."""
    waiting = Q(deliveries__status__in=(Delivery.Status.QUEUED, Delivery.Status.SENDING))
    failed = Q(deliveries__status=Delivery.Status.FAILED)
    return Webhook.objects.annotate(
        waiting=Count("deliveries", filter=waiting), failed=Count("deliveries", filter=failed)
    ).order_by("name", "pk")


def deliveries() -> QuerySet[Delivery]:
    """All deliveries, newest first."""
    return Delivery.objects.select_related("event", "webhook", "person")


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
    status = filters.ChoiceFilter(choices=Delivery.Status.choices, label="State")
    kind = filters.ChoiceFilter(field_name="event__kind", choices=KINDS, label="Event")
    webhook = filters.ModelChoiceFilter(queryset=Webhook.objects.all(), to_field_name="key", label="Webhook")
    ordering = StableOrdering(fields=(("event__at", "at"), "next_at"))

    class Meta:
        model = Delivery
        fields = ()
