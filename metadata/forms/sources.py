"""Forms of systems, source datasets and imports."""

import json
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from django import forms
from django.forms.boundfield import BoundField

from elevata.core.errors import MetadataError, as_sentence
from elevata.core.lengths import MAX_SHORT_NAME, MAX_TEXT, MAX_TYPE
from elevata.web.forms import DescribedFields, EditForm, MetadataForm, TagsField
from metadata.domain import naming, source_formats
from metadata.domain.locations import SECRET_PREFIX, without_password
from metadata.domain.option_kinds import CHARACTER, COUNT, DELIMITER, FLAG, NUMBER, THOUSANDS
from metadata.domain.source_formats import REST, TABLE, Option
from metadata.domain.system_options import SYSTEM_OPTIONS
from metadata.domain.types import NAMES, DataType, parse
from metadata.forms.base import sensitivity_field
from metadata.models import SourceDataset, System

# The field of an option of this length or more has several lines.
MANY_CHARACTERS = 1_000
_MONO = {"class": "mono", "autocomplete": "off", "spellcheck": "false"}
_YES, _NO = "yes", "no"
# Formats that have an option: static/js/page/format_options.js hides its field for others.
_FORMATS = "data-formats"
_FLAGS = (("", "as usual"), (_YES, "yes"), (_NO, "no"))
_SYSTEM_OPTIONS = {option.name: option for option in SYSTEM_OPTIONS}
SYSTEM_FACTS = ("name", "short_name", "kind", "location", "secret", "active", "description", "owner", "tags")
SYSTEM_FIELDS = (*SYSTEM_FACTS[:5], *_SYSTEM_OPTIONS, *SYSTEM_FACTS[5:])

# Characters that cannot be typed are written as words.
_SPELLED = {CHARACTER: "; write none for an empty one", DELIMITER: "; write tab for a tab"}


def _option_field(option: Option, owner: str = "") -> forms.Field:
    """Return the field of an option. An empty field is not stored, so the default applies.

    ``owner`` names the things that have the option, by default the formats.
    """
    labels = owner or ", ".join(entry.label for entry in source_formats.FORMATS if entry.name in option.formats)
    groups = {source_formats.NAMES: "", source_formats.FILE_FORMATS: "", source_formats.TEXT_FORMATS: "Text formats"}
    prefix = groups.get(option.formats, labels)
    meaning = option.short_meaning + _SPELLED.get(option.kind, "")
    help_text = f"{prefix}: {meaning}." if prefix else f"{meaning[0].upper()}{meaning[1:]}."
    shared: dict[str, Any] = {"required": False, "label": option.label, "help_text": help_text}
    formats = {_FORMATS: " ".join(option.formats)}
    if option.kind.choices:
        usual = "as usual" if option.default is None else f"as usual ({option.default})"
        choices = (("", usual), *((value, value) for value in option.kind.choices))
        return forms.ChoiceField(choices=choices, widget=forms.Select(attrs=formats), **shared)
    placeholder = option.example.strip("`") if option.default is None else str(option.default)
    attributes = _MONO | formats | {"placeholder": placeholder}
    widget: forms.Widget = forms.TextInput(attrs=attributes)
    if option.kind is FLAG:
        return forms.ChoiceField(choices=_FLAGS, widget=forms.Select(attrs=formats), **shared)
    if option.kind in (COUNT, NUMBER):
        least = 1 if option.kind is COUNT else 0
        invalid = f"Enter a whole number, {least} or more."
        widget = forms.NumberInput(attrs={"min": least} | formats)
        return forms.IntegerField(min_value=least, widget=widget, error_messages={"invalid": invalid}, **shared)
    if option.kind in _SPELLED:
        return forms.CharField(max_length=4, strip=False, widget=widget, **shared)
    if option.longest >= MANY_CHARACTERS:
        widget = forms.Textarea(attrs=attributes | {"rows": 3})
    # A blank separates thousands in some languages.
    return forms.CharField(max_length=option.longest, strip=option.kind is not THOUSANDS, widget=widget, **shared)


_OPTIONS = {option.name: option for option in source_formats.OPTIONS}
OptionFields = type("OptionFields", (forms.Form,), {name: _option_field(option) for name, option in _OPTIONS.items()})


