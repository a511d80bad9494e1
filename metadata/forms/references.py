"""A reference as people type it: the parent by its name, then a column of the child for each part of its key."""

from collections.abc import Iterator
from typing import Any

from django import forms
from django.db.models import QuerySet

from metadata.domain import naming
from metadata.forms.base import MetadataForm
from metadata.forms.datasets import MONO, targets_called
from metadata.models import TargetColumn, TargetDataset

_PAIR = "pair-"


class ReferenceForm(MetadataForm):
    """A new reference of ``child``. Once a parent is named, a field for each column of its business key.

    ``named`` is that parent, None while none is found; ``pairs`` are (child column, parent column) when valid.
    """

    parent = forms.CharField(
        max_length=300,
        label="Refers to",
        widget=forms.TextInput(attrs={**MONO, "list": "parent-names"}),
        help_text="schema.name of a dataset with a business key, by which its rows are known.",
        error_messages={"required": "Say which dataset it refers to."},
    )
    role_name = forms.CharField(
        required=False,
        max_length=100,
        label="As",
        widget=forms.TextInput(attrs=MONO),
        help_text="What the parent is here, where two references go to the same one: origin, destination. "
        "The foreign key's column is called after it.",
    )
    field_order = ("parent", "role_name")

    def __init__(self, *args: Any, child: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        given = self.data.get("parent") if self.is_bound else self.initial.get("parent")
        self.named = targets_called(str(given or "").strip()).filter(history_of__isnull=True, active=True).first()
        self._mine = list(child.columns.filter(active=True).order_by("ordinal", "id"))
        self._keyed = _business_key(self.named) if self.named is not None else []
        for column in self._keyed:
            field = self.fields[f"{_PAIR}{column.key}"] = self._pair(column)
            field.widget.attrs |= {"class": "form-select mono", "aria-required": "true"}

    def _pair(self, column: TargetColumn) -> forms.ChoiceField:
        offered = [(str(one.key), f"{one.name}  {one.type}") for one in self._mine]
        alike = next((str(one.key) for one in self._mine if one.name.lower() == column.name.lower()), "")
        return forms.ChoiceField(
            choices=[("", "choose…"), *offered],
            initial=alike,
            label=f"Holds {column.name}",
            help_text=f"The column of this dataset whose values are {self.named}.{column.name}, {column.type}.",
            error_messages={"required": f"Choose the column that holds {column.name}."},
        )

    def pair_fields(self) -> Iterator[forms.BoundField]:
        """The fields that came with the parent."""
        return (self[name] for name in self.fields if name.startswith(_PAIR))

    def clean_parent(self) -> str:
        if self.named is None:
            raise forms.ValidationError(f"There is no dataset {self.cleaned_data['parent']!r}: write schema.name.")
        if not self._keyed:
            raise forms.ValidationError(f"{self.named} has no business key, so nothing can refer to its rows.")
        return self.cleaned_data["parent"]

    @property
    def pairs(self) -> list[tuple[TargetColumn, TargetColumn]]:
        mine = {str(column.key): column for column in self._mine}
        return [(mine[self.cleaned_data[f"{_PAIR}{column.key}"]], column) for column in self._keyed]


def referable() -> QuerySet:
    """Datasets that have a business key to be referred to by, as (schema, name)."""
    keyed = TargetColumn.objects.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY).order_by().values("dataset")
    found = TargetDataset.objects.filter(active=True, history_of__isnull=True, pk__in=keyed)
    found = found.exclude(schema__layer__in=naming.KEYLESS_LAYERS).order_by("schema__name", "name")
    return found.values_list("schema__name", "name")


def _business_key(dataset: TargetDataset) -> list[TargetColumn]:
    columns = dataset.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY)
    return list(columns.select_related("dataset__schema").order_by("key_ordinal", "ordinal", "id"))
