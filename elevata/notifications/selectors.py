"""Notices, webhooks and deliveries for pages and the API, with filters."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import django_filters as filters
from django.db.models import Count, F, Max, Q, QuerySet

from elevata.jobs import states
from elevata.notifications.kinds import WORDS
from elevata.notifications.models import Delivery, Notice, Webhook
from elevata.web.list_filters import StableOrdering, YesNoFilter

KINDS = [(str(kind), words) for kind, words in WORDS.items()]


def notices_of(user: Any) -> QuerySet[Notice]:
    """Return a user's own notices, newest first."""
    return Notice.objects.filter(user=user).select_related("event")


@dataclass(frozen=True)
class NoticeGroup:
    """Line of the list: the newest notice of a group, and the numbers of its notices and of the unread ones."""

    notice: Notice
    count: int = 1
    unread: int = 0


def newest_of_groups(notices: QuerySet[Notice]) -> QuerySet[Notice]:
    """Return the newest of these notices in each group, in their order."""
    newest = notices.order_by().values("event__group").annotate(newest=Max("pk")).values("newest")
    return notices.filter(pk__in=newest)


def groups_of(user: Any, notices: Iterable[Notice]) -> list[NoticeGroup]:
    """Return the groups of these notices, with the numbers of all notices of the user in each."""
    shown = list(notices)
    own = Notice.objects.filter(user=user, event__group__in={notice.event.group for notice in shown}).order_by()
    counts = own.values_list("event__group").annotate(
        count=Count("pk"), unread=Count("pk", filter=Q(read_at__isnull=True))
    )
    known = {group: numbers for group, *numbers in counts}
    return [NoticeGroup(notice, *known[notice.event.group]) for notice in shown]


def unread_count(user: Any) -> int:
    """Return the number of groups with unread notices."""
    unread = Notice.objects.filter(user=user, read_at__isnull=True)
    return unread.order_by().values("event__group").distinct().count()


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
    group = filters.UUIDFilter(field_name="event__group", label="Group")
    ordering = StableOrdering(
        fields=(("event__at", "at"), ("event__title", "event"), ("event__environment", "environment"))
    )

    class Meta:
        model = Notice
        fields = ()

    def only_unread(self, queryset: QuerySet, name: str, value: str) -> QuerySet:
        return queryset.filter(read_at__isnull=value == "true")


class NoticeGroupFilter(NoticeFilter):
    """Filter of the page: one notice for each group, or all of the group that the address names."""

    def filter_queryset(self, queryset: QuerySet) -> QuerySet:
        notices = super().filter_queryset(queryset)
        return notices if self.form.cleaned_data.get("group") else newest_of_groups(notices)


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
    ordering = StableOrdering(
        fields=(
            ("event__at", "at"),
            ("not_before", "next_at"),
            ("event__title", "event"),
            "status",
            ("attempt", "tries"),
        ),
        computed={"to": F("webhook__name")},
    )

    class Meta:
        model = Delivery
        fields = ()
