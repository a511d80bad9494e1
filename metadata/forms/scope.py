"""Form fields of a scope of datasets."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms
from django.utils.safestring import SafeString

from elevata.web.forms import MONO, ProductForm, set_choices
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope
from metadata.domain.selection import HINT, MAX_WORDS
from metadata.selectors.datasets import schemas


class ScopeFields(ProductForm):
    """Scope of a load or report: all datasets, a schema, a dataset or a selection by words.

    ``NAMED_BY`` maps kinds of scopes to the field that names it, ``DOING`` completes the error without a name.
    """

    SCOPES: ClassVar[tuple[tuple[str, str], ...]] = (
        (ALL, "All datasets"),
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
        help_text="Words of datasets that the selection leaves out.",
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
            self.add_error(field, f"Choose a {field}, or {self.DOING} all datasets.")
        return cleaned

    def scope_of_kind(self, kind: str, **more: Any) -> Scope:
        """Return the scope of a kind with the name that a valid form has for it; ``more`` are its other fields."""
        name = self.cleaned_data[kind] if kind in self.NAMED_BY else ""
        exclude = self.cleaned_data["exclude"] if kind == SELECTION else ""
        return Scope(kind, name, exclude=exclude, **more)

    @classmethod
    def values_of(cls, scope: Scope) -> dict[str, str]:
        """Return the values of the fields for a scope; those of empty fields are left out."""
        named = {"scope": scope.kind, scope.kind: scope.name, "exclude": scope.exclude}
        return {name: value for name, value in named.items() if value}

    def scope_seen(self) -> SafeString:
        """Return the hidden initial value of the scope; the template draws its radio buttons itself."""
        return self["scope"].as_hidden(only_initial=True) if self["scope"].field.show_hidden_initial else SafeString()
