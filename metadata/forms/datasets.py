"""Forms for schemas, datasets and their inputs."""

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms

from elevata.core.errors import ProductError, as_sentence
from elevata.web.forms import MONO, DescribedFields, EditForm, ProductForm, ReasonField, TextField
from metadata.forms.base import QuotedName, sensitivity_field
from metadata.models import SourceDataset, TargetDataset, TargetSchema
from metadata.selectors.datasets import dataset_called

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
