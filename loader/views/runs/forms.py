"""Forms of the loader's pages."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from django import forms

from loader.domain.runs.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.domain.runs.refusals import Refusal

KEYS_SHOWN, ROWS_SHOWN, VERSIONS_SHOWN, CHANGES_SHOWN = 60, 100, 500, 100
SAMPLE_SIZES = (20, 50, 200, 1000)


class StartLoadForm(forms.Form):
    """Form of a new load run: its scope, its time, and its decisions."""

    SCOPES = ((ALL, "Everything"), (SCHEMA, "One schema"), (DATASET, "One dataset"))

    scope = forms.ChoiceField(
        choices=SCOPES,
        initial=ALL,
        help_text="Datasets that depend on each other go in order, the others side by side.",
    )
    schema = forms.CharField(max_length=100, required=False, help_text="All its datasets, and what they depend on.")
    dataset = forms.CharField(
        max_length=310, required=False, help_text="Begin to type: the names that are described are offered."
    )
    target_only = forms.BooleanField(
        required=False,
        label="Only this, without what it depends on",
        help_text="Its delivery is not read again: it takes what lies in the tables behind it.",
    )
    load_timestamp = forms.DateTimeField(
        required=False,
        label="As of (UTC, optional)",
        help_text="Dates the versions this run writes; empty means now. It must be later than the newest run applied.",
        error_messages={"invalid": "This is not a date and time. Write it like 2026-11-21 08:00."},
    )
    allow_empty = forms.BooleanField(
        required=False,
        label="Allow empty deliveries",
        help_text="Otherwise a delivery without rows is refused, because it would close every open version.",
    )
    allow_deletes = forms.BooleanField(
        required=False,
        label="Allow many deletes",
        help_text="Otherwise a snapshot that lacks an unusual share of the open keys is refused.",
    )
    run_id = forms.CharField(
        max_length=100,
        required=False,
        label="Run id (optional)",
        help_text="The same id again is the same run: what it has done is not done twice.",
    )

    # Fields at which refusals of the service are shown.
    _FIELDS = {
        "UNKNOWN_SCHEMA": "schema",
        "UNKNOWN_DATASET": "dataset",
        "RETIRED": "dataset",
        "BAD_RUN_ID": "run_id",
        "RUN_ID_TAKEN": "run_id",
    }

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

    def add_refusal(self, refusal: Refusal) -> None:
        """Show why the service refused, at the field it is about."""
        text = " ".join(_sentence(part) for part in (refusal.message, refusal.hint) if part)
        self.add_error(self._FIELDS.get(refusal.code), text)


def _sentence(text: str) -> str:
    """Return the text with a capital at its beginning and a mark at its end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


_NO_TIME = "This is not a date and time. Write it like 2026-11-21 08:00."


def _number_field(**options: Any) -> forms.IntegerField:
    """Return a field for a number that versions are dated by, in the range of a bigint."""
    said = {"required": "Choose a number.", "invalid": "Versions are dated by a whole number here."}
    return forms.IntegerField(min_value=-(2**63), max_value=2**63 - 1, error_messages=said, **options)


class GovernedForm(forms.Form):
    """Form with the reason of a maintenance run."""

    reason = forms.CharField(
        max_length=500,
        strip=True,
        help_text="It stays with the run and its sealed record.",
        error_messages={"required": "Say why: it stays with the run."},
    )


