"""Form of a role that is granted on the page of the place where it applies."""

from typing import Any

from django import forms
from django.conf import settings

from elevata.accounts.forms import GrantForm
from elevata.accounts.places import LAYERS
from elevata.web.forms import set_choices
from metadata.models import System, TargetDataset, TargetSchema


def places_here(row: System | TargetSchema | TargetDataset) -> list[tuple[str, str]]:
    """Return the places of roles that cover a row, the narrowest first: values of the form and their labels."""
    environment = (f"environment:{settings.ENVIRONMENT}", f"environment {settings.ENVIRONMENT}")
    if isinstance(row, System):
        return [environment]
    schema = row if isinstance(row, TargetSchema) else row.schema
    return [
        (f"schema:{schema.name}", f"schema {schema.name}"),
        (f"layer:{schema.layer}", f"layer {LAYERS[schema.layer].lower()}"),
        environment,
    ]


class GrantHereForm(GrantForm):
    """Form of a grant for a user at a place that covers the row of the page."""

    user = forms.CharField(
        max_length=150,
        widget=forms.TextInput(attrs={"autocomplete": "off", "list": "users"}),
        help_text="User or service account that gets the role.",
        error_messages={"required": "Enter a user."},
    )

    field_order = ("user", "role", "place")

    def __init__(self, *args: Any, row: System | TargetSchema | TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        set_choices(self, "place", places_here(row))
        self.fields["place"].help_text = "The role applies to everything there."
