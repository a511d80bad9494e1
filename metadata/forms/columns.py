"""A column as people type it: in a form of its own, as one cell of the grid, as lines of a paste."""

from collections.abc import Iterable
from typing import Any

from django import forms

from elevata.core.errors import MetadataError, as_sentence
from metadata.change_log import values_before
from metadata.domain.cells import read_cell, role_choices, role_text
from metadata.domain.types import NAMES
from metadata.forms.base import DescribedFields, EditForm, MetadataForm, ReasonField, TextField, sensitivity_field
from metadata.models import SourceColumn, TargetColumn, TargetDataset
from metadata.services.targets import same_named

ROWS = ("type", "nullable", "role", "expression", "inputs", "description", "owner", "tags", "pii", "sensitivity")


class CellField(forms.CharField):
    """A cell's text that becomes one field's value."""

    def __init__(self, cell: str, **options: Any) -> None:
        super().__init__(**options)
        self._cell = cell

    def clean(self, value: Any) -> Any:
        text = super().clean(value)
        try:
            return next(iter(read_cell(self._cell, text).values())) if text else None
        except MetadataError as problem:
            raise forms.ValidationError(as_sentence(problem.message)) from None

    def has_changed(self, initial: Any, data: Any) -> bool:
        return str(initial or "").strip() != str(data or "").strip()


class ColumnFields(DescribedFields):
    """Fields of a column; ``dataset`` decides which columns it may read and how many places its key has."""

    type = CellField(
        "type",
        max_length=100,
        widget=forms.TextInput(attrs={"class": "mono", "list": "types", "autocomplete": "off", "spellcheck": "false"}),
        help_text="string, string(40), integer, bigint, decimal(12,2), float, boolean, date, timestamp …",
        error_messages={"required": "A column needs a type."},
    )
    nullable = forms.BooleanField(
        required=False,
        label="May be empty (NULL)",
        help_text="Switched off, every row must have a value, which is checked before a table changes.",
    )
    role = forms.ChoiceField(
        help_text="The business key, in this order, says which rows are one thing. "
        "Technical columns are kept out of the table."
    )
    expression = TextField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false"}),
        help_text="SQL over the columns of the dataset's inputs. Empty: the one column it reads, as it is.",
    )
    inputs = forms.MultipleChoiceField(
        required=False,
        label="Reads",
        widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="Left as it is, it follows from the expression.",
    )
    pii = forms.BooleanField(
        required=False,
        label="Personal data",
        help_text="About people. The mark goes with the column to pages, files and REST.",
    )
    sensitivity = sensitivity_field()

    known_types = NAMES

    def prepare(self, dataset: TargetDataset) -> None:
        """Fill in what may be chosen for a column of this dataset."""
        keys = dataset.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY)
        places = max([one.key_ordinal or 0 for one in keys], default=0) + 1
        self.fields["role"].choices = [(text, text) for text in role_choices(places)]
        self._readable = readable(dataset)
        self.fields["inputs"].choices = [
            (str(name), [(str(column.key), column.name) for column in columns]) for name, columns in self._readable
        ]

    def values_given(self, given: dict[str, Any]) -> dict[str, Any]:
        """Fields of a column from fields of the form: a role brings its place, inputs are rows."""
        values = {name: value for name, value in given.items() if name not in ("role", "inputs")}
        if "role" in given:
            values |= read_cell("role", given["role"])
        if "inputs" in given:
            rows = {str(column.key): column for _, columns in self._readable for column in columns}
            values["inputs"] = [rows[key] for key in given["inputs"]]
        return values


class ColumnForm(ColumnFields, EditForm):
    """All of a column that is no verb: its name and its place have their own."""

    seen = ROWS
    elsewhere = {"key_ordinal": "role"}
    field_order = (*ROWS, "version")

    def __init__(self, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prepare(dataset)

    @classmethod
    def values(cls, row: TargetColumn) -> dict[str, Any]:
        plain = {name: getattr(row, name) for name in ROWS if name not in ("type", "role", "inputs")}
        reads = [str((one.source_column or one.upstream_column).key) for one in row.inputs.all()]
        return {**plain, "type": str(row.type), "role": role_text(row.role, row.key_ordinal), "inputs": reads}

    @classmethod
    def values_before(cls, row: TargetColumn, seen: int) -> dict[str, Any]:
        """Return the values that fields had at the column's version ``seen``, where they differ from now."""
        logged = values_before(row, seen)
        empty = {"tags": [], "nullable": False, "pii": False}
        before = {name: value if value is not None else empty.get(name, "") for name, value in logged.items()}
        if before.keys() & {"role", "key_ordinal"}:
            place = logged.get("key_ordinal") if "key_ordinal" in logged else row.key_ordinal
            before["role"] = role_text(before.get("role", row.role), place)
        return {name: value for name, value in before.items() if name in ROWS and name != "inputs"}

    def changes(self) -> dict[str, Any]:
        return self.values_given(super().changes())


class NewColumnForm(ColumnFields, MetadataForm):
    """A column to be added after the others."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs={"class": "mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text="As queries will call it. A rename later keeps this name as a former one.",
        error_messages={"required": "A column needs a name."},
    )
    elsewhere = {"key_ordinal": "role"}
    field_order = ("name", *ROWS)

    def __init__(self, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **{"initial": {"nullable": True, "role": "attribute"}, **options})
        self._dataset = dataset
        self.prepare(dataset)
        self.fields["inputs"].help_text = "Left empty: what the expression names, or the column of the same name."

    def given(self) -> dict[str, Any]:
        """Return the arguments of the service."""
        values = self.values_given({name: self.cleaned_data[name] for name in ROWS if name in self.cleaned_data})
        if not values["inputs"]:
            values["inputs"] = None if values["expression"] else same_named(self._dataset, self.cleaned_data["name"])
        return {"name": self.cleaned_data["name"], **values}


class RenameForm(EditForm):
    """A new name, and why."""

    seen = ("name",)
    name = forms.CharField(
        max_length=200,
        label="New name",
        widget=forms.TextInput(attrs={"class": "mono", "autocomplete": "off", "spellcheck": "false"}),
        help_text="The name it has now is kept among the former names, and is found by search.",
        error_messages={"required": "Say what it is to be called."},
    )
    reason = ReasonField()
    field_order = ("name", "reason", "version")


class VerbForm(EditForm):
    """Retire, bring back or delete: nothing to type but, perhaps, why."""

    reason = ReasonField(required=False)


def readable(dataset: TargetDataset) -> list[tuple[Any, list[SourceColumn | TargetColumn]]]:
    """Return the columns that a dataset's columns may read: its inputs, each with its active columns."""
    items = dataset.inputs.select_related("source__system", "upstream__schema")
    found: Iterable[Any] = [item.source or item.upstream for item in items]
    return [(one, list(one.columns.filter(active=True).order_by("ordinal", "id"))) for one in found]
