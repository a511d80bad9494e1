"""Forms of the SQL page."""

from django import forms
from django.urls import reverse_lazy

from elevata.web.forms import ProductForm, TextField
from metadata.domain.select_check import MAX_LENGTH

LIMITS = ((100, "100 rows"), (1000, "1,000 rows"), (10_000, "10,000 rows"))


class QueryForm(ProductForm):
    """Form of a query: its text and the maximum number of rows."""

    text = TextField(
        label="Query",
        max_length=MAX_LENGTH,
        strip=False,
        widget=forms.Textarea(
            attrs={
                "rows": 8,
                "class": "mono",
                "spellcheck": "false",
                "autocapitalize": "off",
                "data-code": "",
                "data-completions": reverse_lazy("sql_completions"),
                "placeholder": "SELECT * FROM rawcore.rc_air_airport LIMIT 10",
            }
        ),
        help_text="SELECTs in Spark's SQL over published tables and views, separated by semicolons.",
        error_messages={"required": "Write a SELECT."},
    )
    limit = forms.TypedChoiceField(
        label="Rows", choices=LIMITS, coerce=int, initial=100, help_text="More rows are cut off."
    )


class SaveForm(ProductForm):
    """Form to save a query under a name; a shared query is listed for all users."""

    text = TextField(max_length=MAX_LENGTH, strip=False, widget=forms.HiddenInput)
    name = forms.CharField(max_length=100, help_text="Your own query of this name is replaced.")
    shared = forms.BooleanField(
        required=False,
        help_text="A shared query is listed for every user; each sees only data that their roles allow.",
    )
