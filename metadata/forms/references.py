"""Form of a reference: the parent by name, then a column of the child for each column of its key."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.db.models import QuerySet

from elevata.web.forms import MONO, EditForm, ProductForm, ReasonField
from metadata.domain import naming
from metadata.domain.quality import unknown_parents
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.datasets import datasets_by_name

_PAIR = "pair-"


class UnknownParentField(forms.Form):
    """Rule for unknown parents, with a sentence for each choice."""

    unknown_parent = forms.ChoiceField(
        choices=list(unknown_parents.RULES.items()),
        initial=unknown_parents.KEEP,
        label="Unknown parents",
        help_text=" ".join(
            f"{label}: {unknown_parents.HELP[rule][0].lower()}{unknown_parents.HELP[rule][1:]}"
            for rule, label in unknown_parents.RULES.items()
        ),
    )


class ReferenceEditForm(UnknownParentField, EditForm):
    """Form of a reference's rule for unknown parents."""

    seen = ("unknown_parent",)
    reason = ReasonField(required=False)
    field_order = ("unknown_parent", "reason", "version")


class ReferenceForm(UnknownParentField, ProductForm):
    """Form of a new reference of ``child``, with a field for each column of the named parent's business key.

    ``named`` is the parent, None if there is none of this name; ``pairs`` are (child column, parent column).
    """

    parent = forms.CharField(
        max_length=300,
        label="Refers to",
        widget=forms.TextInput(attrs={**MONO, "list": "parent-names"}),
        help_text="schema.name of a dataset with a business key.",
        error_messages={"required": "Choose the dataset that it refers to."},
    )
    role_name = forms.CharField(
        required=False,
        max_length=100,
        label="As",
        widget=forms.TextInput(attrs=MONO),
        help_text="Distinguishes two references to the same dataset, such as origin and destination. Part of the "
        "foreign key's column name.",
    )
    field_order = ("parent", "role_name", "unknown_parent")

    def __init__(self, *args: Any, child: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        given = self.data.get("parent") if self.is_bound else self.initial.get("parent")
        self.named = datasets_by_name(str(given or "").strip()).filter(history_of__isnull=True, active=True).first()
        self._mine = list(child.columns.filter(active=True).order_by("ordinal", "id"))
        self._keyed = _business_key(self.named) if self.named is not None else []
        for column in self._keyed:
            field = self.fields[f"{_PAIR}{column.key}"] = self._pair(column)
            field.widget.attrs |= {"class": "form-select mono", "aria-required": "true"}

    def _pair(self, column: TargetColumn) -> forms.ChoiceField:
        offered = [(str(own.key), f"{own.name}  {own.type}") for own in self._mine]
        alike = next((str(own.key) for own in self._mine if own.name.lower() == column.name.lower()), "")
        return forms.ChoiceField(
            choices=[("", "choose…"), *offered],
            initial=alike,
            label=f"Holds {column.name}",
            help_text=f"The column of this dataset whose values are {self.named}.{column.name}, {column.type}.",
            error_messages={"required": f"Choose the column that holds {column.name}."},
        )

    def pair_fields(self) -> Iterator[forms.BoundField]:
        """Return the fields for the columns of the parent's business key."""
        return (self[name] for name in self.fields if name.startswith(_PAIR))

    def clean_parent(self) -> str:
        if self.named is None:
            raise forms.ValidationError(f"There is no dataset {self.cleaned_data['parent']!r}: write schema.name.")
        if not self._keyed:
            raise forms.ValidationError(f"{self.named} has no business key, so it cannot be referenced.")
        return self.cleaned_data["parent"]

    def given(self) -> dict[str, Any]:
        chosen = {name: self.cleaned_data[name] for name in ("role_name", "unknown_parent")}
        return {"parent": self.named, "pairs": self.pairs, **chosen}

    @property
    def pairs(self) -> list[tuple[TargetColumn, TargetColumn]]:
        mine = {str(column.key): column for column in self._mine}
        return [(mine[self.cleaned_data[f"{_PAIR}{column.key}"]], column) for column in self._keyed]


def referable() -> QuerySet:
    """Return the datasets with a business key, as (schema, name)."""
    keyed = TargetColumn.objects.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY).order_by().values("dataset")
    rows = TargetDataset.objects.filter(active=True, history_of__isnull=True, pk__in=keyed)
    rows = rows.exclude(schema__layer__in=naming.KEYLESS_LAYERS).order_by("schema__name", "name")
    return rows.values_list("schema__name", "name")


def _business_key(dataset: TargetDataset) -> list[TargetColumn]:
    columns = dataset.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY)
    return list(columns.select_related("dataset__schema").order_by("key_ordinal", "ordinal", "id"))
