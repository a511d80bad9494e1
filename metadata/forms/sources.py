"""Forms of systems, source datasets and imports."""

import json
from typing import Any

from django import forms

from elevata.core.errors import MetadataError, as_sentence
from elevata.web.forms import DescribedFields, EditForm, MetadataForm
from metadata.domain import contracts, naming
from metadata.domain.locations import SECRET_PREFIX, without_password
from metadata.domain.types import NAMES, DataType, parse
from metadata.forms.base import sensitivity_field
from metadata.models import SourceDataset, System

_MONO = {"class": "mono", "autocomplete": "off", "spellcheck": "false"}
_YES, _NO = "yes", "no"
_FLAGS = (("", "as usual"), (_YES, "yes"), (_NO, "no"))
SYSTEM_FIELDS = ("name", "short_name", "kind", "location", "secret", "active", "description", "owner", "tags")


def _sign_field(said: str) -> forms.CharField:
    """Return a field for one character, or a word for one that cannot be typed."""
    return forms.CharField(
        max_length=4, required=False, strip=False, widget=forms.TextInput(attrs=_MONO), help_text=said
    )


def _count_field(said: str) -> forms.IntegerField:
    """Return a field for an optional whole number from 1."""
    return forms.IntegerField(
        min_value=1,
        required=False,
        widget=forms.NumberInput(attrs={"min": 1}),
        help_text=said,
        error_messages={"invalid": "A number is 1, 2 …"},
    )


class SystemFields(DescribedFields):
    """Fields of a system."""

    name = forms.CharField(
        max_length=200,
        help_text="Display name.",
        error_messages={"required": "Enter a name."},
    )
    short_name = forms.CharField(
        max_length=naming.MAX_SYSTEM_NAME,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Part of generated names: air gives raw_air_airport. Letters, digits and _.",
        error_messages={"required": "Enter a short name."},
    )
    kind = forms.ChoiceField(
        choices=System.Kind.choices,
        help_text="A folder of files, or a database whose tables are read through JDBC.",
    )
    location = forms.CharField(
        max_length=1000,
        required=False,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Folder of the files, like {{ data_dir }}/landing/air. Of a database: "
        "postgresql://reader@db.example.org:5432/erp, without a password.",
    )
    secret = forms.CharField(
        max_length=100,
        required=False,
        label="Password environment variable",
        widget=forms.TextInput(attrs=_MONO),
        help_text=f"The name of the environment variable that holds the password, like {SECRET_PREFIX}ERP_PASSWORD. "
        "Never the password itself.",
    )
    active = forms.BooleanField(
        required=False, initial=True, label="In use", help_text="Sources of an inactive system are not loaded."
    )

    def clean_location(self) -> str:
        """Remove a password from the location, so that it is not sent back to the browser."""
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


