"""Webhooks and deliveries, for administrators."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from metadata.change_log import of_row, shown
from metadata.domain.notices import WORDS, Kind
from metadata.domain.roles import Place
from metadata.forms.notices import DeleteWebhookForm, NewWebhookForm, WebhookForm
from metadata.models import Delivery, Webhook
from metadata.notice_lists import KINDS, DeliveryFilter, deliveries, webhooks
from metadata.permissions import permitted
from metadata.services.deliveries import replay
from metadata.services.webhooks import MANAGE, create_webhook, delete_webhook, test_webhook, update_webhook
from metadata.views.conflict import conflict, goes_on
from metadata.views.paging import filtered

LATEST = 20


@never_cache
@require_safe
@permitted(MANAGE, on=Place)
def webhook_list(request: HttpRequest) -> HttpResponse:
    """All webhooks, with what waits and what was given up."""
    return render(request, "notices/webhook_list.html", {"rows": webhooks()})


@never_cache
@require_safe
@permitted(MANAGE, on=Place)
def webhook_page(request: HttpRequest, key: UUID) -> HttpResponse:
    """One webhook: what it is told of, its last deliveries, who changed it."""
    row = _webhook(key)
    context = {
        "webhook": row,
        "events": [WORDS[Kind(kind)] for kind in row.events],
        "deliveries": deliveries().filter(webhook=row).prefetch_related("tried")[:LATEST],
        "changes": shown(of_row(row)[:LATEST]),
    }
    return render(request, "notices/webhook_page.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(MANAGE, on=Place)
def webhook_new(request: HttpRequest) -> HttpResponse:
    """Describe a webhook that is not there yet."""
    if request.method != "POST":
        return _form_page(request, NewWebhookForm())
    form = NewWebhookForm(request.POST)
    made = form.attempt(lambda: create_webhook(**form.described()))
    if made is None:
        return _form_page(request, form, status=422)
    messages.success(request, f"Webhook {made.name} is there. Send it a test.")
    return redirect("webhook_page", made.key)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(MANAGE, on=Place)
def webhook_edit(request: HttpRequest, key: UUID) -> HttpResponse:
    """Change a webhook. Who comes second sees both people's values."""
    row = _webhook(key)
    if request.method != "POST":
        return _form_page(request, WebhookForm.of(row), row)
    form = WebhookForm(request.POST)
    if goes_on(request):
        return _form_page(request, form, row)
    try:
        saved = form.attempt(lambda: update_webhook(webhook=row, expected_version=form.over, **form.changes()))
    except StaleVersion:
        now = _webhook(key)
        return conflict(request, form=form, now=WebhookForm.of(now), row=now, back=_address(now))
    if saved is None:
        return _form_page(request, form, row, status=422)
    messages.success(request, f"Webhook {saved.name} is saved.")
    return redirect("webhook_page", key)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(MANAGE, on=Place)
def webhook_delete(request: HttpRequest, key: UUID) -> HttpResponse:
    """Ask whether the webhook shall go, then delete it with its deliveries."""
    row = _webhook(key)
    if request.method != "POST":
        context = {"webhook": row, "form": DeleteWebhookForm.of(row), "count": row.deliveries.count()}
        return render(request, "notices/webhook_delete.html", context)
    form = DeleteWebhookForm(request.POST)
    if not form.is_valid():
        return redirect("webhook_delete", key)
    try:
        delete_webhook(webhook=row, expected_version=form.over)
    except StaleVersion:
        now = _webhook(key)
        again = DeleteWebhookForm.of(now)
        return conflict(request, form=form, now=again, row=now, back=_address(now), verb="Delete it all the same")
    messages.success(request, f"Webhook {row.name} is deleted.")
    return redirect("webhook_list")


@require_POST
@permitted(MANAGE, on=Place)
def webhook_test(request: HttpRequest, key: UUID) -> HttpResponse:
    """Send a test to the webhook, and show what comes of it."""
    return redirect("delivery_page", test_webhook(webhook=_webhook(key)).pk)


@never_cache
@require_safe
@permitted(MANAGE, on=Place)
def delivery_list(request: HttpRequest) -> HttpResponse:
    """Everything that was sent or is to be sent, newest first."""
    chosen, page = filtered(request, DeliveryFilter, deliveries())
    context = {
        "filter": chosen,
        "page": page,
        "kinds": KINDS,
        "states": Delivery.Status.choices,
        "webhooks": Webhook.objects.all(),
    }
    return render(request, "notices/delivery_list.html", context)


@never_cache
@require_safe
@permitted(MANAGE, on=Place)
def delivery_page(request: HttpRequest, pk: int) -> HttpResponse:
    """One delivery with its attempts; while it is under way, the page follows it."""
    delivery = get_object_or_404(deliveries(), pk=pk)
    seen = f"{delivery.status}-{delivery.attempts}"
    part = request.htmx and not request.htmx.boosted
    if part and request.GET.get("seen") == seen:
        return HttpResponse(status=204)
    context = {"delivery": delivery, "tried": delivery.tried.all(), "seen": seen}
    return render(request, "notices/delivery_state.html" if part else "notices/delivery_page.html", context)


@require_POST
@permitted(MANAGE, on=Place)
def delivery_replay(request: HttpRequest, pk: int) -> HttpResponse:
    """Send a delivery again that is over."""
    delivery = get_object_or_404(deliveries(), pk=pk)
    try:
        replay(delivery=delivery)
    except MetadataError as problem:
        messages.error(request, as_sentence(problem.message))
    return redirect("delivery_page", pk)


def _webhook(key: UUID) -> Webhook:
    return get_object_or_404(Webhook, key=key)


def _address(webhook: Webhook) -> str:
    return redirect("webhook_page", webhook.key).url


def _form_page(
    request: HttpRequest, form: NewWebhookForm | WebhookForm, row: Webhook | None = None, *, status: int = 200
) -> HttpResponse:
    return render(request, "notices/webhook_form.html", {"form": form, "webhook": row}, status=status)