SystemOptionFields = type(
    "SystemOptionFields",
    (forms.Form,),
    {name: _option_field(option, "REST API") for name, option in _SYSTEM_OPTIONS.items()},
)
# What each kind of system delivers, for the page that offers them.
KIND_SENTENCES = {
    System.Kind.FILES: "A folder with files: CSV, JSON, Parquet, Excel and other formats, packed or not.",
    System.Kind.JDBC: "Tables, views or a SELECT of a database.",
    System.Kind.KAFKA: "Topics of a Kafka cluster: JSON objects, or change events of Debezium.",
    System.Kind.REST: "Endpoints of a web API that answers with JSON, page by page.",
}


class SystemFields(SystemOptionFields, DescribedFields):
    """Fields of a system."""

    elsewhere = {"options": "kind", **{f"options.{name}": name for name in _SYSTEM_OPTIONS}}

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
        help_text="A folder of files, a database whose tables are read through JDBC, a Kafka cluster, or a REST API.",
    )
    location = forms.CharField(
        max_length=1000,
        required=False,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Folder of the files, like {{ data_dir }}/landing/air. Of a database: "
        "postgresql://reader@db.example.org:5432/erp, of a cluster kafka://broker.example.org:9092, of an API its base "
        "URL, like https://api.example.org/v1. No password.",
    )
    secret = forms.CharField(
        max_length=100,
        required=False,
        label="Password environment variable",
        widget=forms.TextInput(attrs=_MONO),
        help_text="The name of the environment variable that holds the password, token or key, like "
        f"{SECRET_PREFIX}ERP_PASSWORD. Never the password itself.",
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

    @classmethod
    def values(cls, row: System) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in SYSTEM_FACTS}
        return facts | {name: _option_text(row.options.get(name)) for name in _SYSTEM_OPTIONS}

    def changes(self) -> dict[str, Any]:
        return _with_options(super().changes(), SYSTEM_FACTS, self.cleaned_data, _SYSTEM_OPTIONS)


class NewSystemForm(SystemFields, MetadataForm):
    field_order = SYSTEM_FIELDS

    def given(self) -> dict[str, Any]:
        return _with_options(super().given(), SYSTEM_FACTS, self.cleaned_data, _SYSTEM_OPTIONS)


def _with_options(
    changed: Mapping[str, Any], facts: Collection[str], data: Mapping[str, Any], options: Mapping[str, Option]
) -> dict[str, Any]:
    """Return the changed fields as arguments of the service; a changed option brings all options.

    An empty option is not stored, so its default applies.
    """
    arguments = {name: value for name, value in changed.items() if name in facts}
    if len(arguments) == len(changed):
        return arguments
    return arguments | {"options": _stored_options(data, options)}


def _stored_options(data: Mapping[str, Any], options: Mapping[str, Option]) -> dict[str, Any]:
    """Return the options that are given in a form's cleaned data."""
    texts = {name: data[name] for name in options if data.get(name) not in ("", None)}
    return {name: _option_value(options[name], text) for name, text in texts.items()}


class DescribedApart:
    """Fields of a form in two groups: those that a row needs, and its description."""

    _DESCRIBED = ("description", "owner", "tags")

    @property
    def needed_fields(self) -> list[BoundField]:
        return [field for field in self.visible_fields() if field.name not in self._DESCRIBED]

    @property
    def described_fields(self) -> list[BoundField]:
        return [self[name] for name in self._DESCRIBED]

    @property
    def has_described(self) -> bool:
        """Return True if the description has text, or an error."""
        return any(field.value() or field.errors for field in self.described_fields)


