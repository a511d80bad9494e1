"""Pages of notices, notification settings, webhooks and deliveries."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST, require_safe

from elevata.accounts.permissions import for_everybody, may
from elevata.accounts.roles import Place
from elevata.audit.selectors import ShownEntry, fields_of, of_row
from elevata.lists.columns import Column
from elevata.notifications.deliveries import replay
from elevata.notifications.forms import NewWebhookForm, NoticeChoiceForm, ReadForm, WebhookForm
from elevata.notifications.kinds import WORDS, Kind
from elevata.notifications.models import Delivery, Notice, Webhook
from elevata.notifications.selectors import (
    KINDS,
    DeliveryFilter,
    NoticeGroup,
    NoticeGroupFilter,
    deliveries,
    groups_of,
    notices_of,
    unread_count,
    webhooks,
)
from elevata.notifications.services import (
    MANAGE,
    choices_of,
    choose_events,
    create_webhook,
    delete_webhook,
    mark_read,
    send_test_event,
    update_webhook,
)
from elevata.web.requests import htmx_of, user_of
from elevata.web.views import (
    ButtonPage,
    CreatePage,
    DeletePage,
    DetailPage,
    EditPage,
    FormPage,
    ListPage,
    Page,
    RowPage,
    TemplatePage,
)

MAX_SHOWN = 99
LATEST = 20


class NoticeList(ListPage):
    """List of the user's own notices by group, newest first; with ``?group=``, all notices of one group."""

    filterset = NoticeGroupFilter
    template_name = "notifications/notice_list.html"
    columns: ClassVar = (
        Column(
            "Event",
            {
                "event": "notice.event.title",
                "kind": "notice.event.kind",
                "notices": "count",
                "unread": "unread",
            },
            sort="event",
        ),
        Column("Environment", {"environment": "notice.event.environment"}, sort="environment"),
        Column("When", {"at": "notice.event.at"}, sort="at", descends=True),
    )

    def listed(self) -> Any:
        return notices_of(self.request.user)

    @property
    def is_group(self) -> bool:
        return "group" in self.request.GET

    def detailed(self, rows: Sequence[Notice]) -> Sequence[NoticeGroup]:
        if self.is_group:
            return [NoticeGroup(row, unread=int(row.read_at is None)) for row in rows]
        return groups_of(self.request.user, rows)

    def context(self) -> dict[str, Any]:
        user = self.request.user
        return super().context() | {
            "rows": self.detailed_page,
            "is_group": self.is_group,
            "kinds": KINDS,
            "read_states": (("true", "unread"), ("false", "read")),
            "unread": unread_count(user),
            "may_manage": may(user, MANAGE),
        }


@require_safe
def notice_bell(request: HttpRequest) -> HttpResponse:
    """Show the number of unread notices; loaded after the page, so that no page waits for it."""
    unread = unread_count(request.user)
    context = {"unread": unread, "shown": f"{MAX_SHOWN}+" if unread > MAX_SHOWN else unread}
    return render(request, "parts/notice_bell.html", context)


@require_safe
def notice_go(request: HttpRequest, pk: int) -> HttpResponse:
    """Mark a notice as read and redirect to the page of its event."""
    notice = get_object_or_404(notices_of(request.user), pk=pk)
    mark_read(user=request.user, notice=notice)
    # The links come from the product; a link to another host is not followed nevertheless.
    is_inside = url_has_allowed_host_and_scheme(notice.event.link, allowed_hosts=None)
    return redirect(notice.event.link if is_inside else "notice_list")


@require_POST
@for_everybody
def notices_read(request: HttpRequest) -> HttpResponse:
    """Mark one notice, those of a group, or all as read."""
    form = ReadForm(request.POST)
    if form.is_valid():
        pk = form.cleaned_data["notice"]
        notice = get_object_or_404(notices_of(request.user), pk=pk) if pk is not None else None
        mark_read(user=request.user, notice=notice, group=form.cleaned_data["group"])
    return redirect("notice_list")


class NoticeSettings(FormPage):
    """Page of the user's notification settings."""

    permissions = ()
    form_class = NoticeChoiceForm
    template_name = "notifications/notice_settings.html"
    message = "Notification settings saved."

    def options(self) -> dict[str, Any]:  # type: ignore[override]  # pages do not answer OPTIONS
        choice = choices_of(self.request.user)
        address = user_of(self.request).email
        return {"initial": {"listed": choice.listed, "emailed": choice.emailed, "address": address}}

    def context(self) -> dict[str, Any]:
        return {"mails": settings.EMAIL_ENABLED, "may_manage": may(self.request.user, MANAGE)}

    def save(self, form: NoticeChoiceForm) -> Any:
        return choose_events(user=self.request.user, **form.cleaned_data)

    def address(self, row: Any) -> str:
        return reverse("notice_settings")


