"""Forms of maintenance runs."""

from collections.abc import Sequence
from typing import Any

from django import forms

from elevata.web.forms import ProductForm, set_choices
from loader.contract.run_states import DROP, RELEASE
from loader.domain.vacuum import MOST_HOURS, SAFE_HOURS


class MaintenanceForm(ProductForm):
    """Form with the reason of a maintenance run."""

    reason = forms.CharField(
        max_length=500,
        label="Why",
        strip=True,
        help_text="Stored with the run and its record.",
        error_messages={"required": "Enter a reason. It is stored with the run."},
    )


class RevertForm(MaintenanceForm):
    """Form of a revert: the history on which the run is reverted."""

    dataset = forms.ChoiceField(
        label="History",
        help_text="The run stays applied to all other datasets.",
        error_messages={
            "required": "Choose a history.",
            "invalid_choice": "The run cannot be reverted on this history.",
        },
    )

    def __init__(self, *args: Any, datasets: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        set_choices(self, "dataset", [(name, name) for name in datasets])
        self.fields["dataset"].initial = datasets[0] if datasets else None


class PruneForm(MaintenanceForm):
    """Form of a prune: the age of the closed versions to remove, and the option to archive them."""

    ended_before = forms.CharField(
        max_length=50,
        widget=forms.TextInput(attrs={"autocomplete": "off"}),
        required=False,
        label="Ended before",
        help_text="A date like 2024-01-31, or a number where versions are dated by numbers.",
    )
    older_than_days = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        required=False,
        label="Or older than days",
        help_text="Versions that ended more than this number of days ago.",
        error_messages={"invalid": "This is not a number of days."},
    )
    archive = forms.BooleanField(
        required=False,
        initial=True,
        label="Archive first",
        help_text="Copies the versions to the archive before removing them.",
    )

    elsewhere = {"NO_DATE": "ended_before", "BAD_DATE": "ended_before"}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        chosen = [bool(cleaned.get("ended_before")), cleaned.get("older_than_days") is not None]
        if not self.errors and chosen.count(True) != 1:
            self.add_error("ended_before", "Enter either a date or a number of days.")
        return cleaned

    def given(self) -> dict[str, Any]:
        return self.cleaned_data | {"ended_before": self.cleaned_data["ended_before"].strip() or None}


class VacuumForm(MaintenanceForm):
    """Form of a vacuum: the retention of former files, and the option to list them only."""

    retention_hours = forms.IntegerField(
        min_value=SAFE_HOURS,
        max_value=MOST_HOURS,
        initial=SAFE_HOURS,
        label="Keep hours",
        help_text=f"Files that were current within this number of hours stay; at least {SAFE_HOURS}.",
        error_messages={"invalid": "This is not a number of hours."},
    )
    dry_run = forms.BooleanField(
        required=False,
        initial=True,
        label="Dry run",
        help_text="Lists the files with their sizes and removes nothing.",
    )

    elsewhere = {"RETENTION_TOO_SHORT": "retention_hours", "BAD_RETENTION": "retention_hours"}


class QuarantineForm(MaintenanceForm):
    """Form of a decision on quarantined rows: the chosen rows, by default all that wait."""

    decision = forms.ChoiceField(
        choices=(("", "choose…"), (RELEASE, "Release into the next load"), (DROP, "Drop")),
        help_text="Released rows are loaded as they are, without these checks. Dropped rows are removed for good.",
        error_messages={"required": "Choose whether the rows are released or dropped."},
    )
    entries = forms.CharField(required=False, widget=forms.MultipleHiddenInput)

    def __init__(self, *args: Any, releasable: bool = True, **options: Any) -> None:
        super().__init__(*args, **options)
        if not releasable:
            field: Any = self.fields["decision"]  # a field of choices
            field.choices = [choice for choice in field.choices if choice[0] != RELEASE]
            field.help_text = (
                "Dropped rows are removed for good. The rows do not fit the contract: load them corrected."
            )

    def given(self) -> dict[str, Any]:
        chosen = self.data.getlist("entries") if hasattr(self.data, "getlist") else []
        return {**super().given(), "entries": tuple(chosen)}
