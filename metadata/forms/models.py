"""Forms of a model: its SELECT, its key, and how its rows are stored."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.urls import reverse_lazy

from elevata.core.errors import ProductError, as_sentence
from elevata.web.forms import MONO, DescribedFields, EditForm, TagsField, TextField
from metadata.domain.models.increment import CHANGED_KEYS, KEY, KINDS, WINDOW
from metadata.domain.select_check import MAX_LENGTH
from metadata.forms.base import QuotedName, sensitivity_field
from metadata.models import TargetColumn, TargetDataset, TargetSchema

MODEL_LAYERS = (TargetSchema.Layer.BIZCORE, TargetSchema.Layer.SERVING)
_INCREMENT = ("increment_by", "increment_column", "increment_days", "increment_input", "increment_columns")


class KeyPairsField(TextField):
    """Pairs of column names, one ``input = model`` per line, as a dict."""

    def to_python(self, value: Any) -> Any:
        if isinstance(value, dict):
            return value
        lines = [line for line in (value or "").replace("\r", "\n").split("\n") if line.strip()]
        sides = (line.partition("=") for line in lines)
        pairs = [(name.strip(), own.strip()) for name, _, own in sides]
        if not all(all(pair) for pair in pairs):
            raise forms.ValidationError("Write column of the input = column of the model, one pair per line.")
        return dict(pairs)

    def prepare_value(self, value: Any) -> str:
        return "\n".join(f"{name} = {own}" for name, own in value.items()) if isinstance(value, dict) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        try:
            return self.to_python(initial) != self.to_python(data)
        except forms.ValidationError:
            return True


class ModelFields(DescribedFields):
    """Fields of a model, except its name."""

    select = TextField(
        label="SELECT",
        max_length=MAX_LENGTH,
        widget=forms.Textarea(
            attrs={
                "rows": 14,
                "class": "mono",
                "spellcheck": "false",
                "autocapitalize": "off",
                "data-code": "",
                "data-completions": reverse_lazy("model_completions"),
                "placeholder": "SELECT icao, name\nFROM rawcore.rc_air_airport",
            }
        ),
        help_text="One SELECT in Spark's SQL. Datasets are named schema.name; columns and types follow from it.",
        error_messages={"required": "Write a SELECT."},
    )
    business_key = TagsField(
        required=False,
        label="Key columns",
        widget=forms.TextInput(attrs=MONO),
        help_text="Columns that identify a row, separated by commas. A load refuses rows of one key.",
    )
    materialization = forms.ChoiceField(
        choices=TargetDataset.Materialization.choices,
        label="Materialization",
        help_text="A table stores rows; a view is computed when it is read.",
    )
    historize = forms.BooleanField(
        required=False, label="Keep history", help_text="A history table keeps every version of a key. Needs a key."
    )
    increment_by = forms.ChoiceField(
        required=False,
        label="Computed by a load",
        choices=[("", "All rows"), *KINDS.items()],
        help_text="Rows that a load computes anew.",
    )
    increment_column = forms.CharField(
        required=False,
        max_length=200,
        label="Dated by",
        widget=forms.TextInput(attrs={**MONO, "data-increment": WINDOW}),
        help_text="Date or timestamp column of the model.",
    )
    increment_days = forms.IntegerField(
        required=False,
        min_value=1,
        label="Days",
        widget=forms.NumberInput(attrs={"data-increment": WINDOW}),
        help_text="Length of the window before the load.",
    )
    increment_input = forms.CharField(
        required=False,
        max_length=300,
        label="Input",
        widget=forms.TextInput(attrs={**MONO, "data-increment": CHANGED_KEYS}),
        help_text="schema.name of the dataset whose changed keys count.",
    )
    increment_columns = KeyPairsField(
        required=False,
        label="Key pairs",
        widget=forms.Textarea(attrs={"rows": 2, "data-increment": CHANGED_KEYS, **MONO}),
        help_text="column of the input = column of the model, one pair per line.",
    )
    sensitivity = sensitivity_field()

    elsewhere: Mapping[str, str] = {
        "increment": "increment_by",
        "increment.by": "increment_by",
        "increment.column": "increment_column",
        "increment.days": "increment_days",
        "increment.input": "increment_input",
        "increment.columns": "increment_columns",
        "inputs": "select",
        "no_business_key": "business_key",
    }

    def increment(self) -> dict[str, Any]:
        """Return the increment that the fields describe."""
        by = self.cleaned_data["increment_by"]
        given = {name.removeprefix("increment_"): self.cleaned_data[name] for name in _INCREMENT[1:]}
        names = {KEY: (), WINDOW: ("column", "days"), CHANGED_KEYS: ("input", "columns")}.get(by, ())
        return {"by": by, **{name: given[name] for name in names if given[name]}} if by else {}


class ModelForm(ModelFields, QuotedName, EditForm):
    """Form of a model, except its name."""

    seen = (
        *("select", "business_key", "materialization", "historize", *_INCREMENT),
        *("description", "owner", "tags", "sensitivity"),
    )
    field_order = ("select", "quoted_name", *seen, "version")

    @classmethod
    def values(cls, row: TargetDataset) -> dict[str, Any]:
        key = row.columns.filter(active=True, role=TargetColumn.Role.BUSINESS_KEY).order_by("key_ordinal")
        increment = {f"increment_{name}": value for name, value in row.increment.items()}
        plain = {name: getattr(row, name) for name in cls.seen if not name.startswith(("increment_", "business_key"))}
        return plain | {"business_key": [column.name for column in key]} | increment

    def changes(self) -> dict[str, Any]:
        changed = super().changes()
        if any(name in changed for name in _INCREMENT):
            changed = {name: value for name, value in changed.items() if name not in _INCREMENT}
            changed["increment"] = self.increment()
        return changed

    def add_problem(self, problem: ProductError) -> None:
        _add_problem(self, super(), problem)


class NewModelForm(ModelFields, QuotedName):
    """Form of a new model."""

    schema = forms.ModelChoiceField(
        queryset=TargetSchema.objects.filter(layer__in=MODEL_LAYERS),
        to_field_name="name",
        empty_label="choose…",
        help_text="A schema of bizcore or serving.",
        error_messages={"required": "Choose a schema."},
    )
    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Table name: letters, digits and _.",
        error_messages={"required": "Enter a name."},
    )
    field_order = ("schema", "name", "quoted_name", *ModelForm.seen)

    def given(self) -> dict[str, Any]:
        plain = {name: value for name, value in self.cleaned_data.items() if name not in _INCREMENT}
        return plain | {"increment": self.increment()}

    def add_problem(self, problem: ProductError) -> None:
        _add_problem(self, super(), problem)


def _add_problem(form: forms.Form, base: Any, problem: ProductError) -> None:
    """Show errors of the history policy at the field that turns history on."""
    if problem.code == "no_business_key":
        form.add_error("business_key", as_sentence(problem.message))
    elif problem.field.startswith("history_policy"):
        form.add_error("historize", as_sentence(f"history policy: {problem.message}"))
    else:
        base.add_problem(problem)
