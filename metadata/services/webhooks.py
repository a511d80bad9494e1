"""Webhooks, which administrators manage. The change log never contains a whole URL."""

from typing import Any

from django.utils import timezone

from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from metadata.domain.notices import Kind, check_kinds, check_secret_name, check_url, shown_url
from metadata.domain.roles import Permission
from metadata.models import Delivery, Webhook
from metadata.permissions import may
from metadata.services.actor import current_actor
from metadata.services.changelog import record_change, record_why
from metadata.services.common import assign, check_fields, claim, remove, store, writing
from metadata.services.notices import deliver_to, tell

# What leaves the installation is about all of it: a role for one place does not count.
MANAGE = Permission.MANAGE_WEBHOOKS
FIELDS = ("name", "url", "events", "secret", "former_secret", "active")


def create_webhook(*, name: str, url: str, **described: Any) -> Webhook:
    """Create a webhook: ``events`` and ``secret`` are required; it is ``active`` by default.

    Raises MetadataError for the field: ``bad_url``, ``bad_secret``, ``unknown_event``, ``name_taken``.
    """
    with writing():
        must_manage()
        webhook = Webhook()
        assign(webhook, _plain({"name": name, "url": url, **described}), FIELDS)
        _check(webhook)
        store(webhook)
        _log("created", webhook, after=told(webhook))
        return webhook


def update_webhook(*, webhook: Webhook, expected_version: int, **changes: Any) -> Webhook:
    """Change fields of a webhook; StaleVersion if it was changed meanwhile.

    Queued deliveries go to the new URL.
    """
    with writing():
        must_manage()
        row = claim(webhook, expected_version)
        before = told(row)
        if not assign(row, _plain(changes), FIELDS):
            return row
        _check(row)
        store(row)
        after = told(row)
        _log("renamed" if before["name"] != after["name"] else "changed", row, before=before, after=after)
        return row


def delete_webhook(*, webhook: Webhook, expected_version: int) -> None:
    """Delete a webhook with its deliveries."""
    with writing():
        must_manage()
        row = claim(webhook, expected_version)
        _log("deleted", row, before=told(row))
        remove([row])


def test_webhook(*, webhook: Webhook) -> Delivery:
    """Send a test event to this webhook only, active or not."""
    with writing():
        must_manage()
        event = tell(
            event=Kind.WEBHOOK_TEST,
            subject_kind="webhook",
            subject_key=str(webhook.key),
            subject_name=webhook.name,
            title=f"Test of the webhook {webhook.name}",
            link=f"/webhooks/{webhook.key}/",
            facts={"asked_at": timezone.now().isoformat(timespec="seconds")},
        )
        key, name = str(webhook.key), webhook.name
        record_why(action="tested", subject_kind="webhook", subject_key=key, subject_name=name)
        return deliver_to(event, webhook)


def must_manage() -> None:
    """Raise MetadataError ``not_permitted`` for a user who may not manage webhooks; the system may."""
    user = current_actor().user
    if user is not None and not may(user, MANAGE):
        raise MetadataError("not_permitted", f"webhooks are managed by administrators, not by you, {user}")


def told(webhook: Webhook) -> dict[str, Any]:
    """Return the webhook's fields for the change log, with a shortened URL and a digest that identifies it."""
    return {
        "name": webhook.name,
        "url": f"{shown_url(webhook.url)} (sha256 {sha256_hex(webhook.url)[:12]})",
        "events": list(webhook.events),
        "secret": webhook.secret,
        "former_secret": webhook.former_secret,
        "active": webhook.active,
    }


def _plain(described: dict[str, Any]) -> dict[str, Any]:
    return {name: value.strip() if isinstance(value, str) else value for name, value in described.items()}


def _check(webhook: Webhook) -> None:
    if not webhook.name:
        raise MetadataError("invalid", "needs a name", "name")
    if Webhook.objects.filter(name=webhook.name).exclude(pk=webhook.pk).exists():
        raise MetadataError("name_taken", f"there is a webhook {webhook.name} already", "name")
    check_url(webhook.url)
    check_secret_name(webhook.secret, "secret")
    if webhook.former_secret:
        check_secret_name(webhook.former_secret, "former_secret")
    webhook.events = check_kinds(webhook.events, needed=True)
    check_fields(webhook, webhook.name)


def _log(action: str, webhook: Webhook, **sides: dict[str, Any]) -> None:
    record_change(
        action=action, subject_kind="webhook", subject_key=str(webhook.key), subject_name=webhook.name, **sides
    )
