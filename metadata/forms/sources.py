"""Forms of source datasets."""

from typing import Any

from django import forms

from elevata.core.lengths import MAX_SHORT_NAME
from elevata.web.forms import MONO, DescribedFields, EditForm, ProductForm, TagsField, set_choices
from metadata.domain.sources.formats import FORMATS_OF_KIND, WATERMARK_FORMATS
from metadata.domain.sources.intake import KEY_LIST_FORMATS
from metadata.domain.sources.reading_options import OPTIONS
from metadata.forms.base import DescribedApart
from metadata.forms.options import FORMATS_OF_FIELD, changed_arguments, option_fields, option_help, option_text
from metadata.models import SourceDataset, System

_OPTIONS = {option.name: option for option in OPTIONS}


class SourceFields(DescribedFields):
    """Names and description of a source dataset."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Name in the source system.",
        error_messages={"required": "Enter a name."},
    )
    short_name = forms.CharField(
        max_length=MAX_SHORT_NAME,
        widget=forms.TextInput(attrs=MONO),
        help_text="Part of generated table names: letters, digits and _.",
        error_messages={"required": "Enter a short name."},
    )


class NewSourceForm(DescribedApart, SourceFields, ProductForm):
    """Names and description of a source dataset to import."""

    field_order = ("name", "short_name", "description", "owner", "tags")

    elsewhere = {"location": "name", "format": "name", "options": "name"}


_WITH_WATERMARK = {FORMATS_OF_FIELD: " ".join(WATERMARK_FORMATS)}


class IntakeFields(forms.Form):
    """Fields of the rows that a load reads."""

    watermark = TagsField(
        required=False,
        widget=forms.TextInput(attrs=MONO | _WITH_WATERMARK),
        help_text="Columns whose values grow with each change of a row, like changed_at, separated by commas. A load "
        "then reads the rows from the last mark on. Empty reads all rows.",
    )
    look_back = forms.CharField(
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs=MONO | _WITH_WATERMARK),
        help_text="How far before the mark a load reads again: a number, or a time like 2 days or 3 hours.",
    )
    tolerance = forms.CharField(
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs=MONO | _WITH_WATERMARK),
        help_text="How far the mark may be ahead of the run's time, or a number ahead of the mark before: a number, or "
        "a time like 2 days. Rows beyond are loaded with a warning. By default 1 day, or ten times the range so far.",
    )
    key_list = forms.CharField(
        max_length=1000,
        required=False,
        label="Key list",
        widget=forms.TextInput(attrs=MONO | {FORMATS_OF_FIELD: " ".join(KEY_LIST_FORMATS)}),
        help_text="Location of the keys of all rows, like customer_keys.csv, for delete detection by key list.",
    )


_OptionFields: Any = option_fields(OPTIONS)  # Any: its fields follow from the options


class SourceForm(SourceFields, _OptionFields, IntakeFields, EditForm):
    """Form of a source dataset. Another page compares its columns with a delivery; YAML or REST its history policy.

    An empty option is not stored, so its default applies.
    """

    OPTIONS = tuple(_OPTIONS)
    INTAKE = ("watermark", "look_back", "tolerance", "key_list")
    FACTS = (
        *("name", "short_name", "location", "format", "historize", "new_columns", "active"),
        *("description", "owner", "tags"),
    )
    seen = (*FACTS, *OPTIONS, *INTAKE)
    field_order = (*FACTS, *OPTIONS, *INTAKE, "version")
    elsewhere = {
        "options": "format",
        "intake": "watermark",
        **{f"options.{name}": name for name in OPTIONS},
        **{f"intake.{name}": name for name in INTAKE},
    }

    location = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=MONO),
        help_text="Of files: a file, or a folder of files, below the system's folder. Of a database: schema.table. "
        "Of a cluster: the topic. Of an API: a path below its base URL.",
        error_messages={"required": "Enter a location."},
    )
    format = forms.ChoiceField(help_text="Content of the delivery.")
    historize = forms.BooleanField(
        required=False,
        label="Keep history",
        help_text="Generates a history table that keeps every version. Needs a business key.",
    )
    new_columns = forms.ChoiceField(
        choices=SourceDataset.NewColumns.choices,
        help_text="Columns that are delivered and not in the contract. Taken ones are added after the load or check "
        "that reports them; their tables change as by any other edit.",
    )
    active = forms.BooleanField(
        required=False,
        label="In use",
        help_text="An inactive source is not loaded, and generation retires its targets.",
    )

    def __init__(self, *args: Any, system: System, **options: Any) -> None:
        super().__init__(*args, **options)
        formats = FORMATS_OF_KIND[system.kind]
        self.shown_options = [name for name, option in _OPTIONS.items() if {*option.formats} & {*formats}]
        for name in self.shown_options:
            self.fields[name].help_text = option_help(_OPTIONS[name], formats)
        formats_of = {name: self.fields[name].widget.attrs[FORMATS_OF_FIELD].split() for name in self.INTAKE}
        self.shown_intake = tuple(name for name in self.INTAKE if {*formats_of[name]} & {*formats})
        set_choices(self, "format", [choice for choice in SourceDataset.Format.choices if choice[0] in formats])

    @classmethod
    def values(cls, row: SourceDataset) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in cls.FACTS}
        options = {name: option_text(row.options.get(name)) for name in cls.OPTIONS}
        intake: dict[str, Any]
        intake = {name: str(row.intake.get(name, "")) for name in ("look_back", "tolerance", "key_list")}
        intake["watermark"] = list(row.intake.get("watermark", ()))
        return facts | options | intake

    def changes(self) -> dict[str, Any]:
        """Return the changed fields as arguments of the service; a changed option brings all options."""
        changed = super().changes()
        arguments = changed_arguments(
            {name: value for name, value in changed.items() if name not in self.INTAKE},
            self.FACTS,
            self.cleaned_data,
            _OPTIONS,
        )
        if changed.keys() & {*self.INTAKE}:
            arguments["intake"] = {name: self.cleaned_data[name] for name in self.INTAKE if self.cleaned_data[name]}
        return arguments
