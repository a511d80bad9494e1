"""Forms for schemas, datasets, their inputs and references."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet

from elevata.core.errors import ProductError, as_sentence
from elevata.web.forms import MONO, DescribedFields, EditForm, ProductForm, ReasonField, TextField
from metadata.domain import naming
from metadata.domain.quality import unknown_parents
from metadata.forms.base import QuotedName, sensitivity_field
from metadata.models import SourceDataset, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.datasets import dataset_called, datasets_by_name

# The same limit as in the API.
MOST_INPUTS = 100
MOST_KEPT = 30_000


class DatasetNamesField(TextField):
    """Names of datasets, one per line, as a list without duplicates."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, widget=forms.Textarea(attrs={"rows": 4, **MONO}), **options)

    def to_python(self, value: Any) -> Any:
        lines = value if isinstance(value, list) else (value or "").replace("\r", "\n").split("\n")
        return list(dict.fromkeys(line.strip() for line in lines if line.strip()))

    def prepare_value(self, value: Any) -> str:
        return "\n".join(value) if isinstance(value, list) else value


class DatasetFields(DescribedFields):
    """Fields of a dataset, except its name, its history policy and its inputs."""

    materialization = forms.ChoiceField(
        choices=TargetDataset.Materialization.choices,
        label="Materialization",
        help_text="A table stores rows; a view is computed when it is read.",
    )
    historize = forms.BooleanField(
        required=False,
        label="Keep history",
        help_text="A history table keeps every version. It needs a business key. Switching it off retires the "
        "history without deleting it.",
    )
    filter = TextField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono", "spellcheck": "false"}),
        help_text="SQL condition on the columns of the inputs. Empty keeps every row.",
    )
    sensitivity = sensitivity_field()


class DatasetForm(DatasetFields, EditForm):
    seen: tuple[str, ...] = (
        *("description", "owner", "tags", "sensitivity"),
        *("materialization", "historize", "filter"),
    )
    field_order: Iterable[str] | None = (*seen, "version")

    def add_problem(self, problem: ProductError) -> None:
        """Show errors of the history policy at the field that turns history on."""
        if problem.field.startswith("history_policy"):
            self.add_error("historize", as_sentence(f"history policy: {problem.message}"))
        else:
            super().add_problem(problem)


class NoHistoryDatasetForm(DatasetForm):
    """Form of a dataset in a layer without history."""

    historize = None  # type: ignore[assignment]  # leaves the field out
    seen = tuple(name for name in DatasetForm.seen if name != "historize")
    field_order = (*seen, "version")


class RawDatasetForm(DescribedFields, EditForm):
    """Form of a raw dataset, which is a table without filter and history."""

    keep = forms.ChoiceField(
        choices=TargetDataset.Keep.choices,
        label="Keep",
        help_text="The latest delivery replaces the one before; all deliveries stay until the retention removes them. "
        "Rows of a feed are always added.",
    )
    keep_days = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_KEPT,
        label="Days",
        help_text="Removes deliveries that were loaded more days ago. Empty keeps them whatever their age.",
    )
    keep_deliveries = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_KEPT,
        label="Deliveries",
        help_text="Keeps this number of newest deliveries. Empty keeps any number.",
    )
    sensitivity = sensitivity_field()
    seen = ("description", "owner", "tags", "sensitivity", "keep", "keep_days", "keep_deliveries")
    field_order = (*seen, "version")


class HistoryForm(DescribedFields, EditForm):
    """Only the description of a history can be edited."""

    seen = ("description", "owner", "tags")
    field_order = (*seen, "version")


