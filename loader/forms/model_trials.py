"""Form of a trial of a model."""

from typing import Any

from django import forms
from django.urls import reverse_lazy

from elevata.web.forms import ProductForm, TagsField, TextField
from metadata.domain.select_check import MAX_LENGTH

LIMITS = ((50, "50 rows"), (200, "200 rows"), (1000, "1,000 rows"))
SAMPLES = (
    ("", "All rows"),
    ("share:0.1", "10 % of each table"),
    ("share:0.01", "1 % of each table"),
    ("rows:1000", "1,000 rows of each table"),
)
_NUMBERS = {"share": float, "rows": int}


class TrialForm(ProductForm):
    """Form of a trial: the SELECT, the rows to show, the part of the tables to read, and the comparison."""

    select = TextField(
        label="SELECT",
        max_length=MAX_LENGTH,
        strip=False,
        widget=forms.Textarea(
            attrs={
                "rows": 10,
                "class": "mono",
                "spellcheck": "false",
                "autocapitalize": "off",
                "form": "trial-form",
                "data-code": "",
                "data-completions": reverse_lazy("model_completions"),
            }
        ),
        help_text="One SELECT over described datasets. Nothing is saved or written.",
        error_messages={"required": "Write a SELECT."},
    )
    dataset = forms.UUIDField(required=False, widget=forms.HiddenInput)
    limit = forms.TypedChoiceField(
        label="Rows at most",
        choices=LIMITS,
        coerce=int,
        empty_value=50,  # type: ignore[arg-type]  # the stubs know texts only
        required=False,
        help_text="Rows of the result that are shown.",
    )
    sample = forms.ChoiceField(
        label="Read", choices=SAMPLES, required=False, help_text="Rows of each input that the trial reads."
    )
    compare = forms.BooleanField(
        label="Compare with the table",
        required=False,
        help_text="Counts added, changed and gone rows; reads all rows of the inputs.",
    )
    check = forms.BooleanField(
        label="Check key and quality",
        required=False,
        initial=True,
        help_text="Runs the declared key and the quality checks on all rows of the SELECT.",
    )
    business_key = TagsField(
        required=False, widget=forms.HiddenInput, label="Key columns", help_text="Key that the model's form has."
    )

    def trial(self) -> dict[str, Any]:
        """Return the arguments of the trial."""
        kind, _, number = self.cleaned_data["sample"].partition(":")
        return {
            "text": self.cleaned_data["select"],
            "limit": self.cleaned_data["limit"],
            "sample": {kind: _NUMBERS[kind](number)} if kind else {},
            "compare": self.cleaned_data["compare"],
            "check": self.cleaned_data["check"],
            "key": self.cleaned_data["business_key"] if "business_key" in self.data else None,
        }
