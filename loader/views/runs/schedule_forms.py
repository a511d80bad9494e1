"""Forms of schedules."""

from typing import Any

from django import forms
from django.utils.safestring import SafeString

from loader.cron import time_zones
from loader.domain.runs.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.models import Schedule
from loader.views.runs.forms import StartLoadForm
from metadata.forms.base import EditForm, MetadataForm
from metadata.selectors import schemas

_NO_CRON = "Say when, for example 30 6 * * 1-5 (06:30 from Monday to Friday)."


class ScheduleFields(MetadataForm):
    """Fields of a schedule: its times, its scope, and whether it is active."""

    name = forms.CharField(
        max_length=100,
        help_text="What people call it. Its runs say that they were started by it.",
        error_messages={"required": "Give it a name."},
    )
    cron = forms.CharField(
        label="When",
        max_length=100,
        widget=forms.TextInput(attrs={"class": "mono", "placeholder": "30 6 * * 1-5", "autocomplete": "off"}),
        help_text="Five fields as in cron: minute, hour, day of the month, month, day of the week.",
        error_messages={"required": _NO_CRON},
    )
    time_zone = forms.CharField(
        label="Time zone",
        max_length=64,
        initial="UTC",
        widget=forms.TextInput(attrs={"list": "time-zones", "placeholder": "Europe/Berlin", "autocomplete": "off"}),
        help_text="In which the times count, summer time included.",
        error_messages={"required": "Name the time zone, for example UTC or Europe/Berlin."},
    )
    scope = forms.ChoiceField(
        label="What to load",
        choices=StartLoadForm.SCOPES,
        initial=ALL,
        help_text="What is described when a run starts counts, not what was there when this was saved.",
    )
    schema = forms.CharField(
        max_length=100, required=False, widget=forms.Select, help_text="All its datasets, and what they depend on."
    )
    dataset = forms.CharField(
        max_length=310,
        required=False,
        widget=forms.TextInput(attrs={"list": "dataset-names", "placeholder": "schema.name", "autocomplete": "off"}),
        help_text="Begin to type: the names that are described are offered.",
    )
    target_only = forms.BooleanField(
        label="Only this, without what it depends on",
        required=False,
        help_text="Its delivery is not read again: it takes what lies in the tables behind it.",
    )
    allow_empty = forms.BooleanField(
        label="Allow empty deliveries",
        required=False,
        help_text="Otherwise a delivery without rows is refused, because it would close every open version.",
    )
    active = forms.BooleanField(
        required=False, initial=True, help_text="An inactive schedule keeps its times and starts nothing."
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        names = list(schemas().order_by("ordinal", "name").values_list("name", flat=True))
        self.fields["schema"].widget.choices = [("", "choose…"), *((name, name) for name in names)]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        wanted = cleaned.get("scope")
        if wanted in (SCHEMA, DATASET) and not cleaned.get(wanted) and wanted not in self.errors:
            self.add_error(wanted, f"Choose a {wanted}, or load everything.")
        return cleaned

    def scope_chosen(self) -> Scope:
        kind = self.cleaned_data["scope"]
        if kind == ALL:
            return Scope()
        return Scope(kind, self.cleaned_data[kind].strip(), self.cleaned_data["target_only"])

    def described(self) -> dict[str, Any]:
        """Return the fields of the schedule, as its services take them."""
        taken = ("name", "cron", "time_zone", "allow_empty", "active")
        return {name: self.cleaned_data[name] for name in taken} | {"scope": self.scope_chosen()}


class NewScheduleForm(ScheduleFields):
    """Form of a new schedule."""


class ScheduleForm(ScheduleFields, EditForm):
    """Form of an existing schedule."""

    _SCOPE = ("scope", "schema", "dataset", "target_only")
    seen = ("name", "cron", "time_zone", *_SCOPE, "allow_empty", "active")

    @classmethod
    def values(cls, row: Schedule) -> dict[str, Any]:
        scope = Scope.from_json(row.scope)
        named = {SCHEMA: "", DATASET: ""} | ({scope.kind: scope.name} if scope.kind != ALL else {})
        own = {name: getattr(row, name) for name in ("name", "cron", "time_zone", "allow_empty", "active")}
        return own | named | {"scope": scope.kind, "target_only": scope.target_only}

    def scope_seen(self) -> SafeString:
        """Return a hidden field with the kind of scope when the page was made; the template draws the choice itself."""
        return self["scope"].as_hidden(only_initial=True)

    def changes(self) -> dict[str, Any]:
        described = self.described()
        touched = {"scope" if name in self._SCOPE else name for name in self.seen if name in self.changed_data}
        return {name: described[name] for name in described if name in touched}


class DeleteForm(EditForm):
    """Form that deletes a schedule in the version that the user saw."""


class TimesForm(forms.Form):
    """Form of the times that a schedule being typed would have; its fields are those of the schedule."""

    cron = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput)
    time_zone = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)


def zone_names() -> list[str]:
    """Return time zones to choose from: UTC, then places by name."""
    places = sorted(name for name in time_zones() if "/" in name and not name.startswith(("Etc/", "SystemV/", "US/")))
    return ["UTC", *places]