class SourceFields(DescribedFields):
    """Names and description of a source dataset."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Name in the source system.",
        error_messages={"required": "Enter a name."},
    )
    short_name = forms.CharField(
        max_length=90,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Part of generated table names: letters, digits and _.",
        error_messages={"required": "Enter a short name."},
    )


class NewSourceForm(SourceFields, MetadataForm):
    """Names and description of a source dataset to import."""

    historize = forms.BooleanField(
        required=False,
        initial=True,
        label="Keep history",
        help_text="A history table beside rawcore keeps every version of every row. It needs a business key.",
    )
    field_order = ("name", "short_name", "historize", "description", "owner", "tags")

    elsewhere = {"location": "name", "format": "name", "options": "name"}


class ReadingForm(MetadataForm):
    """Reading options of a file. Sent by GET, so the page's address holds them."""

    DELIMITERS = ((",", "comma ,"), (";", "semicolon ;"), ("tab", "tab"), ("|", "pipe |"))

    location = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=_MONO),
        help_text="A file, or a folder of files, below the system's folder.",
    )
    format = forms.ChoiceField(
        choices=[one for one in SourceDataset.Format.choices if one[0] != SourceDataset.Format.TABLE],
        help_text="File format.",
    )
    delimiter = forms.ChoiceField(choices=DELIMITERS, required=False, help_text="CSV: field delimiter.")
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
        help_text="CSV: quote character; a double quote if empty.",
    )
    no_header = forms.BooleanField(
        required=False, label="No header", help_text="CSV: the first line contains data, not column names."
    )

    def options(self) -> dict[str, Any]:
        """Return the reading options that differ from the defaults; empty while the form has errors."""
        if not self.is_valid() or self.cleaned_data["format"] != SourceDataset.Format.CSV:
            return {}
        given = self.cleaned_data
        delimiter = "\t" if given["delimiter"] == "tab" else given["delimiter"]
        found: dict[str, Any] = {"delimiter": delimiter} if delimiter not in ("", ",") else {}
        found |= {name: given[name] for name in ("encoding", "quote") if given[name]}
        return found | ({"header": False} if given["no_header"] else {})

    @classmethod
    def filled(cls, location: str, format_name: str, options: dict[str, Any]) -> "ReadingForm":
        """Return the form filled with these options."""
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


class SourceForm(SourceFields, EditForm):
    """A source dataset's own facts; its columns are compared with a delivery, its history policy comes by YAML or REST.

    An option that is left empty is as usual, and is not stored.
    """

    FILE_OPTIONS = tuple(contracts.OPTIONS["csv"])
    TABLE_OPTIONS = tuple(contracts.OPTIONS["table"])
    OPTIONS = tuple(dict.fromkeys((*FILE_OPTIONS, *TABLE_OPTIONS)))
    FACTS = ("name", "short_name", "location", "format", "historize", "active", "description", "owner", "tags")
    seen = (*FACTS, *OPTIONS)
    field_order = (*FACTS, *OPTIONS, "version")
    elsewhere = {"options": "format", **{f"options.{name}": name for name in OPTIONS}}

    location = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Of files: a file, or a folder of files, below the system's folder. Of a database: schema.table.",
        error_messages={"required": "Enter a location."},
    )
    format = forms.ChoiceField(help_text="Content of the delivery.")
    historize = forms.BooleanField(
        required=False,
        label="Keep history",
        help_text="Generates a history table that keeps every version. Needs a business key.",
    )
    active = forms.BooleanField(
        required=False,
        label="In use",
        help_text="An inactive source is not loaded, and generation retires its targets.",
    )
    delimiter = _sign_field("CSV: field delimiter, or the word tab; a comma if empty.")
    quote = _sign_field("CSV: quote character, or none; a double quote if empty.")
    escape = _sign_field("CSV: escape character, or none; the quote character if empty.")
    encoding = forms.CharField(
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "UTF-8"}),
        help_text="CSV and JSON lines: the character set; UTF-8 if empty.",
    )
    header = forms.ChoiceField(
        choices=_FLAGS, required=False, help_text="CSV: the first line contains column names. Default: yes."
    )
    empty_is_null = forms.ChoiceField(
        choices=_FLAGS,
        required=False,
        label="Empty is NULL",
        help_text="CSV, JSON lines: read empty text as NULL. Default: yes for CSV, no for JSON lines.",
    )
    null_string = forms.CharField(
        max_length=40,
        required=False,
        label="NULL text",
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "NULL"}),
        help_text="CSV, JSON lines: text that means NULL.",
    )
    timezone = forms.CharField(
        max_length=64,
        required=False,
        label="Time zone",
        widget=forms.TextInput(attrs={**_MONO, "placeholder": "UTC"}),
        help_text="The zone of timestamps that name none, like Europe/Berlin or +02:00; UTC if empty.",
    )

    expected_files = forms.IntegerField(
        min_value=1,
        required=False,
        label="Number of files",
        widget=forms.NumberInput(attrs={"min": 1}),
        help_text="Files: a delivery with another number of files is refused; any number if empty.",
        error_messages={"invalid": "A number of files is 1, 2 …"},
    )

    query = forms.CharField(
        max_length=20_000,
        required=False,
        widget=forms.Textarea(attrs={**_MONO, "rows": 3}),
        help_text="One SELECT in the database's SQL that is read instead of the table.",
    )
    filter = forms.CharField(
        max_length=4_000,
        required=False,
        widget=forms.TextInput(attrs=_MONO),
        help_text="One condition in the database's SQL; only these rows are read.",
    )
    partition_column = forms.CharField(
        max_length=200,
        required=False,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Column by whose ranges several connections divide the rows: numbers, dates or timestamps.",
    )
    partitions = _count_field("Ranges of the partition column; as many as Spark has cores if empty.")
    fetch_size = _count_field("Rows that a connection fetches at a time; 10000 if empty.")
    timeout = _count_field("Seconds that a statement may take; 3600 if empty.")

    def __init__(self, *args: Any, system: System, **options: Any) -> None:
        super().__init__(*args, **options)
        files, table = system.kind == System.Kind.FILES, SourceDataset.Format.TABLE
        self.shown_options = self.FILE_OPTIONS if files else self.TABLE_OPTIONS
        self.fields["format"].choices = [one for one in SourceDataset.Format.choices if (one[0] != table) == files]

    @classmethod
    def values(cls, row: SourceDataset) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in cls.FACTS}
        return facts | {name: _option_text(row.options.get(name)) for name in cls.OPTIONS}

    def changes(self) -> dict[str, Any]:
        """Return the arguments of the service; options go together, as they are stored."""
        changed = super().changes()
        facts = {name: value for name, value in changed.items() if name in self.FACTS}
        if len(facts) == len(changed):
            return facts
        texts = {name: self.cleaned_data[name] for name in self.OPTIONS if self.cleaned_data[name]}
        return facts | {"options": {name: _OPTION_VALUES.get(name, _sign)(text) for name, text in texts.items()}}


