"""Forms of an import: how a place is read, and which columns are taken."""

import json
from collections.abc import Iterable
from typing import Any

from django import forms

from elevata.core.errors import MetadataError, as_sentence
from elevata.core.lengths import MAX_TEXT, MAX_TYPE
from elevata.web.forms import MONO, ProductForm
from metadata.domain import naming
from metadata.domain.sources.formats import FILE_FORMATS, REST, label_of
from metadata.domain.sources.reading_options import OPTIONS, check_options, options_of
from metadata.domain.types import NAMES, DataType, parse
from metadata.forms.base import sensitivity_field
from metadata.forms.options import FORMATS_OF_FIELD, given_options, option_fields, option_text
from metadata.models import SourceDataset

_OPTIONS = {option.name: option for option in OPTIONS}
_PARSING_OPTIONS = (
    *("delimiter", "encoding", "quote", "escape", "quotes_inside", "repeated_headers"),
    *("skip_lines", "header_lines", "footer_lines", "repeated_names"),
    *("columns", "path", "row_tag", "sheet", "range"),
    *("date_format", "timestamp_format", "first_year", "decimal_separator", "thousands_separator"),
    *("negative_numbers", "true_words", "false_words", "null_string"),
    "ignored_columns",
)
_ENDPOINT_OPTIONS = options_of(REST)


# Any: their fields follow from the options.
_ParsingFields: Any = option_fields(_OPTIONS[name] for name in _PARSING_OPTIONS)
_EndpointFields: Any = option_fields(_ENDPOINT_OPTIONS.values(), (REST,))


class ReadingForm(_ParsingFields, ProductForm):
    """Reading options of a file. Sent by GET, so the page's address contains them."""

    field_order = ("location", "format", "delimiter", "no_header", *_PARSING_OPTIONS)

    location = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=MONO),
        help_text="A file, or a folder of files, below the system's folder.",
    )
    format = forms.ChoiceField(
        choices=[choice for choice in SourceDataset.Format.choices if choice[0] in FILE_FORMATS],
        help_text="File format.",
    )
    no_header = forms.BooleanField(
        required=False,
        label="No header",
        widget=forms.CheckboxInput(attrs={FORMATS_OF_FIELD: " ".join(_OPTIONS["header"].formats)}),
        help_text="The first line contains data, not column names.",
    )

    def options(self) -> dict[str, Any]:
        """Return the reading options that differ from the defaults; empty while the form has errors."""
        if not self.is_valid():
            return {}
        data = self.cleaned_data
        known = options_of(data["format"])
        given = given_options(data, {name: known[name] for name in _PARSING_OPTIONS if name in known})
        options = {name: value for name, value in given.items() if value != known[name].default}
        return options | ({"header": False} if "header" in known and data["no_header"] else {})

    @classmethod
    def filled(cls, location: str, format_name: str, options: dict[str, Any]) -> "ReadingForm":
        """Return the form filled with these options."""
        texts = {name: option_text(options.get(name)) for name in _PARSING_OPTIONS}
        no_header = options.get("header", True) is False
        return cls(initial=texts | {"location": location, "format": format_name, "no_header": no_header})


class EndpointForm(_EndpointFields, ProductForm):
    """Reading options of an endpoint of a REST API. Sent by GET like those of a file."""

    field_order = ("location", "format", *_ENDPOINT_OPTIONS)

    elsewhere = {f"options.{name}": name for name in _ENDPOINT_OPTIONS}

    location = forms.CharField(
        max_length=1000, widget=forms.TextInput(attrs=MONO), help_text="A path below the system's base URL."
    )
    format = forms.ChoiceField(
        choices=[(REST, label_of(REST))],
        help_text="Read as JSON documents.",
    )

    def options(self) -> dict[str, Any]:
        """Return the options that are not empty; none while the form has errors."""
        if not self.is_valid():
            return {}
        options = given_options(self.cleaned_data, _ENDPOINT_OPTIONS)
        try:
            check_options(REST, options)
        except MetadataError as problem:
            self.add_problem(problem)
            return {}
        return options

    @classmethod
    def filled(cls, location: str, format_name: str, options: dict[str, Any]) -> "EndpointForm":
        """Return the form filled with these options."""
        texts = {name: option_text(options.get(name)) for name in _ENDPOINT_OPTIONS}
        return cls(initial=texts | {"location": location, "format": format_name})


