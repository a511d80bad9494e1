"""Systems and source datasets as people type them."""

import json
from typing import Any

from django import forms

from metadata.domain import naming
from metadata.domain.databases import SECRET_PREFIX, without_password
from metadata.domain.errors import MetadataError, as_sentence
from metadata.domain.types import NAMES, DataType, parse
from metadata.forms.base import DescribedFields, EditForm, MetadataForm
from metadata.models import SourceDataset, System

_MONO = {"class": "mono", "autocomplete": "off", "spellcheck": "false"}
SYSTEM_FIELDS = ("name", "short_name", "kind", "location", "secret", "active", "description", "owner", "tags")


class SystemFields(DescribedFields):
    """A place that delivers data."""

    name = forms.CharField(
        max_length=200,
        help_text="What people call it.",
        error_messages={"required": "A system needs a name."},
    )
    short_name = forms.CharField(
        max_length=naming.MAX_SYSTEM_NAME,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Goes into the names of what is generated from it: raw_air_airport for air. Letters, digits, _.",
        error_messages={"required": "A system needs a short name."},
    )
    kind = forms.ChoiceField(
        choices=System.Kind.choices,
        help_text="Files are loaded. A database can be looked at, described and generated from; loads read files only.",
    )
    location = forms.CharField(
        max_length=1000,
        required=False,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Of files: the folder, like {{ data_dir }}/landing/air. Of a database: "
        "postgresql://reader@db.example.org:5432/erp, without a password.",
    )
    secret = forms.CharField(
        max_length=100,
        required=False,
        label="Password's variable",
        widget=forms.TextInput(attrs=_MONO),
        help_text=f"The name of the environment variable that holds the password, like {SECRET_PREFIX}ERP_PASSWORD. "
        "Never the password itself.",
    )
    active = forms.BooleanField(
        required=False, initial=True, label="In use", help_text="Sources of a system out of use are not loaded."
    )

    def clean_location(self) -> str:
        """A password that was typed by mistake is not sent back to the browser."""
        typed = self.cleaned_data["location"]
        shown = without_password(typed)
        if shown != typed:
            self.data = self.data.copy()
            self.data[self.add_prefix("location")] = shown
        return typed


class SystemForm(SystemFields, EditForm):
    seen = SYSTEM_FIELDS
    field_order = (*SYSTEM_FIELDS, "version")


class NewSystemForm(SystemFields, MetadataForm):
    field_order = SYSTEM_FIELDS


class NewSourceForm(DescribedFields, MetadataForm):
    """A source dataset that is imported: what it is called, and what is done with it."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=_MONO),
        help_text="What the system calls it.",
        error_messages={"required": "A source dataset needs a name."},
    )
    short_name = forms.CharField(
        max_length=90,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Goes into the names of generated tables: letters, digits and _.",
        error_messages={"required": "A source dataset needs a short name."},
    )
    historize = forms.BooleanField(
        required=False,
        initial=True,
        label="Keep history",
        help_text="A history table beside rawcore keeps every version of every row. It needs a business key.",
    )
    field_order = ("name", "short_name", "historize", "description", "owner", "tags")

    elsewhere = {"location": "name", "format": "name", "options": "name"}


class ReadingForm(MetadataForm):
    """How the file is read. Sent by GET: the address of the page says it."""

    DELIMITERS = ((",", "comma ,"), (";", "semicolon ;"), ("tab", "tab"), ("|", "pipe |"))

    location = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=_MONO),
        help_text="A file, or a folder of files, below the system's folder.",
    )
    format = forms.ChoiceField(
        choices=[one for one in SourceDataset.Format.choices if one[0] != SourceDataset.Format.TABLE],
        help_text="What kind of file it is.",
    )
    delimiter = forms.ChoiceField(choices=DELIMITERS, required=False, help_text="CSV: the sign between two fields.")
    encoding = forms.CharField(
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "UTF-8"}),
        help_text="CSV: the character set; UTF-8 if empty.",
    )
    quote = forms.CharField(
        max_length=1,
        required=False,
        widget=forms.TextInput(attrs={**_MONO, "placeholder": '"'}),
        help_text="CSV: the sign around a field; a double quote if empty.",
    )
    no_header = forms.BooleanField(
        required=False, label="No header", help_text="CSV: the first line holds data, not names."
    )

    def options(self) -> dict[str, Any]:
        """The source's reading options: only what is not the usual; none while the form has errors."""
        if not self.is_valid() or self.cleaned_data["format"] != SourceDataset.Format.CSV:
            return {}
        given = self.cleaned_data
        delimiter = "\t" if given["delimiter"] == "tab" else given["delimiter"]
        found: dict[str, Any] = {"delimiter": delimiter} if delimiter not in ("", ",") else {}
        found |= {name: given[name] for name in ("encoding", "quote") if given[name]}
        return found | ({"header": False} if given["no_header"] else {})

    @classmethod
    def filled(cls, location: str, format_name: str, options: dict[str, Any]) -> "ReadingForm":
        """The form as these options would have been typed."""
        delimiter = options.get("delimiter", ",")
        return cls(
            initial={
                "location": location,
                "format": format_name,
                "delimiter": "tab" if delimiter == "\t" else delimiter,
                "encoding": options.get("encoding", ""),
                "quote": options.get("quote", ""),
                "no_header": options.get("header", True) is False,
            }
        )