# Webhooks and deliveries, for administrators.


class ForManagers(Page):
    """Base of pages that need the permission to manage webhooks everywhere."""

    permissions, place = (MANAGE,), Place


class WebhookList(ForManagers, TemplatePage):
    """List of webhooks, with their numbers of queued and failed deliveries."""

    template_name = "notifications/webhook_list.html"

    def context(self) -> dict[str, Any]:
        return {"rows": webhooks()}


class WebhookPage(ForManagers, RowPage):
    """Base of the pages about one webhook."""

    model, name, page = Webhook, "webhook", "webhook_page"


class WebhookDetail(WebhookPage, DetailPage):
    """Page of a webhook: events, latest deliveries and changes."""

    template_name = "notifications/webhook_page.html"

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "events": [WORDS[Kind(kind)] for kind in self.row.events],
            "deliveries": deliveries().filter(webhook=self.row).prefetch_related("attempts")[:LATEST],
            "changes": [ShownEntry(entry, fields_of(entry)) for entry in of_row(self.row)[:LATEST]],
        }


class WebhookCreate(ForManagers, CreatePage):
    """Page to create a webhook."""

    form_class, service, page = NewWebhookForm, staticmethod(create_webhook), "webhook_page"
    template_name = "notifications/webhook_form.html"
    message = "Webhook {row.name} created. Send a test event."


class WebhookEdit(WebhookPage, EditPage):
    """Page to change a webhook."""

    form_class, service = WebhookForm, staticmethod(update_webhook)
    template_name = "notifications/webhook_form.html"
    message = "Webhook {row.name} is saved."


class WebhookDelete(WebhookPage, DeletePage):
    """Page to delete a webhook with its deliveries."""

    service, list_page = staticmethod(delete_webhook), "webhook_list"
    template_name = "notifications/webhook_delete.html"
    message = "Webhook {row.name} is deleted."

    def context(self) -> dict[str, Any]:
        return super().context() | {"count": self.row.deliveries.count()}


class WebhookTest(WebhookPage, ButtonPage):
    """Button that sends a test event to the webhook."""

    def act(self) -> str:
        return reverse("delivery_page", args=[send_test_event(webhook=self.row).pk])


class DeliveryList(ForManagers, ListPage):
    """List of all deliveries, newest first."""

    filterset = DeliveryFilter
    template_name = "notifications/delivery_list.html"
    columns: ClassVar = (
        Column("Event", {"event": "event.title", "kind": "event.kind"}, sort="event"),
        Column("To", {"webhook": lambda row: row.webhook and row.webhook.name, "user": "user"}, sort="to"),
        Column("State", {"state": "status"}, sort="status"),
        Column("Tries", {"tries": "attempt"}, sort="tries", descends=True, kind="num"),
        Column("When", {"at": "event.at"}, sort="at", descends=True),
    )
    file_name = "deliveries"
    listed = staticmethod(deliveries)

    def context(self) -> dict[str, Any]:
        return super().context() | {
            "kinds": KINDS,
            "states": [(status, label.lower()) for status, label in Delivery.STATUSES],
            "webhooks": list(Webhook.objects.values_list("key", "name")),
        }


class DeliveryPage(ForManagers, RowPage):
    """Base of the pages about one delivery."""

    rows = staticmethod(deliveries)
    name, by, page = "delivery", "pk", "delivery_page"


class DeliveryDetail(DeliveryPage, DetailPage):
    """Page of a delivery with its attempts; it refreshes itself until the delivery is finished."""

    template_name = "notifications/delivery_page.html"

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        seen = f"{self.row.status}-{self.row.attempt}"
        is_part = htmx_of(request) and not htmx_of(request).boosted
        if is_part and request.GET.get("seen") == seen:
            return HttpResponse(status=204)
        template = "notifications/delivery_state.html" if is_part else ""
        return self.render(template, attempts=self.row.attempts.all(), seen=seen)


class DeliveryReplay(DeliveryPage, ButtonPage):
    """Button that sends a finished delivery again."""

    def act(self) -> None:
        replay(delivery=self.row)
