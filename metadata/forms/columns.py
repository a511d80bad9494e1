"""Forms of a column, and of rename, retirement and deletion."""

from collections.abc import Iterable
from typing import Any

from django import forms

from elevata.audit.selectors import values_before
from elevata.core.errors import MetadataError, as_sentence
from elevata.core.lengths import MAX_TYPE
from elevata.web.forms import MONO, DescribedFields, EditForm, ReasonField, TextField, set_choices
from metadata.domain.grid import read_cell, role_choices, role_text
from metadata.domain.types import NAMES
from metadata.forms.base import QuotedName, sensitivity_field
from metadata.models import SourceColumn, TargetColumn, TargetDataset
from metadata.services.datasets.inputs import same_named

ROWS = ("type", "nullable", "role", "expression", "inputs", "description", "owner", "tags", "pii", "sensitivity")


class CellField(forms.CharField):
    """Text of a grid cell, parsed to a field's value."""

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
    """Fields of a column. Its dataset determines the columns it may read and the positions in the business key."""

    type = CellField(
        "type",
        max_length=MAX_TYPE,
        widget=forms.TextInput(attrs={"class": "mono", "list": "types", "autocomplete": "off", "spellcheck": "false"}),
        help_text="string, string(40), integer, bigint, decimal(12,2), float, boolean, date, timestamp …",
        error_messages={"required": "Enter a type."},
    )
    nullable = forms.BooleanField(
        required=False,
        label="May be empty (NULL)",
        help_text="Switched off, every row must have a value, which is checked before a table changes.",
    )
    role = forms.ChoiceField(
        help_text="Business key columns identify a row. Technical columns are not stored in the table."
    )
    expression = TextField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, "class": "mono", "spellcheck": "false"}),
        help_text="SQL over the columns of the inputs. Empty copies the column that it reads.",
    )
    inputs = forms.MultipleChoiceField(
        required=False,
        label="Reads",
        widget=forms.SelectMultiple(attrs={"size": 6}),
        help_text="Empty takes the type of the expression.",
    )
    pii = forms.BooleanField(
        required=False,
        label="Personal data",
        help_text="Marks personal data on pages, in files and in the API.",
    )
    sensitivity = sensitivity_field()

    known_types = NAMES

    def prepare(self, dataset: TargetDataset) -> None:
        """Set the choices for a column of this dataset."""
        keys = dataset.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY)
        places = max([column.key_ordinal or 0 for column in keys], default=0) + 1
        set_choices(self, "role", [(text, text) for text in role_choices(places)])
        self._readable = readable(dataset)
        set_choices(
            self,
            "inputs",
            [(str(name), [(str(column.key), column.name) for column in columns]) for name, columns in self._readable],
        )

    def values_given(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a column's values from the form's: a role includes the position in the key, inputs are rows."""
        values = {name: value for name, value in given.items() if name not in ("role", "inputs")}
        if "role" in given:
            values |= read_cell("role", given["role"])
        if "inputs" in given:
            rows = {str(column.key): column for _, columns in self._readable for column in columns}
            values["inputs"] = [rows[key] for key in given["inputs"]]
        return values


class ColumnForm(ColumnFields, EditForm):
    """Form of a column, except its name and position."""

    seen = ROWS
    elsewhere = {"key_ordinal": "role"}
    field_order = (*ROWS, "version")

    def __init__(self, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        self.prepare(dataset)

    @classmethod
    def values(cls, row: TargetColumn) -> dict[str, Any]:
        plain = {name: getattr(row, name) for name in ROWS if name not in ("type", "role", "inputs")}
        reads = [str(item.read_column.key) for item in row.inputs.all()]
        return {**plain, "type": str(row.type), "role": role_text(row.role, row.key_ordinal), "inputs": reads}

    @classmethod
    def values_before(cls, row: TargetColumn, seen: int) -> dict[str, Any]:
        """Return the values of fields in the column's version ``seen``, if they differ from the current ones."""
        logged = values_before(row, seen)
        empty: dict[str, Any] = {"tags": [], "nullable": False, "pii": False}
        before: dict[str, Any]
        before = {name: value if value is not None else empty.get(name, "") for name, value in logged.items()}
        if before.keys() & {"role", "key_ordinal"}:
            place = logged.get("key_ordinal") if "key_ordinal" in logged else row.key_ordinal
            before["role"] = role_text(before.get("role", row.role), place)
        return {name: value for name, value in before.items() if name in ROWS and name != "inputs"}

    def changes(self) -> dict[str, Any]:
        return self.values_given(super().changes())


class NewColumnForm(ColumnFields, QuotedName):
    """Form of a new column."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Column name in queries. A later rename keeps this name as a former name.",
        error_messages={"required": "Enter a name."},
    )
    elsewhere = {"key_ordinal": "role"}
    field_order = ("name", "quoted_name", *ROWS)

    def __init__(self, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **{"initial": {"nullable": True, "role": "attribute"}, **options})
        self._dataset = dataset
        self.prepare(dataset)
        self.fields["inputs"].help_text = "Empty takes the columns in the expression, or the column of the same name."

    def given(self) -> dict[str, Any]:
        """Return the arguments of the service."""
        values = self.values_given({name: self.cleaned_data[name] for name in ROWS if name in self.cleaned_data})
        if not values["inputs"]:
            values["inputs"] = None if values["expression"] else same_named(self._dataset, self.cleaned_data["name"])
        return {**{name: self.cleaned_data[name] for name in ("name", "quoted_name")}, **values}


class RenameForm(QuotedName, EditForm):
    """Form of a rename, with its reason."""

    seen = ("name",)
    name = forms.CharField(
        max_length=200,
        label="New name",
        widget=forms.TextInput(attrs=MONO),
        help_text="The current name is kept as a former name and is still found by search.",
        error_messages={"required": "Enter the new name."},
    )
    reason = ReasonField()
    field_order = ("name", "quoted_name", "reason", "version")


class VerbForm(EditForm):
    """Form of retirement, restoration and deletion, with an optional reason."""

    reason = ReasonField(required=False)


def readable(dataset: TargetDataset) -> list[tuple[Any, list[SourceColumn | TargetColumn]]]:
    """Return the columns that a dataset's columns may read: its inputs, each with its active columns."""
    items = dataset.inputs.select_related("source__system", "upstream__schema")
    datasets: Iterable[Any] = [item.read_dataset for item in items]
    return [(row, list(row.columns.filter(active=True).order_by("ordinal", "id"))) for row in datasets]
