"""Forms of systems."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from elevata.web.forms import MONO, DescribedFields, EditForm, ProductForm, set_choices
from metadata.domain import naming
from metadata.domain.sources.database_locations import without_password
from metadata.domain.sources.system_options import SYSTEM_OPTIONS
from metadata.forms.base import DescribedApart
from metadata.forms.options import changed_arguments, given_options, option_fields, option_text
from metadata.models import System

_OPTIONS = {option.name: option for option in SYSTEM_OPTIONS}
SYSTEM_FACTS = ("name", "short_name", "kind", "location", "secret", "active", "description", "owner", "tags")
SYSTEM_FIELDS = (*SYSTEM_FACTS[:5], *_OPTIONS, *SYSTEM_FACTS[5:])

# What each kind of system delivers, for the page that offers them.
KIND_SENTENCES = {
    System.Kind.FILES: "A folder with files: CSV, JSON, Parquet, Excel and other formats, packed or not.",
    System.Kind.JDBC: "Tables, views or a SELECT of a database.",
    System.Kind.KAFKA: "Topics of a Kafka cluster: JSON objects, or change events of Debezium.",
    System.Kind.REST: "Endpoints of a web API that answers with JSON, page by page.",
    System.Kind.DUCKDB: "A database file for copies of datasets, which DuckDB and tools over it read.",
    System.Kind.DELTA: "A folder for copies of datasets, as Delta tables without sensitive columns.",
}


_OptionFields: Any = option_fields(SYSTEM_OPTIONS, (System.Kind.REST,))  # Any: its fields follow from the options


class SystemFields(_OptionFields, DescribedFields):
    """Fields of a system."""

    elsewhere: Mapping[str, str] = {"options": "kind", **{f"options.{name}": name for name in _OPTIONS}}

    name = forms.CharField(
        max_length=200,
        help_text="Display name.",
        error_messages={"required": "Enter a name."},
    )
    short_name = forms.CharField(
        max_length=naming.MAX_SYSTEM_NAME,
        widget=forms.TextInput(attrs=MONO),
        help_text="Part of generated names: air gives raw_air_airport. Letters, digits and _.",
        error_messages={"required": "Enter a short name."},
    )
    kind: Any = forms.ChoiceField(
        choices=System.Kind.choices,
        help_text="A folder of files, a database whose tables are read through JDBC, a Kafka cluster, or a REST API; "
        "or a DuckDB file or a folder of Delta tables for copies.",
    )
    location = forms.CharField(
        max_length=1000,
        required=False,
        widget=forms.TextInput(attrs=MONO),
        help_text="Folder of the files, like {{ data_dir }}/landing/air. Of a database: "
        "postgresql://reader@db.example.org:5432/erp, of a cluster kafka://broker.example.org:9092, of an API its base "
        "URL, like https://api.example.org/v1. No password.",
    )
    secret = forms.CharField(
        max_length=100,
        required=False,
        label="Password environment variable",
        widget=forms.TextInput(attrs=MONO),
        help_text="The name of the environment variable that holds the password, token or key, like "
        "ELEVATA_SOURCE_ERP. Never the password itself.",
    )
    active = forms.BooleanField(
        required=False, initial=True, label="In use", help_text="Sources of an inactive system are not loaded."
    )

    def clean_location(self) -> str:
        """Remove a password from the location, so that it is not sent back to the browser."""
        typed = self.cleaned_data["location"]
        shown = without_password(typed)
        if shown != typed:
            data: Any = self.data  # a QueryDict
            sent = data.copy()
            sent[self.add_prefix("location")] = shown
            self.data = sent
        return typed


class SystemForm(SystemFields, EditForm):
    """Form of a system."""

    seen = SYSTEM_FIELDS
    field_order = (*SYSTEM_FIELDS, "version")

    @classmethod
    def values(cls, row: System) -> dict[str, Any]:
        facts = {name: getattr(row, name) for name in SYSTEM_FACTS}
        return facts | {name: option_text(row.options.get(name)) for name in _OPTIONS}

    def changes(self) -> dict[str, Any]:
        return changed_arguments(super().changes(), SYSTEM_FACTS, self.cleaned_data, _OPTIONS)


class NewSystemForm(DescribedApart, SystemFields, ProductForm):
    """Form of a new system of a given kind, in use from the start."""

    LOCATIONS: ClassVar[dict[str, Any]] = {
        System.Kind.FILES: "Folder of the files, like {{ data_dir }}/landing/air.",
        System.Kind.JDBC: "Like postgresql://reader@db.example.org:5432/erp, without a password.",
        System.Kind.KAFKA: "Like kafka://reader@broker.example.org:9092, without a password.",
        System.Kind.REST: "Base URL, like https://api.example.org/v1.",
        System.Kind.DUCKDB: "File, like {{ data_dir }}/copies/bi.duckdb.",
        System.Kind.DELTA: "Folder, like {{ data_dir }}/copies/lake.",
    }

    field_order = SYSTEM_FIELDS

    def __init__(self, *args: Any, kind: str, **options: Any) -> None:
        super().__init__(*args, **options)
        self.kind = kind
        self.fields["kind"].widget = forms.HiddenInput()
        set_choices(self, "kind", [(kind, kind)])
        self.fields["kind"].initial = kind
        self.fields["short_name"].required = False
        self.fields["short_name"].help_text += " By default from the name."
        self.fields["location"].help_text = str(self.LOCATIONS.get(kind, self.fields["location"].help_text))
        del self.fields["active"]
        if kind in (System.Kind.FILES, System.Kind.DUCKDB, System.Kind.DELTA):  # a file or folder needs no password
            del self.fields["secret"]
        for name, option in _OPTIONS.items():
            if kind not in option.formats:
                del self.fields[name]

    def clean_short_name(self) -> str:
        derived = naming.safe_table_part(self.cleaned_data.get("name", ""))
        return self.cleaned_data["short_name"] or derived[: naming.MAX_SYSTEM_NAME].rstrip("_")

    def given(self) -> dict[str, Any]:
        return changed_arguments(super().given(), SYSTEM_FACTS, self.cleaned_data, _OPTIONS)

    def typed(self) -> System:
        """Return the system as it was typed, not stored; fields with errors are empty."""
        self.full_clean()
        data = self.cleaned_data
        return System(
            kind=self.kind,
            short_name=data.get("short_name") or "the system",
            location=data.get("location", ""),
            secret=data.get("secret", ""),
            options=given_options(data, _OPTIONS),
        )
