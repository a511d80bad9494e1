"""Forms of copies of datasets."""

from typing import Any

from django import forms

from elevata.web.forms import MONO, EditForm, ProductForm, ReasonField, set_choices
from metadata.domain.copies import KINDS, LEAVE_OUT, REPLACE
from metadata.models import System
from metadata.models.copies import MODES, SENSITIVE


class CopyFields(forms.Form):
    """Fields of a copy."""

    table = forms.CharField(
        max_length=310,
        required=False,
        widget=forms.TextInput(attrs=MONO),
        help_text="Schema and name in the target, like mart.daily_delay. By default those of the dataset.",
    )
    mode = forms.ChoiceField(
        choices=MODES, initial=REPLACE, help_text="Changed keys only writes less; PostgreSQL only, others are replaced."
    )
    sensitive = forms.ChoiceField(
        choices=SENSITIVE,
        initial=LEAVE_OUT,
        label="Sensitive columns",
        help_text="Hashes and values are copied once a change report with them was approved and executed.",
    )


class NewCopyForm(CopyFields, ProductForm):
    """Form of a new copy."""

    to = forms.ChoiceField(
        choices=(),
        label="System",
        help_text="PostgreSQL, a DuckDB file or a folder of Delta tables.",
        error_messages={"required": "Choose a system."},
    )
    field_order = ("to", "table", "mode", "sensitive")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        systems = System.objects.filter(kind__in=KINDS, active=True).order_by("short_name")
        set_choices(self, "to", [(row.short_name, f"{row.name} ({row.get_kind_display()})") for row in systems])


class CopyForm(CopyFields, EditForm):
    """Form of a copy."""

    reason = ReasonField(required=False)
    seen = ("table", "mode", "sensitive")
    field_order = (*seen, "reason", "version")
