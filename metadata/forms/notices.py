"""Forms for webhooks and notification settings."""

from typing import Any

from django import forms
from django.forms.boundfield import BoundWidget

from metadata.domain.notices import CHOICES, SECRET_PREFIX, WORDS
from metadata.forms.base import EditForm, MetadataForm

_EVENTS = [(str(kind), WORDS[kind]) for kind in CHOICES]


class EventBoxes(forms.CheckboxSelectMultiple):
    """Boxes to tick, each in the product's look and explained by what stands below all of them."""

    def create_option(self, name: str, *args: Any, **options: Any) -> dict[str, Any]:
        option = super().create_option(name, *args, **options)
        option["attrs"].pop("aria-required", None)
        option["attrs"] |= {"class": "form-check-input", "aria-describedby": f"id_{name}_helptext"}
        return option


class EventsField(forms.MultipleChoiceField):
    """Kinds of events, as boxes to tick; the template draws them."""

    widget = EventBoxes

    def __init__(self, **options: Any) -> None:
        super().__init__(choices=_EVENTS, **options)


class WebhookFields(MetadataForm):
    """A webhook: where to, what of, and how it is proven to be ours."""

    name = forms.CharField(max_length=100, help_text="What people call it.")
    url = forms.CharField(
        label="Address",
        max_length=1000,
        widget=forms.TextInput(
            attrs={"class": "mono", "placeholder": "https://hooks.example.org/elevata", "autocomplete": "off"}
        ),
        help_text="Requests are sent there by POST. Only administrators see it whole: a path is often a secret.",
    )
    events = EventsField(
        label="Events",
        help_text="What the address is told of.",
        error_messages={"required": "Choose at least one event."},
    )
    secret = forms.CharField(
        label="Variable with the secret",
        max_length=110,
        widget=forms.TextInput(
            attrs={"class": "mono", "placeholder": f"{SECRET_PREFIX}TEAM", "autocomplete": "off", "spellcheck": "false"}
        ),
        help_text="The worker's environment variable that holds what signs requests, never the secret itself. "
        "The same name with _FILE may name a file instead.",
    )
    former_secret = forms.CharField(
        label="Variable with the former secret",
        max_length=110,
        required=False,
        widget=forms.TextInput(attrs={"class": "mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text="While a secret is being replaced: requests are signed with both.",
    )
    active = forms.BooleanField(
        label="In use", required=False, initial=True, help_text="Out of use, it is told of nothing but tests."
    )

    def described(self) -> dict[str, Any]:
        """The fields of the webhook, as its services take them."""
        names = ("name", "url", "events", "secret", "former_secret", "active")
        return {name: self.cleaned_data[name] for name in names}


class NewWebhookForm(WebhookFields):
    """A webhook that is not there yet."""


class WebhookForm(WebhookFields, EditForm):
    """A webhook that is there."""

    seen = ("name", "url", "events", "secret", "former_secret", "active")

    def events_seen(self) -> Any:
        """The events as they were when the page was made; the template draws the boxes itself."""
        return self["events"].as_hidden(only_initial=True)


class DeleteWebhookForm(EditForm):
    """The webhook that is to be deleted, as it was seen."""


class NoticeChoiceForm(MetadataForm):
    """Notification settings of a user: events, and by which way."""

    listed = EventsField(
        label="In the list",
        required=False,
        help_text="Behind the bell, on every page. Changes of accounts and looser policies are always there.",
    )
    emailed = EventsField(label="By e-mail", required=False, help_text="As soon as it happens.")
    address = forms.EmailField(
        label="E-mail address",
        required=False,
        max_length=254,
        help_text="Emails name reports, runs and datasets; use an address allowed to see that.",
    )

    def by_event(self) -> list[tuple[str, BoundWidget, BoundWidget]]:
        """Each event's words with its two boxes: for the list, by e-mail."""
        return [
            (listed.choice_label, listed, mailed)
            for listed, mailed in zip(self["listed"], self["emailed"], strict=True)
        ]


class ReadForm(forms.Form):
    """The notice that was read; all, if none is named."""

    notice = forms.IntegerField(required=False, help_text="The number of the notice; leave it out to mark all.")
