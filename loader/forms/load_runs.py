"""Forms of load runs and schedules."""

from typing import Any

from django import forms

from elevata.web.forms import EditForm
from loader.cron import time_zones
from loader.domain.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.domain.marks import MAX_SINCE
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS
from loader.models import Schedule
from metadata.forms.scope import ScopeFields


class LoadFields(ScopeFields):
    """Fields that load runs and schedules share."""

    target_only = forms.BooleanField(
        label="Without inputs",
        required=False,
        help_text="Loads from the existing input tables; deliveries are not read again.",
    )
    allow_empty = forms.BooleanField(
        label="Allow empty deliveries",
        required=False,
        help_text="Otherwise a delivery without rows is refused, because it would close every open version.",
    )

    def scope_chosen(self) -> Scope:
        kind = self.cleaned_data["scope"]
        if kind == ALL:
            return Scope()
        return Scope(kind, self.cleaned_data[kind].strip(), self.cleaned_data["target_only"])


class StartLoadForm(LoadFields):
    """Form of a new load run: its scope, its time, and its decisions."""

    elsewhere = {
        "UNKNOWN_SCHEMA": "schema",
        "UNKNOWN_DATASET": "dataset",
        "RETIRED": "dataset",
        "BAD_RUN_ID": "run_id",
        "RUN_ID_TAKEN": "run_id",
        "FULL_OR_SINCE": "since",
        "NO_WATERMARK": "scope",
    }

    scope = forms.ChoiceField(initial=ALL, help_text="Datasets load in order of dependency.")
    load_timestamp = forms.DateTimeField(
        required=False,
        label="As of (UTC, optional)",
        widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}),
        help_text="Dates the versions this run writes; empty means now. It must be later than the newest run applied.",
        error_messages={"invalid": "This is not a date and time. Write it like 2026-11-21 08:00."},
    )
    allow_deletes = forms.BooleanField(
        required=False,
        label="Allow many deletes",
        help_text="Otherwise a snapshot that lacks an unusual share of the open keys is refused.",
    )
    full = forms.BooleanField(
        required=False,
        label="Read whole",
        help_text="Reads sources with a watermark whole, as for the first time.",
    )
    since = forms.CharField(
        max_length=MAX_SINCE,
        required=False,
        label="Read since (optional)",
        widget=forms.TextInput(attrs={"class": "mono", "autocomplete": "off"}),
        help_text="Reads sources with a watermark from this number, date or time on, like 2026-11-21.",
    )
    run_id = forms.CharField(
        max_length=100,
        required=False,
        label="Run id (optional)",
        widget=forms.TextInput(attrs={"class": "mono", "autocomplete": "off"}),
        help_text="Repeating an ID repeats that run; finished parts are not done again.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_start_%s", **options})

    def given(self) -> dict[str, Any]:
        """Return the arguments of ``request_load_run``."""
        names = ("load_timestamp", "allow_empty", "allow_deletes", "full", "since")
        values = {name: self.cleaned_data[name] for name in names}
        return values | {"scope": self.scope_chosen(), "run_id": self.cleaned_data["run_id"].strip() or None}


_NO_CRON = "Enter a schedule, for example 30 6 * * 1-5 (06:30 from Monday to Friday)."


class ScheduleFields(LoadFields):
    """Fields of a schedule: name, times, kind, scope and active state."""

    name = forms.CharField(
        max_length=100,
        help_text="Shown on its load runs.",
        error_messages={"required": "Enter a name."},
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
        help_text="Time zone of the schedule, including daylight saving time.",
        error_messages={"required": "Name the time zone, for example UTC or Europe/Berlin."},
    )
    kind = forms.ChoiceField(
        label="Run",
        choices=Schedule.Kind.choices,
        initial=Schedule.Kind.LOAD,
        required=False,
        help_text="A vacuum removes former files of each dataset in the scope.",
    )
    retention_hours = forms.IntegerField(
        label="Keep hours",
        min_value=SAFE_HOURS,
        max_value=MOST_HOURS,
        initial=SAFE_HOURS,
        required=False,
        help_text="A vacuum keeps files that were current within this number of hours.",
    )
    scope = forms.ChoiceField(initial=ALL, help_text="Each run loads the metadata current at its start.")
    active = forms.BooleanField(required=False, initial=True, help_text="An inactive schedule starts no runs.")

    def given(self) -> dict[str, Any]:
        """Return the arguments of the schedule's services."""
        taken = ("name", "cron", "time_zone", "allow_empty", "active")
        of_vacuum = {
            "kind": self.cleaned_data["kind"] or Schedule.Kind.LOAD,
            "retention_hours": self.cleaned_data["retention_hours"] or SAFE_HOURS,
        }
        return {name: self.cleaned_data[name] for name in taken} | of_vacuum | {"scope": self.scope_chosen()}


class NewScheduleForm(ScheduleFields):
    """Form of a new schedule."""


class ScheduleForm(ScheduleFields, EditForm):
    """Form of an existing schedule."""

    _SCOPE = ("scope", "schema", "dataset", "target_only")
    seen = ("name", "cron", "time_zone", "kind", "retention_hours", *_SCOPE, "allow_empty", "active")

    @classmethod
    def values(cls, row: Schedule) -> dict[str, Any]:
        scope = Scope.from_json(row.scope)
        named = {SCHEMA: "", DATASET: ""} | ({scope.kind: scope.name} if scope.kind != ALL else {})
        names = ("name", "cron", "time_zone", "kind", "retention_hours", "allow_empty", "active")
        own = {name: getattr(row, name) for name in names}
        return own | named | {"scope": scope.kind, "target_only": scope.target_only}

    def changes(self) -> dict[str, Any]:
        changed = {"scope" if name in self._SCOPE else name for name in self.seen if name in self.changed_data}
        return {name: value for name, value in self.given().items() if name in changed}


class TimesForm(forms.Form):
    """Form of the cron expression and time zone whose next times are shown."""

    cron = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput)
    time_zone = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)


def zone_names() -> list[str]:
    """Return the time zones for suggestions: UTC, then places by name."""
    places = sorted(name for name in time_zones() if "/" in name and not name.startswith(("Etc/", "SystemV/", "US/")))
    return ["UTC", *places]
