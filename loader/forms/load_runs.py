"""Forms of load runs."""

from typing import Any

from django import forms

from elevata.web.forms import MONO, ProductForm
from loader.domain.sources.marks import MAX_SINCE
from metadata.domain.scope import ALL, DATASET, SCHEMA, SELECTION, Scope
from metadata.forms.scope import ScopeFields


class NoteForm(ProductForm):
    """Note of a user who approves a run."""

    note = forms.CharField(max_length=1000, required=False, strip=True, help_text="Recorded in the change log.")


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
        return self.scope_of_kind(kind, target_only=kind in (SCHEMA, DATASET) and self.cleaned_data["target_only"])


class StartLoadForm(LoadFields):
    """Form of a new load run: its scope, its time, and its decisions."""

    elsewhere = {
        "UNKNOWN_SCHEMA": "schema",
        "UNKNOWN_DATASET": "dataset",
        "RETIRED": "dataset",
        "NOTHING_SELECTED": SELECTION,
        "LOAD_TIMESTAMP_AHEAD": "load_timestamp",
        "BAD_RUN_ID": "run_id",
        "RUN_ID_TAKEN": "run_id",
        "READ_ALREADY": "run_id",
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
        widget=forms.TextInput(attrs=MONO),
        help_text="Reads sources with a watermark from this number, date or time on, like 2026-11-21.",
    )
    run_id = forms.CharField(
        max_length=100,
        required=False,
        label="Run id (optional)",
        widget=forms.TextInput(attrs=MONO),
        help_text="Repeating an ID repeats that run; finished parts are not done again.",
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{"auto_id": "id_start_%s", **options})

    def given(self) -> dict[str, Any]:
        """Return the arguments of ``request_load_run``."""
        names = ("load_timestamp", "allow_empty", "allow_deletes", "full", "since")
        values = {name: self.cleaned_data[name] for name in names}
        return values | {"scope": self.scope_chosen(), "run_id": self.cleaned_data["run_id"].strip() or None}