class RevertForm(GovernedForm):
    """Form of a revert: the history that a run is taken out of."""

    dataset = forms.ChoiceField(
        label="History",
        help_text="The run stays applied to all others.",
        error_messages={
            "required": "Choose the history that the run is taken out of.",
            "invalid_choice": "The run cannot be taken out of this history.",
        },
    )

    def __init__(self, *args: Any, datasets: Sequence[str], **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["dataset"].choices = [(name, name) for name in datasets]
        self.fields["dataset"].initial = datasets[0] if datasets else None


class PruneForm(GovernedForm):
    """Form of a prune: the age from which closed versions are removed, and whether they are archived."""

    ended_before = forms.CharField(
        max_length=50,
        required=False,
        label="Ended before",
        help_text="A date like 2024-01-31, or a number where versions are dated by numbers.",
    )
    older_than_days = forms.IntegerField(
        min_value=0,
        max_value=100_000,
        required=False,
        label="Or older than days",
        help_text="Versions that ended more than so many days ago.",
        error_messages={"invalid": "This is not a number of days."},
    )
    archive = forms.BooleanField(
        required=False,
        initial=True,
        label="Archive first",
        help_text="The versions are written to a table in the warehouse's archive before they go.",
    )

    _FIELDS = {"NO_DATE": "ended_before", "BAD_DATE": "ended_before"}

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        given = [bool(cleaned.get("ended_before")), cleaned.get("older_than_days") is not None]
        if not self.errors and given.count(True) != 1:
            self.add_error("ended_before", "Say either a date or a number of days.")
        return cleaned

    def add_refusal(self, refusal: Refusal) -> None:
        """Show why the service refused, at the field it is about."""
        text = " ".join(_sentence(part) for part in (refusal.message, refusal.hint) if part)
        self.add_error(self._FIELDS.get(refusal.code), text)


class AsOfForm(forms.Form):
    """Form of the table as of an instant, as known at another; ``by_number``: versions are dated by a number."""

    at = forms.DateTimeField(
        help_text="Rows are shown whose version was valid then.",
        error_messages={"required": "Choose a date and time.", "invalid": _NO_TIME},
    )
    known_at = forms.DateTimeField(
        required=False,
        help_text="Leaves out what was loaded or corrected after that moment, by the clock.",
        error_messages={"invalid": _NO_TIME},
    )
    q = forms.CharField(max_length=200, required=False, help_text="Its first characters are enough.")

    def __init__(self, *args: Any, by_number: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if by_number:
            self.fields["at"] = _number_field(help_text=self.fields["at"].help_text)


class SampleForm(forms.Form):
    """Form of a sample: the number of rows of a table, and their order."""

    ORDERS = (("", "As they are stored"), ("newest", "Loaded last first"))

    rows = forms.TypedChoiceField(
        choices=[(size, f"{size:,}") for size in SAMPLE_SIZES],
        coerce=int,
        empty_value=SAMPLE_SIZES[1],
        initial=SAMPLE_SIZES[1],
        required=False,
        help_text="At most so many.",
    )
    order = forms.ChoiceField(
        choices=ORDERS, required=False, help_text="Last first reads the whole table: it takes longer."
    )


class ChangesForm(forms.Form):
    """Form of a run's changes: the run, and the kind of change."""

    OPERATIONS = (("", "All changes"), ("I", "Inserted"), ("U", "Updated"), ("D", "Deleted"))

    run = forms.ChoiceField(required=False, help_text="Runs that succeeded, the newest first.")
    op = forms.ChoiceField(
        choices=OPERATIONS, required=False, help_text="A key that came back is among the inserted ones."
    )

    def __init__(self, *args: Any, runs: Sequence[tuple[str, str]] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.fields["run"].choices = runs


class QuestionForm(forms.Form):
    """Form of a read, which the explorer's pages send by themselves."""

    kind = forms.ChoiceField(
        choices=[(kind, kind) for kind in ("sample", "key_search", "versions", "as_of", "changes")],
        widget=forms.HiddenInput,
    )
    rows = forms.TypedChoiceField(
        choices=[(size, size) for size in SAMPLE_SIZES],
        coerce=int,
        empty_value=SAMPLE_SIZES[0],
        required=False,
        widget=forms.HiddenInput,
    )
    newest = forms.BooleanField(required=False, widget=forms.HiddenInput)
    run = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput)
    op = forms.ChoiceField(choices=[(op, op) for op in ("I", "U", "D")], required=False, widget=forms.HiddenInput)
    text = forms.CharField(max_length=200, required=False, widget=forms.HiddenInput)
    entity_key = forms.RegexField(
        r"\A[0-9a-f]{64}\Z",
        required=False,
        widget=forms.HiddenInput,
        error_messages={"invalid": "This is not the key of a row."},
    )
    at = forms.DateTimeField(required=False, widget=forms.HiddenInput)
    known_at = forms.DateTimeField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, by_number: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if by_number:
            self.fields["at"] = _number_field(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        needed = {"versions": "entity_key", "as_of": "at", "changes": "run"}.get(cleaned.get("kind", ""))
        if needed and cleaned.get(needed) in (None, "") and needed not in self.errors:
            said = {"entity_key": "a key", "at": "a time", "run": "a run"}[needed]
            self.add_error(needed, f"The question needs {said}.")
        return cleaned

    def arguments(self) -> dict[str, Any]:
        """Return the read's arguments (``loader.spark.queries.reads``)."""
        kind, given = self.cleaned_data["kind"], self.cleaned_data
        if kind == "sample":
            return {"limit": given["rows"], **({"newest": True} if given["newest"] else {})}
        if kind == "changes":
            return {"run_id": given["run"], "limit": CHANGES_SHOWN, **({"op": given["op"]} if given["op"] else {})}
        if kind == "key_search":
            return {"text": given["text"], "limit": KEYS_SHOWN}
        if kind == "versions":
            return {"entity_key": given["entity_key"], "limit": VERSIONS_SHOWN}
        known = {"known_at": _utc(given["known_at"])} if given["known_at"] else {}
        return {"at": _utc(given["at"]), "text": given["text"], "limit": ROWS_SHOWN, **known}


def _utc(instant: datetime | int) -> str:
    """Return an instant in ISO 8601; a number as it is."""
    return str(instant) if isinstance(instant, int) else instant.astimezone(UTC).isoformat()