class ColumnChoiceForm(ProductForm):
    """Form of one column of an import: its inclusion and its target. Help is in the head of the table."""

    take = forms.BooleanField(required=False, help_text="Only included columns are written.")
    target_name = forms.CharField(
        max_length=naming.MAX_COLUMN_CHARACTERS,
        required=False,
        label="Name in the warehouse",
        widget=forms.TextInput(attrs=MONO),
        help_text="Name in stage and rawcore. Empty uses the naming rules.",
    )
    type = forms.CharField(
        max_length=MAX_TYPE,
        required=False,
        widget=forms.TextInput(attrs={**MONO, "list": "types"}),
        help_text="string, string(40), integer, bigint, decimal(12,2), float, boolean, date, timestamp …",
    )
    key_ordinal = forms.IntegerField(
        min_value=1,
        max_value=99,
        required=False,
        label="Key",
        widget=forms.NumberInput(attrs={"min": 1, "max": 99}),
        help_text="Position in the business key: 1, 2 … Empty means not in the key.",
        error_messages={"invalid": "A place is a number: 1, 2 …"},
    )
    nullable = forms.BooleanField(
        required=False, label="May be empty", help_text="Otherwise a delivery without a value is refused."
    )
    pii = forms.BooleanField(required=False, label="Personal data", help_text="Marks the column as personal data.")
    sensitivity = sensitivity_field()
    description = forms.CharField(max_length=MAX_TEXT, required=False, help_text="Content of the column.")

    known_types = NAMES

    def __init__(self, *args: Any, asks_type: bool = True, **options: Any) -> None:
        """Create the form; ``asks_type`` is false for a column that is only included or left out."""
        super().__init__(*args, **options)
        self._asks_type = asks_type
        for name, field in self.fields.items():
            field.widget.attrs["aria-describedby"] = f"help-{name}"

    @property
    def is_taken(self) -> bool:
        return bool(self.data.get(self.add_prefix("take")))

    def clean_type(self) -> DataType | None:
        text = self.cleaned_data["type"]
        if not self._asks_type or not self.is_taken:
            return None
        try:
            return parse(text)
        except MetadataError as problem:
            raise forms.ValidationError(as_sentence(problem.message)) from None

    def clean_target_name(self) -> str:
        name = self.cleaned_data["target_name"]
        if name and self.is_taken:
            try:
                naming.check_column_name(name, reserved_prefix=naming.ENGINE_PREFIX)
            except MetadataError as problem:
                raise forms.ValidationError(as_sentence(problem.message)) from None
        return name


class NewColumnForm(ColumnChoiceForm):
    """Form of one column to add to a contract, outside the business key."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Name in the delivery.",
        error_messages={"required": "Enter a name."},
    )
    field_order = ("name", "type", "target_name", "nullable", "pii", "sensitivity", "description")
    is_taken = True

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        del self.fields["take"], self.fields["key_ordinal"]
        for field in self.fields.values():
            field.widget.attrs.pop("aria-describedby")


def answered_options(format_name: str, options: str, answers: Iterable[str]) -> dict[str, Any]:
    """Return reading options with the answers to questions about them, each sent as JSON; None stands for the default.

    Raise ValueError for anything else.
    """
    known = options_of(format_name)
    merged = sent_options(options)
    for answer in answers:
        merged |= sent_options(answer)
    defaults = {name: option.default for name, option in known.items()}
    return {name: value for name, value in merged.items() if value is not None and value != defaults.get(name)}


def sent_options(text: str) -> dict[str, Any]:
    """Return the reading options that a page sent as JSON. Raise ValueError for anything else."""
    options = json.loads(text or "{}")
    if not isinstance(options, dict):
        raise ValueError("options are fields with values")
    return options
