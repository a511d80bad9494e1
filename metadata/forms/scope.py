"""Form fields of a scope of datasets."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.safestring import SafeString

from elevata.web.forms import MONO, ProductForm, set_choices
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION
from metadata.domain.selection import HINT, MAX_WORDS
from metadata.selectors.datasets import schemas


class ScopeFields(ProductForm):
    """Scope of a load or report: everything, a schema, a dataset or a selection by words.

    ``NAMED_BY`` maps kinds of scopes to the field that names it, ``DOING`` completes the error without a name.
    """

    SCOPES: ClassVar[tuple[tuple[str, str], ...]] = (
        (ALL, "Everything"),
        (SCHEMA, "One schema"),
        (DATASET, "One dataset"),
        (SELECTION, "Selection"),
    )
    NAMED_BY: ClassVar[Mapping[str, str]] = {kind: kind for kind in (SCHEMA, DATASET, SELECTION)}
    DOING: ClassVar[str] = "load"

    scope = forms.ChoiceField(initial=ALL, help_text="Datasets that are included.")
    schema = forms.CharField(
        max_length=100, required=False, widget=forms.Select, help_text="All datasets of the schema and their inputs."
    )
    dataset = forms.CharField(
        max_length=310,
        required=False,
        widget=forms.TextInput(attrs={"list": "dataset-names", "placeholder": "schema.name", "autocomplete": "off"}),
        help_text="Type to see suggestions.",
    )
    selection = forms.CharField(
        max_length=MAX_WORDS,
        required=False,
        widget=forms.TextInput(attrs=MONO | {"placeholder": "tag:finance +serving.sales"}),
        help_text=HINT,
    )
    exclude = forms.CharField(
        max_length=MAX_WORDS,
        required=False,
        label="Except",
        widget=forms.TextInput(attrs=MONO),
        help_text="Words of datasets that are left out.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        set_choices(self, "scope", self.SCOPES)
        names = schemas().order_by("ordinal", "name").values_list("name", flat=True)
        self.fields["schema"].widget.choices = [("", "choose…"), *((name, name) for name in names)]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        field = self.NAMED_BY.get(cleaned.get("scope", ""))
        if field and not cleaned.get(field) and field not in self.errors:
            self.add_error(field, f"Choose a {field}, or {self.DOING} everything.")
        return cleaned

    def scope_seen(self) -> SafeString:
        """Return the hidden initial value of the scope; the template draws its radio buttons itself."""
        return self["scope"].as_hidden(only_initial=True) if self["scope"].field.show_hidden_initial else SafeString()
