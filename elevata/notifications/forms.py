"""Forms for webhooks and notification settings."""

from collections.abc import Iterable
from typing import Any

from django import forms
from django.forms.boundfield import BoundWidget

from elevata.notifications.kinds import CHOICES, SECRET_PREFIX, WEBHOOK_CHOICES, WORDS, Kind
from elevata.notifications.models import Webhook
from elevata.web.forms import MONO, EditForm, ProductForm


class EventBoxes(forms.CheckboxSelectMultiple):
    """Checkboxes in the product's style, with the field's help text as description."""

    def create_option(self, name: str, *args: Any, **options: Any) -> dict[str, Any]:
        option = super().create_option(name, *args, **options)
        option["attrs"].pop("aria-required", None)
        option["attrs"] |= {"class": "form-check-input", "aria-describedby": f"id_{name}_helptext"}
        return option


class EventsField(forms.MultipleChoiceField):
    """Field of event kinds, as checkboxes that the template renders."""

    widget = EventBoxes

    def __init__(self, kinds: Iterable[Kind] = CHOICES, **options: Any) -> None:
        super().__init__(choices=[(str(kind), WORDS[kind]) for kind in kinds], **options)


class WebhookFields(ProductForm):
    """Fields of a webhook: name, address, events and signing secrets."""

    name = forms.CharField(max_length=100, help_text="Display name.")
    url = forms.CharField(
        label="Address",
        max_length=1000,
        widget=forms.TextInput(
            attrs={"class": "mono", "placeholder": "https://hooks.example.org/elevata", "autocomplete": "off"}
        ),
        help_text="Receives POST requests. Only administrators see the full address.",
    )
    format = forms.ChoiceField(
        choices=Webhook.Format.choices,
        initial=Webhook.Format.SIGNED,
        help_text="OpenLineage: runs, datasets, columns and checks of each load, for a data catalog. The secret is "
        "its API key.",
    )
    events = EventsField(
        WEBHOOK_CHOICES,
        label="Events",
        help_text="Events sent to this address. An OpenLineage endpoint takes the end of loads only.",
        error_messages={"required": "Choose at least one event."},
    )
    secret = forms.CharField(
        label="Variable with the secret",
        max_length=110,
        widget=forms.TextInput(
            attrs={"class": "mono", "placeholder": f"{SECRET_PREFIX}TEAM", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text="Environment variable of the worker with the signing secret, never the secret itself. NAME_FILE "
        "can name a file instead.",
    )
    former_secret = forms.CharField(
        label="Variable with the former secret",
        max_length=110,
        required=False,
        widget=forms.TextInput(attrs=MONO),
        help_text="Requests are signed with both secrets while you replace one.",
    )
    active = forms.BooleanField(
        label="In use", required=False, initial=True, help_text="An inactive webhook receives test events only."
    )


class NewWebhookForm(WebhookFields):
    """Form of a new webhook."""


class WebhookForm(WebhookFields, EditForm):
    """Form of an existing webhook."""

    seen = ("name", "url", "format", "events", "secret", "former_secret", "active")

    def events_seen(self) -> Any:
        """Return the hidden initial value of the events, because the template renders the checkboxes itself."""
        return self["events"].as_hidden(only_initial=True)


class NoticeChoiceForm(ProductForm):
    """Form of a user's notification settings: events in the list and by e-mail."""

    listed = EventsField(
        label="In the list",
        required=False,
        help_text="Shown under the bell; account changes and looser policies are always listed.",
    )
    emailed = EventsField(label="By email", required=False, help_text="Sent immediately.")
    address = forms.EmailField(
        label="Email address",
        required=False,
        max_length=254,
        help_text="Emails name reports, runs and datasets; use an address allowed to see that.",
    )

    def by_event(self) -> list[tuple[str, BoundWidget, BoundWidget]]:
        """Return each event's label with its two checkboxes: in the list, by e-mail."""
        return [
            (listed.choice_label, listed, mailed)
            for listed, mailed in zip(self["listed"], self["emailed"], strict=True)
        ]


class ReadForm(forms.Form):
    """Form with the notice or the group to mark as read; without one, all are marked."""

    notice = forms.IntegerField(required=False, help_text="The number of the notice; leave it out to mark all.")
    group = forms.UUIDField(required=False, help_text="The group of notices; leave it out to mark all.")
