"""Pages of webhooks and their deliveries, for administrators."""

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from elevata.accounts.places import Place
from elevata.audit.selectors import ShownEntry, fields_of, of_row
from elevata.lists.columns import Column
from elevata.notifications.deliveries import replay
from elevata.notifications.forms import NewWebhookForm, WebhookForm
from elevata.notifications.kinds import WORDS, Kind
from elevata.notifications.models import Delivery, Webhook
from elevata.notifications.selectors import KINDS, DeliveryFilter, deliveries, webhooks
from elevata.notifications.services import MANAGE, create_webhook, delete_webhook, send_test_event, update_webhook
from elevata.notifications.views import LATEST
from elevata.web.list_pages import ListPage
from elevata.web.requests import htmx_of
from elevata.web.views import ButtonPage, CreatePage, DeletePage, DetailPage, EditPage, Page, RowPage, TemplatePage


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
