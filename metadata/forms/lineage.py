"""Form of the lineage by column."""

from collections.abc import Mapping
from typing import Any

from django import forms

from elevata.web.forms import ProductForm
from metadata.selectors.column_lineage import MOST_STEPS


def _steps(label: str) -> forms.IntegerField:
    messages = {"invalid": f"A number from 0 to {MOST_STEPS}."}
    return forms.IntegerField(
        min_value=0,
        max_value=MOST_STEPS,
        required=False,
        label=label,
        error_messages=messages,
        initial=MOST_STEPS,
        help_text=f"0 to {MOST_STEPS}.",
    )


class LineageForm(ProductForm):
    """Dataset or column whose lineage is shown, and the numbers of steps up and down."""

    focus = forms.CharField(max_length=400, required=False, label="Dataset or column", help_text="Qualified name.")
    column = forms.CharField(max_length=60, required=False, widget=forms.HiddenInput, help_text="Chosen column.")
    up = _steps("Steps up")
    down = _steps("Steps down")

    @classmethod
    def values_of(cls, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of an address; invalid ones are replaced by defaults."""
        form = cls(data)
        form.is_valid()
        values = {name: form.cleaned_data.get(name) for name in form.fields}
        steps = {name: MOST_STEPS if values[name] is None else values[name] for name in ("up", "down")}
        return {"focus": values["focus"] or "", "column": values["column"] or ""} | steps