class NewDatasetForm(DatasetFields, QuotedName):
    """Form of a new dataset."""

    schema = forms.ModelChoiceField(
        queryset=TargetSchema.objects.all(),
        to_field_name="name",
        empty_label="choose…",
        help_text="Schema of the table. Only rawcore keeps history.",
        error_messages={"required": "Choose a schema."},
    )
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Table name: letters, digits and _.",
        error_messages={"required": "Enter a name."},
    )
    inputs = DatasetNamesField(
        label="Reads",
        help_text="Datasets to read, one per line: schema.name, or system.name of a source.",
    )
    take_columns = forms.BooleanField(
        required=False, label="Copy columns", help_text="Creates a column for each input column."
    )
    field_order = (
        "schema",
        "name",
        "quoted_name",
        "materialization",
        "inputs",
        "take_columns",
        "filter",
        "historize",
        "description",
        "owner",
        "tags",
        "sensitivity",
    )

    def clean_inputs(self) -> list[SourceDataset | TargetDataset]:
        """Return the named datasets, in order."""
        return datasets_called(self.cleaned_data["inputs"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if cleaned.get("take_columns") and not cleaned.get("inputs") and "inputs" not in self.errors:
            self.add_error("inputs", "Enter the inputs to copy columns from.")
        return cleaned


class CloneForm(QuotedName):
    """Schema and name of a dataset's copy."""

    schema = forms.ModelChoiceField(
        queryset=TargetSchema.objects.all(),
        to_field_name="name",
        empty_label=None,
        help_text="Schema of the copy.",
    )
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Table name: letters, digits and _.",
        error_messages={"required": "Enter a name."},
    )
    reason = ReasonField(required=False)
    field_order = ("schema", "name", "quoted_name", "reason")


class InputsForm(EditForm):
    """Inputs of a dataset, and the reason of their change.

    ``wanted``: the named datasets; None if one does not exist.
    """

    seen = ("inputs",)
    inputs = DatasetNamesField(
        label="Reads",
        help_text="One per line: schema.name, or system.name of a source. Removing a line retires the input. "
        "Earlier lines take precedence.",
    )
    reason = ReasonField(required=False)
    field_order = ("inputs", "reason", "version")

    def __init__(self, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        self._dataset = dataset
        self.wanted: list[SourceDataset | TargetDataset] | None = None

    @classmethod
    def values(cls, row: TargetDataset) -> dict[str, Any]:
        return {"inputs": [str(dataset_input) for dataset_input in inputs_of(row)]}

    def clean_inputs(self) -> list[str]:
        # A system and a schema may share a name: current inputs take precedence.
        known = {str(dataset_input): dataset_input for dataset_input in inputs_of(self._dataset)}
        self.wanted = datasets_called(self.cleaned_data["inputs"], known)
        return self.cleaned_data["inputs"]


def inputs_of(dataset: TargetDataset) -> list[SourceDataset | TargetDataset]:
    """Return a dataset's inputs, in order."""
    items = dataset.inputs.select_related("source__system", "upstream__schema")
    return [item.read_dataset for item in items]


def datasets_called(
    names: list[str], known: Mapping[str, SourceDataset | TargetDataset] | None = None
) -> list[SourceDataset | TargetDataset]:
    """Return the datasets of these names, in order without duplicates; ``known`` take precedence.

    Raise ValidationError for unknown names, with suggestions.
    """
    if len(names) > MOST_INPUTS:
        raise forms.ValidationError(f"A dataset reads at most {MOST_INPUTS} others; these are {len(names)}.")
    rows = {name: (known or {}).get(name) or dataset_called(name) for name in names}
    missing = [name for name, row in rows.items() if row is None]
    if missing:
        raise forms.ValidationError([f"There is no dataset or source {name!r}.{_like(name)}" for name in missing])
    return list(dict.fromkeys(row for row in rows.values() if row is not None))


class SchemaFields(DescribedFields):
    name = forms.CharField(
        max_length=100,
        widget=forms.TextInput(attrs=MONO),
        help_text="Schema name: letters, digits and _.",
        error_messages={"required": "Enter a name."},
    )
    layer = forms.ChoiceField(
        choices=TargetSchema.Layer.choices,
        help_text="raw: as delivered; stage: typed; rawcore: current state; bizcore and serving: models. Fixed once "
        "the schema has datasets.",
    )
    ordinal = forms.IntegerField(
        min_value=0, max_value=30_000, label="Place", initial=0, help_text="Position in lists."
    )


class SchemaForm(SchemaFields, EditForm):
    seen = ("name", "layer", "ordinal", "description", "owner", "tags")
    field_order = (*seen, "version")


class NewSchemaForm(SchemaFields, ProductForm):
    field_order = ("name", "layer", "ordinal", "description", "owner", "tags")


def _like(name: str) -> str:
    """Return a sentence that suggests datasets with similar names."""
    part = name.rpartition(".")[2].strip()
    targets = TargetDataset.objects.filter(name__icontains=part, active=True).select_related("schema")[:3]
    sources = SourceDataset.objects.filter(name__icontains=part, active=True).select_related("system")[:3]
    close = [str(row) for row in (*sources, *targets)] if part else []
    return f" Similar names: {', '.join(close)}." if close else ""


# Form of a reference: the parent by name, then a column of the child for each column of its key.


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
