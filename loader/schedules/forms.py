"""Forms of schedules: the work, its times and the data that it waits for."""

from collections.abc import Mapping
from typing import Any, ClassVar

from django import forms

from elevata.web.forms import MONO, EditForm, set_choices
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS
from loader.forms.load_runs import LoadFields
from loader.models import Schedule
from loader.schedules.cron import time_zones
from loader.schedules.wait_checks import WAIT_KINDS
from loader.schedules.waits import FILES, MOST_MINUTES, MOST_ROWS, ROWS, SKIP, START
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope
from metadata.selectors.datasets import source_datasets

_NO_CRON = "Enter a schedule, for example 30 6 * * 1-5 (06:30 from Monday to Friday)."


def needed_for(field: str, *values: str) -> dict[str, str]:
    """Return attributes of a field that is hidden unless another field has one of the values."""
    return {"data-needs": field, "data-needs-one-of": " ".join(values)}


class WaitFields(forms.Form):
    """Fields of the condition that a schedule waits for."""

    WAIT: ClassVar[tuple[str, ...]] = (
        "wait_for",
        "wait_source",
        "wait_rows",
        "wait_newer",
        "wait_minutes",
        "wait_then",
    )

    wait_for = forms.ChoiceField(
        label="Wait for",
        required=False,
        choices=[("", "the clock alone"), (FILES, "new files"), (ROWS, "a number of rows")],
        help_text="From its time on, the run waits until the data is there.",
    )
    wait_source = forms.ChoiceField(
        label="Source", required=False, help_text="One of the sources that the runs read: files, or a database table."
    )
    wait_rows = forms.IntegerField(
        label="Rows",
        required=False,
        min_value=1,
        max_value=MOST_ROWS,
        help_text="Of a table: the least number of rows.",
    )
    wait_newer = forms.CharField(
        label="Newer by",
        required=False,
        max_length=200,
        widget=forms.TextInput(attrs=MONO),
        help_text="Date or timestamp column: only rows after the source's last load count. Empty counts all rows.",
    )
    wait_minutes = forms.IntegerField(
        label="Deadline",
        required=False,
        min_value=1,
        max_value=MOST_MINUTES,
        initial=60,
        help_text="Minutes after its time at which waiting ends.",
    )
    wait_then = forms.ChoiceField(
        label="At the deadline",
        required=False,
        choices=[(SKIP, "skip the run"), (START, "start the run anyway")],
        help_text="In both cases a notice is sent.",
    )

    def offer_sources(self) -> None:
        """Set the sources to choose from, and the kinds of conditions that each field is for."""
        for name in self.WAIT[1:]:
            kinds = (ROWS,) if name in ("wait_rows", "wait_newer") else (FILES, ROWS)
            self.fields[name].widget.attrs.update(needed_for("wait_for", *kinds))
        sources = source_datasets().filter(active=True, system__active=True, system__kind__in=WAIT_KINDS)
        choices = [(str(source.key), str(source)) for source in sources]
        set_choices(self, "wait_source", [("", "choose…"), *choices])

    def wait_chosen(self) -> dict[str, Any]:
        """Return the condition as JSON; fields that do not apply to its kind are left out."""
        data = self.cleaned_data
        if not data["wait_for"]:
            return {}
        wait = {"for": data["wait_for"], "source": data["wait_source"], "then": data["wait_then"] or SKIP}
        if data["wait_minutes"]:
            wait["minutes"] = data["wait_minutes"]
        if data["wait_for"] == ROWS:
            wait |= {"rows": data["wait_rows"] or 1, "newer": data["wait_newer"]}
        return wait

    @staticmethod
    def wait_values(wait: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields' values for a stored condition."""
        defaults = {"for": "", "source": "", "rows": None, "newer": "", "minutes": 60, "then": SKIP}
        return {f"wait_{name}": wait.get(name, value) for name, value in defaults.items()}


class ScheduleFields(WaitFields, LoadFields):
    """Fields of a schedule: name, times, kind, scope, condition and active state."""

    elsewhere = {"wait": "wait_for", **{f"wait.{name.removeprefix('wait_')}": name for name in WaitFields.WAIT}}

    name = forms.CharField(
        max_length=100,
        help_text="Shown on its load runs.",
        error_messages={"required": "Enter a name."},
    )
    cron = forms.CharField(
        label="Cron expression",
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
        help_text="A vacuum removes former files of each dataset in the scope. A source check compares the sources "
        "that loads of the scope read with their contracts.",
    )
    retention_hours = forms.IntegerField(
        label="Keep hours",
        min_value=SAFE_HOURS,
        max_value=MOST_HOURS,
        initial=SAFE_HOURS,
        required=False,
        widget=forms.NumberInput(attrs=needed_for("kind", Schedule.Kind.VACUUM)),
        help_text="A vacuum keeps files that were current within this number of hours.",
    )
    scope = forms.ChoiceField(initial=ALL, help_text="Each run loads the metadata current at its start.")
    active = forms.BooleanField(required=False, initial=True, help_text="An inactive schedule starts no runs.")

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.offer_sources()

    def given(self) -> dict[str, Any]:
        """Return the arguments of the schedule's services."""
        taken = ("name", "cron", "time_zone", "allow_empty", "active")
        of_vacuum = {
            "kind": self.cleaned_data["kind"] or Schedule.Kind.LOAD,
            "retention_hours": self.cleaned_data["retention_hours"] or SAFE_HOURS,
        }
        own = {name: self.cleaned_data[name] for name in taken}
        return own | of_vacuum | {"scope": self.scope_chosen(), "wait": self.wait_chosen()}


class NewScheduleForm(ScheduleFields):
    """Form of a new schedule. Its zone begins as that of the user's account, or else, by script, the browser's."""

    def __init__(self, *args: Any, zone: str = "", **options: Any) -> None:
        super().__init__(*args, **options)
        if zone:
            self.fields["time_zone"].initial = zone
        elif not self.is_bound:
            self.fields["time_zone"].widget.attrs["data-own-zone"] = ""


class ScheduleForm(ScheduleFields, EditForm):
    """Form of an existing schedule."""

    _SCOPE = ("scope", "schema", "dataset", "target_only", "selection", "exclude")
    _OWN = ("name", "cron", "time_zone", "kind", "retention_hours", "allow_empty", "active")
    seen = (*_OWN, *_SCOPE, *WaitFields.WAIT)

    @classmethod
    def values(cls, row: Schedule) -> dict[str, Any]:
        scope = Scope.from_json(row.scope)
        named = dict.fromkeys((SCHEMA, DATASET, SELECTION, "exclude"), "") | cls.values_of(scope)
        own = {name: getattr(row, name) for name in cls._OWN}
        return own | named | {"target_only": scope.target_only} | cls.wait_values(row.wait)

    def changes(self) -> dict[str, Any]:
        whole = dict.fromkeys(self._SCOPE, "scope") | dict.fromkeys(self.WAIT, "wait")
        changed = {whole.get(name, name) for name in self.seen if name in self.changed_data}
        return {name: value for name, value in self.given().items() if name in changed}


class TimesForm(forms.Form):
    """Form of the cron expression and time zone whose next times are shown."""

    cron = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput)
    time_zone = forms.CharField(max_length=64, required=False, widget=forms.HiddenInput)


def zone_names() -> list[str]:
    """Return the time zones for suggestions: UTC, then places by name."""
    places = sorted(name for name in time_zones() if "/" in name and not name.startswith(("Etc/", "SystemV/", "US/")))
    return ["UTC", *places]