class KindSystemForm(DescribedApart, NewSystemForm):
    """Form of a new system of a given kind, in use from the start."""

    LOCATIONS: ClassVar = {
        System.Kind.FILES: "Folder of the files, like {{ data_dir }}/landing/air.",
        System.Kind.JDBC: "Like postgresql://reader@db.example.org:5432/erp, without a password.",
        System.Kind.KAFKA: "Like kafka://reader@broker.example.org:9092, without a password.",
        System.Kind.REST: "Base URL, like https://api.example.org/v1.",
    }

    def __init__(self, *args: Any, kind: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind
        self.fields["kind"].widget = forms.HiddenInput()
        self.fields["kind"].choices = [(kind, kind)]
        self.fields["kind"].initial = kind
        self.fields["location"].help_text = self.LOCATIONS.get(kind, self.fields["location"].help_text)
        del self.fields["active"]
        if kind == System.Kind.FILES:  # its folder needs no password
            del self.fields["secret"]
        for name, option in _SYSTEM_OPTIONS.items():
            if kind not in option.formats:
                del self.fields[name]

    def typed(self) -> System:
        """Return the system as it was typed, not stored; fields with errors are empty."""
        self.full_clean()
        data = self.cleaned_data
        return System(
            kind=self.kind,
            short_name=data.get("short_name") or "the system",
            location=data.get("location", ""),
            secret=data.get("secret", ""),
            options=_stored_options(data, _SYSTEM_OPTIONS),
        )


class SourceFields(DescribedFields):
    """Names and description of a source dataset."""

    name = forms.CharField(
        max_length=200,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Name in the source system.",
        error_messages={"required": "Enter a name."},
    )
    short_name = forms.CharField(
        max_length=MAX_SHORT_NAME,
        widget=forms.TextInput(attrs=_MONO),
        help_text="Part of generated table names: letters, digits and _.",
        error_messages={"required": "Enter a short name."},
    )


class NewSourceForm(DescribedApart, SourceFields, MetadataForm):
    """Names and description of a source dataset to import."""

    field_order = ("name", "short_name", "description", "owner", "tags")

    elsewhere = {"location": "name", "format": "name", "options": "name"}


_PARSING_OPTIONS = ("encoding", "quote", "columns", "path", "row_tag", "sheet", "range")
ParsingFields = type("ParsingFields", (forms.Form,), {name: _option_field(_OPTIONS[name]) for name in _PARSING_OPTIONS})


class ReadingForm(ParsingFields, MetadataForm):
    """Reading options of a file. Sent by GET, so the page's address contains them."""

    DELIMITERS = ((",", "comma ,"), (";", "semicolon ;"), ("tab", "tab"), ("|", "pipe |"))
    field_order = ("location", "format", "delimiter", "no_header", *_PARSING_OPTIONS)

    location = forms.CharField(
        max_length=1000,
        widget=forms.TextInput(attrs=_MONO),
        help_text="A file, or a folder of files, below the system's folder.",
    )
    format = forms.ChoiceField(
        choices=[choice for choice in SourceDataset.Format.choices if choice[0] in source_formats.FILE_FORMATS],
        help_text="File format.",
    )
    delimiter = forms.ChoiceField(
        choices=DELIMITERS,
        required=False,
        widget=forms.Select(attrs={_FORMATS: " ".join(_OPTIONS["delimiter"].formats)}),
        help_text="Character between fields.",
    )
    no_header = forms.BooleanField(
        required=False,
        label="No header",
        widget=forms.CheckboxInput(attrs={_FORMATS: " ".join(_OPTIONS["header"].formats)}),
        help_text="The first line contains data, not column names.",
    )

    def options(self) -> dict[str, Any]:
        """Return the reading options that differ from the defaults; empty while the form has errors."""
        if not self.is_valid():
            return {}
        data = self.cleaned_data
        known = source_formats.options_of(data["format"])
        options = {} if data["delimiter"] in ("", ",") else {"delimiter": data["delimiter"]}
        options |= {name: data[name] for name in _PARSING_OPTIONS if data[name]}
        values = {name: _option_value(_OPTIONS[name], text) for name, text in options.items() if name in known}
        return values | ({"header": False} if "header" in known and data["no_header"] else {})

    @classmethod
    def filled(cls, location: str, format_name: str, options: dict[str, Any]) -> "ReadingForm":
        """Return the form filled with these options."""
        texts = {name: _option_text(options.get(name)) for name in ("delimiter", *_PARSING_OPTIONS)}
        no_header = options.get("header", True) is False
        return cls(initial=texts | {"location": location, "format": format_name, "no_header": no_header})


_ENDPOINT_OPTIONS = source_formats.options_of(source_formats.REST)
EndpointFields = type(
    "EndpointFields", (forms.Form,), {name: _option_field(option) for name, option in _ENDPOINT_OPTIONS.items()}
)


class EndpointForm(EndpointFields, MetadataForm):
    """Reading options of an endpoint of a REST API. Sent by GET like those of a file."""

    field_order = ("location", "format", *_ENDPOINT_OPTIONS)

    location = forms.CharField(
        max_length=1000, widget=forms.TextInput(attrs=_MONO), help_text="A path below the system's base URL."
    )
    format = forms.ChoiceField(
        choices=[(source_formats.REST, source_formats.label_of(source_formats.REST))],
        help_text="Read as JSON documents.",
    )

    def options(self) -> dict[str, Any]:
        """Return the options that are not empty; none while the form has errors."""
        if not self.is_valid():
            return {}
        options = _with_options({"options": None}, (), self.cleaned_data, _ENDPOINT_OPTIONS)["options"]
        try:
            source_formats.check_options(source_formats.REST, options)
        except MetadataError as problem:
            self.add_problem(problem)
            return {}
        return options

    elsewhere = {f"options.{name}": name for name in _ENDPOINT_OPTIONS}

    @classmethod
    def filled(cls, location: str, format_name: str, options: dict[str, Any]) -> "EndpointForm":
        """Return the form filled with these options."""
        texts = {name: _option_text(options.get(name)) for name in _ENDPOINT_OPTIONS}
        return cls(initial=texts | {"location": location, "format": format_name})


class IntakeFields(forms.Form):
    """Fields of the rows that a load reads."""

    watermark = TagsField(
        required=False,
        widget=forms.TextInput(attrs=_MONO | {_FORMATS: f"{TABLE} {REST}", "placeholder": "changed_at"}),
        help_text="Columns whose values grow with each change of a row, separated by commas. A load then reads the "
        "rows from the last mark on. Empty reads all rows.",
    )
    look_back = forms.CharField(
        max_length=40,
        required=False,
        widget=forms.TextInput(attrs=_MONO | {_FORMATS: f"{TABLE} {REST}", "placeholder": "2 days"}),
        help_text="How far before the mark a load reads again: a number, or a time like 2 days or 3 hours.",
    )


class SourceForm(SourceFields, OptionFields, IntakeFields, EditForm):
    """Form of a source dataset. Another page compares its columns with a delivery; YAML or REST its history policy.

    An empty option is not stored, so its default applies.
    """

    OPTIONS = tuple(_OPTIONS)
    INTAKE = ("watermark", "look_back")
    FACTS = ("name", "short_name", "location", "format", "historize", "active", "description", "owner", "tags")
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
        widget=forms.TextInput(attrs=_MONO),
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
    active = forms.BooleanField(
        required=False,
        label="In use",
        help_text="An inactive source is not loaded, and generation retires its targets.",
    )

    def __init__(self, *args: Any, system: System, **options: Any) -> None:
        super().__init__(*args, **options)
        formats = source_formats.FORMATS_OF_KIND[system.kind]
        self.shown_options = [option.name for option in source_formats.OPTIONS if {*option.formats} & {*formats}]
        self.shown_intake = self.INTAKE if {TABLE, REST} & {*formats} else ()
        self.fields["format"].choices = [choice for choice in SourceDataset.Format.choices if choice[0] in formats]

    @classmethod
    def values(cls, row: SourceDataset) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in cls.FACTS}
        options = {name: _option_text(row.options.get(name)) for name in cls.OPTIONS}
        intake = {"watermark": list(row.intake.get("watermark", ())), "look_back": str(row.intake.get("look_back", ""))}
        return facts | options | intake

    def changes(self) -> dict[str, Any]:
        """Return the changed fields as arguments of the service; a changed option brings all options."""
        changed = super().changes()
        arguments = _with_options(
            {name: value for name, value in changed.items() if name not in self.INTAKE},
            self.FACTS,
            self.cleaned_data,
            _OPTIONS,
        )
        if changed.keys() & {*self.INTAKE}:
            arguments["intake"] = {name: self.cleaned_data[name] for name in self.INTAKE if self.cleaned_data[name]}
        return arguments


