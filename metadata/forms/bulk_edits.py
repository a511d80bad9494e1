"""Form of an edit of many datasets, columns or sources."""

from typing import Any

from django import forms

from elevata.web.forms import ProductForm, ReasonField, TagsField
from metadata.domain.bulk_edits import (
    ACTIONS,
    ADD_TAGS,
    COLUMN_ACTIONS,
    OWNER,
    PERSONAL,
    REMOVE_TAGS,
    RETIRE,
    SENSITIVITY,
)
from metadata.forms.base import sensitivity_field

_FIELD_OF = {ADD_TAGS: "tags", REMOVE_TAGS: "tags", OWNER: OWNER, SENSITIVITY: SENSITIVITY, PERSONAL: PERSONAL}
_LABELS = ACTIONS | COLUMN_ACTIONS


class BulkEditForm(ProductForm):
    """Value of a bulk edit, and its reason; which value follows from the action."""

    do = forms.ChoiceField(choices=list(_LABELS.items()), widget=forms.HiddenInput)
    tags = TagsField(help_text="Words separated by commas.", error_messages={"required": "Enter at least one tag."})
    owner = forms.CharField(required=False, max_length=200, help_text="Responsible user or team. Empty removes it.")
    sensitivity = sensitivity_field()
    pii = forms.TypedChoiceField(
        label="Personal data",
        choices=[("yes", "yes"), ("no", "no")],
        coerce=lambda word: word == "yes",
        help_text="Says that the values are about persons.",
    )
    reason = ReasonField(required=False)

    def __init__(self, *args: Any, action: str, **options: Any) -> None:
        super().__init__(*args, **{"initial": {"do": action}, **options})
        for name in {"tags", OWNER, SENSITIVITY, PERSONAL} - {_FIELD_OF.get(action)}:
            del self.fields[name]
        self.title = _LABELS.get(action, "")
        self.has_value = action != RETIRE

    @property
    def value(self) -> Any:
        """Return the value of the action; None for one that has none."""
        return self.cleaned_data.get(_FIELD_OF.get(self.cleaned_data["do"], ""))