def _sign(text: str) -> str:
    """Return a character as options store it: some are invisible, or none is set."""
    return {"tab": "\t", "none": ""}.get(text, text)


_OPTION_VALUES = {
    **dict.fromkeys(("encoding", "null_string", "timezone", "query", "filter", "partition_column"), str),
    **dict.fromkeys(("expected_files", "partitions", "fetch_size", "timeout"), int),
    "header": _YES.__eq__,
    "empty_is_null": _YES.__eq__,
}


def _option_text(value: Any) -> str:
    """Return an option as the form shows it; empty if it is not stored."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _YES if value else _NO
    return {"\t": "tab", "": "none"}.get(value, value)


class ColumnChoiceForm(MetadataForm):
    """One column of an import: whether it is imported, and its target. Help is in the head of the table."""

    take = forms.BooleanField(required=False, help_text="Only included columns are written.")
    target_name = forms.CharField(
        max_length=naming.MAX_COLUMN_CHARACTERS,
        required=False,
        label="Name in the warehouse",
        widget=forms.TextInput(attrs=_MONO),
        help_text="Name in stage and rawcore. Empty uses the naming rules.",
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
        help_text="Position in the business key: 1, 2 … Empty means not in the key.",
        error_messages={"invalid": "A place is a number: 1, 2 …"},
    )
    nullable = forms.BooleanField(
        required=False, label="May be empty", help_text="Otherwise a delivery without a value is refused."
    )
    pii = forms.BooleanField(required=False, label="Personal data", help_text="Marks the column as personal data.")
    sensitivity = sensitivity_field()
    description = forms.CharField(max_length=2000, required=False, help_text="Content of the column.")

    known_types = NAMES

    def __init__(self, *args: Any, asks_type: bool = True, **options: Any) -> None:
        """Create the form; ``asks_type`` is false for a line that is only taken or left, without another field."""
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