class ColumnChoiceForm(MetadataForm):
    """One line of an import: whether it is taken, and what it becomes. Its help stands in the head of the table."""

    take = forms.BooleanField(required=False, help_text="Only ticked lines are written.")
    target_name = forms.CharField(
        max_length=naming.MAX_COLUMN_CHARACTERS,
        required=False,
        label="Name in the warehouse",
        widget=forms.TextInput(attrs=_MONO),
        help_text="What stage and rawcore call it; the naming rules' proposal if empty.",
    )
    type = forms.CharField(
        max_length=100,
        required=False,
        widget=forms.TextInput(attrs={**_MONO, "list": "types"}),
        help_text="string, string(40), integer, bigint, decimal(12,2), float, boolean, date, timestamp …",
    )
    key_ordinal = forms.IntegerField(
        min_value=1,
        max_value=99,
        required=False,
        label="Key",
        widget=forms.NumberInput(attrs={"min": 1, "max": 99}),
        help_text="Its place in the business key: 1, 2 … Empty: not part of it.",
        error_messages={"invalid": "A place is a number: 1, 2 …"},
    )
    nullable = forms.BooleanField(
        required=False, label="May be empty", help_text="Otherwise a delivery without a value is refused."
    )
    pii = forms.BooleanField(
        required=False, label="Personal data", help_text="Marks it for those who must protect or erase it."
    )
    description = forms.CharField(max_length=2000, required=False, help_text="What it holds.")

    known_types = NAMES

    def __init__(self, *args: Any, asks_type: bool = True, **options: Any) -> None:
        """``asks_type`` is false for a line that is only taken or left: it has no other field."""
        super().__init__(*args, **options)
        self._asks_type = asks_type
        for name, field in self.fields.items():
            field.widget.attrs["aria-describedby"] = f"help-{name}"

    def clean_type(self) -> DataType | None:
        text = self.cleaned_data["type"]
        if not self._asks_type or not self.data.get(self.add_prefix("take")):
            return None
        try:
            return parse(text)
        except MetadataError as problem:
            raise forms.ValidationError(as_sentence(problem.message)) from None

    def clean_target_name(self) -> str:
        name = self.cleaned_data["target_name"]
        if name and self.data.get(self.add_prefix("take")):
            try:
                naming.check_column_name(name, reserved_prefix=naming.ENGINE_PREFIX)
            except MetadataError as problem:
                raise forms.ValidationError(as_sentence(problem.message)) from None
        return name


def options_of(text: str) -> dict[str, Any]:
    """Reading options that a page sent along as JSON; ValueError for anything else."""
    found = json.loads(text or "{}")
    if not isinstance(found, dict):
        raise ValueError("options are fields with values")
    return found
