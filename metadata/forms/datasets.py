"""Datasets and schemas as people type them."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.db.models import QuerySet

from elevata.core.errors import MetadataError, as_sentence
from metadata.forms.base import DescribedFields, EditForm, MetadataForm, ReasonField, TextField, sensitivity_field
from metadata.models import SourceDataset, TargetDataset, TargetSchema

# As many as REST takes.
MOST_INPUTS = 100
MONO = {"class": "mono", "autocomplete": "off", "spellcheck": "false"}


class DatasetNamesField(TextField):
    """Datasets by their names, one a line, as a list of names; none twice."""

    def __init__(self, **options: Any) -> None:
        super().__init__(required=False, widget=forms.Textarea(attrs={"rows": 4, **MONO}), **options)

    def to_python(self, value: Any) -> list[str]:
        lines = value if isinstance(value, list) else (value or "").splitlines()
        return list(dict.fromkeys(line.strip() for line in lines if line.strip()))

    def prepare_value(self, value: Any) -> str:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


class DatasetFields(DescribedFields):
    """Fields of a dataset, except its name, its history policy and its inputs."""

    materialization = forms.ChoiceField(
        choices=TargetDataset.Materialization.choices,
        label="Made as",
        help_text="A table holds rows of its own; a view is computed whenever it is read.",
    )
    historize = forms.BooleanField(
        required=False,
        label="Keep history",
        help_text="A history table beside it keeps every version. It needs a business key. "
        "Switched off, the history is retired and keeps what it has.",
    )
    filter = TextField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "class": "mono", "spellcheck": "false"}),
        help_text="A condition on the rows, as SQL over the columns of its inputs. Empty: every row.",
    )
    sensitivity = sensitivity_field()


class DatasetForm(DatasetFields, EditForm):
    seen = ("description", "owner", "tags", "sensitivity", "materialization", "historize", "filter")
    field_order = (*seen, "version")

    def add_problem(self, problem: MetadataError) -> None:
        """A policy that does not go with the columns only counts where history is kept."""
        if problem.field.startswith("history_policy"):
            self.add_error("historize", as_sentence(f"history policy: {problem.message}"))
        else:
            super().add_problem(problem)


class NoHistoryDatasetForm(DatasetForm):
    """A dataset of a layer that keeps no history."""

    historize = None
    seen = tuple(name for name in DatasetForm.seen if name != "historize")
    field_order = (*seen, "version")


class HistoryForm(DescribedFields, EditForm):
    """A history follows its base; only its description is its own."""

    seen = ("description", "owner", "tags")
    field_order = (*seen, "version")


class NewDatasetForm(DatasetFields, MetadataForm):
    """A dataset described by hand."""

    schema = forms.ModelChoiceField(
        queryset=TargetSchema.objects.all(),
        to_field_name="name",
        empty_label="choose…",
        help_text="Where its table stands. In rawcore history can be kept.",
        error_messages={"required": "Choose the schema it stands in."},
    )
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Letters, digits and _, for it is the table's name. A rename later moves no data.",
        error_messages={"required": "A dataset needs a name."},
    )
    inputs = DatasetNamesField(
        label="Reads",
        help_text="Datasets whose rows it takes, one a line: schema.name, or system.name of a source.",
    )
    take_columns = forms.BooleanField(
        required=False, label="Begin with their columns", help_text="Each column reads the one of the same name."
    )
    field_order = (
        "schema",
        "name",
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
        """The datasets that the lines name, in their order."""
        return datasets_called(self.cleaned_data["inputs"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        if cleaned.get("take_columns") and not cleaned.get("inputs") and "inputs" not in self.errors:
            self.add_error("inputs", "Say what it reads, so that it can begin with columns.")
        return cleaned


class InputsForm(EditForm):
    """Inputs of a dataset, and the reason of their change.

    ``wanted``: the named datasets; None if one does not exist.
    """

    seen = ("inputs",)
    inputs = DatasetNamesField(
        label="Reads",
        help_text="One a line: schema.name, or system.name of a source. Add a line to read one more, write another "
        "name over one to change it, take a line out to retire it. The first ones go first.",
    )
    reason = ReasonField(required=False)
    field_order = ("inputs", "reason", "version")

    def __init__(self, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        super().__init__(*args, **options)
        self._dataset = dataset
        self.wanted: list[SourceDataset | TargetDataset] | None = None

    @classmethod
    def values(cls, row: TargetDataset) -> dict[str, Any]:
        return {"inputs": [str(one) for one in inputs_of(row)]}

    def clean_inputs(self) -> list[str]:
        # A system and a schema may share a name: what is read already is meant by its name.
        known = {str(one): one for one in inputs_of(self._dataset)}
        self.wanted = datasets_called(self.cleaned_data["inputs"], known)
        return self.cleaned_data["inputs"]


def inputs_of(dataset: TargetDataset) -> list[SourceDataset | TargetDataset]:
    """Return a dataset's inputs, in order."""
    items = dataset.inputs.select_related("source__system", "upstream__schema")
    return [item.source or item.upstream for item in items]