def _option_value(option: Option, given: Any) -> Any:
    """Return the option's value for a field: ``tab`` and ``none`` stand for a tab and for no character."""
    if option.kind is FLAG:
        return given == _YES
    return {"tab": "\t", "none": ""}.get(given, given) if option.kind in (CHARACTER, DELIMITER) else given


def _option_text(value: Any) -> str:
    """Return the text of an option in the form; empty if the option is not stored."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return _YES if value else _NO
    return {"\t": "tab", "": "none"}.get(value, value)


class ColumnChoiceForm(MetadataForm):
    """Form of one column of an import: its inclusion and its target. Help is in the head of the table."""

    take = forms.BooleanField(required=False, help_text="Only included columns are written.")
    target_name = forms.CharField(
        max_length=naming.MAX_COLUMN_CHARACTERS,
        required=False,
        label="Name in the warehouse",
        widget=forms.TextInput(attrs=_MONO),
        help_text="Name in stage and rawcore. Empty uses the naming rules.",
    )
    type = forms.CharField(
        max_length=MAX_TYPE,
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
        widget=forms.TextInput(attrs=_MONO),
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


def options_of(text: str) -> dict[str, Any]:
    """Return the reading options that a page sent as JSON. Raise ValueError for anything else."""
    options = json.loads(text or "{}")
    if not isinstance(options, dict):
        raise ValueError("options are fields with values")
    return options
