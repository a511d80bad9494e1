"""Forms of quality checks; the fields depend on the kind of check."""

from typing import Any

from django import forms

from elevata.web.forms import MONO, EditForm, ProductForm, ReasonField, TagsField, TextField, set_choices
from metadata.domain.quality import check_kinds
from metadata.domain.quality.check_kinds import AGGREGATES, KINDS, QUARANTINE, SEVERITIES
from metadata.models import QualityCheck, TargetDataset, TargetSchema

_COMMON = ("name", "severity", "description")


class LinesField(TextField):
    """Field of one text a line, whose value is a list."""

    def to_python(self, value: Any) -> Any:
        lines = value if isinstance(value, list) else super().to_python(value).split("\n")
        return [line for line in lines if line.strip()]

    def prepare_value(self, value: Any) -> str:
        return "\n".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial or "") != self.to_python(data or "")


def _code(rows: int, **options: Any) -> TextField:
    widget = forms.Textarea(attrs={"rows": rows, "class": "mono", "spellcheck": "false"})
    return TextField(required=False, widget=widget, **options)


class CheckFields(forms.Form):
    """Fields of a check: those of all kinds, and the arguments of its own kind."""

    name = forms.CharField(
        max_length=100, help_text="Names the check in results.", error_messages={"required": "Enter a name."}
    )
    severity = forms.ChoiceField(
        help_text="Warn records the result. Quarantine keeps the failing rows aside. Stop refuses the load."
    )
    columns = forms.MultipleChoiceField(
        required=False, widget=forms.SelectMultiple(attrs={"size": 6}), help_text="Columns whose values are checked."
    )
    values = LinesField(
        required=False, widget=forms.Textarea(attrs={"rows": 5, "class": "mono"}), help_text="One value a line."
    )
    minimum = forms.CharField(required=False, max_length=check_kinds.MAX_TEXT, help_text="Empty for no lower limit.")
    maximum = forms.CharField(required=False, max_length=check_kinds.MAX_TEXT, help_text="Empty for no upper limit.")
    pattern = forms.CharField(
        required=False,
        max_length=check_kinds.MAX_PATTERN,
        widget=forms.TextInput(attrs=MONO),
        help_text="A regular expression for the whole text, like [A-Z]{4}.",
    )
    condition = _code(3, help_text="SQL over the columns, true for each good row.")
    dataset = forms.CharField(
        required=False, widget=forms.TextInput(attrs=MONO), label="Other dataset", help_text="schema.name"
    )
    other_columns = TagsField(
        required=False,
        label="Its columns",
        widget=forms.TextInput(attrs=MONO),
        help_text="In the order of the columns here, separated by commas.",
    )
    aggregate = forms.ChoiceField(
        required=False,
        choices=[(name, name) for name in AGGREGATES],
        help_text="Value of the column that both datasets must have.",
    )
    tolerance = forms.CharField(
        required=False, help_text="Share by which they may differ: 0.01 is one percent. Empty for none."
    )
    hours = forms.IntegerField(
        required=False, min_value=1, max_value=check_kinds.MOST_HOURS, help_text="Maximum age of the newest value."
    )
    runs = forms.IntegerField(
        required=False,
        min_value=5,
        max_value=check_kinds.MOST_RUNS,
        help_text=f"Number of runs that the band is learned from. Empty: {check_kinds.DEFAULT_RUNS}.",
    )
    deviations = forms.CharField(
        required=False,
        help_text=f"Width of the band in deviations. Empty: {check_kinds.DEFAULT_DEVIATIONS}.",
    )
    sql = _code(8, label="SELECT", max_length=check_kinds.MAX_QUERY, help_text="Returns the rows that are wrong.")
    where = _code(2, label="Only rows where", help_text="SQL condition. Empty checks all rows.")
    description = TextField(
        required=False, widget=forms.Textarea(attrs={"rows": 2}), help_text="Why the data must be so."
    )

    def prepare(self, dataset: TargetDataset, kind: str) -> None:
        """Remove the fields of other kinds and set the choices for a check of this dataset."""
        definition = KINDS[kind]
        for name in check_kinds.argument_names():
            if name not in definition.arguments:
                del self.fields[name]
        may_keep_aside = definition.finds_rows and dataset.schema.layer != TargetSchema.Layer.RAW
        set_choices(
            self,
            "severity",
            [(value, label) for value, label in SEVERITIES.items() if value != QUARANTINE or may_keep_aside],
        )
        if "columns" in self.fields:
            columns = dataset.columns.filter(active=True).order_by("ordinal", "id")
            set_choices(self, "columns", [(column.name, f"{column.name}  {column.type}") for column in columns])
            self.fields["columns"].label = "Column" if definition.one_column else "Columns"

    def arguments_given(self) -> dict[str, Any]:
        """Return the arguments that are not empty."""
        given = {name: self.cleaned_data[name] for name in check_kinds.argument_names() if name in self.fields}
        return {name: value for name, value in given.items() if value not in (None, "", [])}


class NewCheckForm(CheckFields, ProductForm):
    field_order = ("name", *check_kinds.argument_names(), "severity", "description")

    def __init__(self, *args: Any, dataset: TargetDataset, kind: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self._kind = kind
        self.prepare(dataset, kind)

    def given(self) -> dict[str, Any]:
        common = {name: self.cleaned_data[name] for name in _COMMON}
        return common | {"kind": self._kind, "arguments": self.arguments_given()}


class CheckForm(CheckFields, EditForm):
    """Form of a check, except its kind."""

    reason = ReasonField(required=False)
    field_order = ("name", *check_kinds.argument_names(), "severity", "description", "reason", "version")

    def __init__(self, *args: Any, dataset: TargetDataset, kind: str, **options: Any) -> None:
        self.seen = (*_COMMON, *KINDS[kind].arguments)
        super().__init__(*args, **options)
        self.prepare(dataset, kind)

    @classmethod
    def values(cls, row: QualityCheck) -> dict[str, Any]:  # type: ignore[override]  # not the field of this name
        return {name: getattr(row, name) for name in _COMMON} | row.arguments

    def changes(self) -> dict[str, Any]:
        changed = super().changes()
        common = {name: value for name, value in changed.items() if name in _COMMON}
        return common | ({"arguments": self.arguments_given()} if changed.keys() - set(_COMMON) else {})