def datasets_called(
    names: list[str], known: Mapping[str, SourceDataset | TargetDataset] | None = None
) -> list[SourceDataset | TargetDataset]:
    """The datasets of these names, in their order, none twice; ``known`` are looked at first.

    ValidationError names every one that is not there, with some that are called much like it.
    """
    if len(names) > MOST_INPUTS:
        raise forms.ValidationError(f"A dataset reads at most {MOST_INPUTS} others; these are {len(names)}.")
    found = {name: (known or {}).get(name) or _named(name) for name in names}
    missing = [name for name, row in found.items() if row is None]
    if missing:
        raise forms.ValidationError([f"There is no dataset or source {name!r}.{_like(name)}" for name in missing])
    return list(dict.fromkeys(found.values()))


class SchemaFields(DescribedFields):
    name = forms.CharField(
        max_length=100,
        widget=forms.TextInput(attrs=MONO),
        help_text="The first half of its tables' names: letters, digits and _.",
        error_messages={"required": "A schema needs a name."},
    )
    layer = forms.ChoiceField(
        choices=TargetSchema.Layer.choices,
        help_text="What its datasets are for: raw as delivered, stage typed, rawcore current truth, bizcore and "
        "serving modelled on top. A schema with datasets stays in its layer.",
    )
    ordinal = forms.IntegerField(
        min_value=0, max_value=30_000, label="Place", initial=0, help_text="Schemas are listed in this order."
    )


class SchemaForm(SchemaFields, EditForm):
    seen = ("name", "layer", "ordinal", "description", "owner", "tags")
    field_order = (*seen, "version")


class NewSchemaForm(SchemaFields, MetadataForm):
    field_order = ("name", "layer", "ordinal", "description", "owner", "tags")


def targets_called(name: str) -> QuerySet[TargetDataset]:
    """``schema.name`` of a target dataset; case does not part names."""
    schema, _, rest = name.partition(".")
    return TargetDataset.objects.select_related("schema").filter(schema__name__iexact=schema, name__iexact=rest)


def _named(name: str) -> SourceDataset | TargetDataset | None:
    """``schema.name`` of a target dataset, else ``system.name`` of a source; case does not part names."""
    first, _, rest = name.partition(".")
    source = SourceDataset.objects.select_related("system").filter(system__short_name__iexact=first, name__iexact=rest)
    return targets_called(name).first() or source.first()


def _like(name: str) -> str:
    """Some datasets whose names have the last part of this one in them, as a sentence."""
    part = name.rpartition(".")[2].strip()
    targets = TargetDataset.objects.filter(name__icontains=part, active=True).select_related("schema")[:3]
    sources = SourceDataset.objects.filter(name__icontains=part, active=True).select_related("system")[:3]
    close = [str(row) for row in (*sources, *targets)] if part else []
    return f" Called much like it: {', '.join(close)}." if close else ""
