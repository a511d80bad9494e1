"""Forms of reads: samples, changes of a run, versions, and tables as of a time."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from django import forms

from elevata.web.forms import ProductForm, set_choices
from loader.domain.queries.answers import COMPARE, DESCENDANTS, EXPORT, MOST_QUARANTINED, ORIGIN
from loader.domain.queries.comparison import DATES, ENVIRONMENTS, VERSIONS, WAYS, Comparison
from loader.domain.queries.row_selection import COMPARISONS, LONGEST_TEXT, MOST_OFFSET, RowSelection

KEYS_SHOWN, ROWS_SHOWN, VERSIONS_SHOWN = 60, 100, 500
KINDS = (
    "sample",
    "key_search",
    "versions",
    "as_of",
    "changes",
    ORIGIN,
    DESCENDANTS,
    EXPORT,
    COMPARE,
    "profile",
    "quality",
    "quarantine",
)
# Fields that a question of a kind needs, with their names in messages.
_NEEDS = {
    "versions": {"entity_key": "a key"},
    ORIGIN: {"entity_key": "a key"},
    "as_of": {"at": "a time"},
    "changes": {"run": "a run"},
    DESCENDANTS: {"run": "a run", "file": "a file", "row": "a row number"},
}
SAMPLE_SIZES = (20, 50, 200, 1000)
_NO_TIME = "This is not a date and time. Write it like 2026-11-21 08:00."


def _number_field(**options: Any) -> forms.IntegerField:
    """Return a field for the number at which versions start, in the range of a bigint."""
    messages = {"required": "Choose a number.", "invalid": "Versions are dated by a whole number here."}
    return forms.IntegerField(min_value=-(2**63), max_value=2**63 - 1, error_messages=messages, **options)


class SelectionForm(forms.Form):
    """Form of the rows of a page: their number, and which of them in which order."""

    rows = forms.TypedChoiceField(
        choices=[(size, f"{size:,}") for size in SAMPLE_SIZES],
        coerce=int,
        empty_value=SAMPLE_SIZES[1],  # type: ignore[arg-type]  # the stubs know texts only
        initial=SAMPLE_SIZES[1],
        required=False,
        help_text="Maximum number of rows.",
    )
    find = forms.CharField(
        max_length=LONGEST_TEXT,
        required=False,
        help_text="Text in any column that you may read; case is ignored.",
    )
    column = forms.ChoiceField(required=False, help_text="Column that is compared with the value.")
    comparison = forms.ChoiceField(
        choices=tuple(COMPARISONS.items()), required=False, help_text="Comparison of column and value."
    )
    value = forms.CharField(max_length=LONGEST_TEXT, required=False, help_text="Value to compare with.")
    sort = forms.ChoiceField(required=False, help_text="Sorting reads the whole table and takes longer.")
    descending = forms.BooleanField(required=False, help_text="Sorts the highest value first.")
    offset = forms.IntegerField(
        min_value=0, max_value=MOST_OFFSET, required=False, help_text="Number of rows before the page."
    )
    failing = forms.UUIDField(required=False, help_text="Quality check whose failing rows are shown.")

    def __init__(self, *args: Any, columns: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        for name in ("column", "sort"):
            unchosen = "any" if name == "column" else "as stored"
            set_choices(self, name, [("", unchosen), *((c, c) for c in columns)])

    @property
    def selection(self) -> RowSelection:
        """Return the selected rows; all rows of a form with errors."""
        return _selection(self.cleaned_data) if self.is_bound and self.is_valid() else RowSelection()

    @property
    def question(self) -> dict[str, Any]:
        """Return the number of rows and the selection as fields of a read."""
        is_valid = self.is_bound and self.is_valid()
        rows = self.cleaned_data["rows"] if is_valid else self.fields["rows"].initial
        return {"rows": rows, **self.selection.as_arguments()}

    @property
    def shown(self) -> dict[str, Any]:
        """Return the values that the fields show: those given, without the wrong ones."""
        given = self.cleaned_data if self.is_bound and self.errors is not None else {}
        chosen = {name: value for name, value in given.items() if value not in (None, "")}
        return {"rows": self.fields["rows"].initial} | chosen


def _selection(values: Mapping[str, Any]) -> RowSelection:
    """Return the selection in the cleaned data of a form."""
    given = {name: values[name] for name in RowSelection.__dataclass_fields__}
    if given["failing"] is not None:
        given["failing"] = str(given["failing"])
    return RowSelection(**{name: value for name, value in given.items() if value not in (None, "")})


class AsOfForm(SelectionForm):
    """Form of the table as of a time, as known at another; ``by_number``: versions start at numbers."""

    at = forms.DateTimeField(
        help_text="Shows rows that were valid at this time.",
        error_messages={"required": "Choose a date and time.", "invalid": _NO_TIME},
    )
    known_at = forms.DateTimeField(
        required=False,
        help_text="Hides rows loaded or corrected after this time.",
        error_messages={"invalid": _NO_TIME},
    )

    def __init__(self, *args: Any, by_number: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if by_number:
            self.fields["at"] = _number_field(help_text=self.fields["at"].help_text)


class ComparisonForm(forms.Form):
    """Form of the two sides of a comparison, for one way (``loader.domain.queries.comparison``) to compare."""

    HELP: ClassVar = {
        DATES: "Compares the rows that were valid at two times.",
        VERSIONS: "Compares the rows after two loads of the table.",
        ENVIRONMENTS: "Compares the rows here with those of another environment.",
    }

    def __init__(
        self,
        *args: Any,
        by: str = VERSIONS,
        by_number: bool = False,
        versions: Sequence[tuple[int, str]] = (),
        environments: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        if by == ENVIRONMENTS:
            choices = [(name, name) for name in environments]
            self.fields["base"] = forms.ChoiceField(label="With environment", choices=choices)
        else:
            for name, label in (("base", "From"), ("other", "To")):
                self.fields[name] = self._side(by, label, by_number, versions)
        for field in self.fields.values():
            field.help_text = self.HELP[by]
            css_class = "form-select" if isinstance(field.widget, forms.Select) else "form-control"
            field.widget.attrs |= {"class": css_class, "aria-describedby": "compare-help"}

    def _side(self, by: str, label: str, by_number: bool, versions: Sequence[tuple[int, str]]) -> forms.Field:
        if by == VERSIONS:
            return forms.ChoiceField(label=label, choices=versions)
        if by_number:
            return _number_field(label=f"{label} number")
        messages = {"required": "Choose a date and time.", "invalid": _NO_TIME}
        widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format="%Y-%m-%dT%H:%M:%S")
        return forms.DateTimeField(label=f"{label} (UTC)", widget=widget, error_messages=messages)

    @property
    def sides(self) -> dict[str, str]:
        """Return the chosen sides as arguments of a read."""
        values = {name: self.cleaned_data[name] for name in self.fields}
        return {name: _utc(value) if isinstance(value, datetime) else str(value) for name, value in values.items()}


class DeliveredRowForm(ProductForm):
    """Form of a delivered row: its load run, its file or partition, and its number."""

    run = forms.CharField(label="Load run", max_length=100, help_text="Run that loaded the delivery.")
    file = forms.CharField(label="File", max_length=4000, help_text="Name of the file, or partition of a topic.")
    row = forms.IntegerField(
        label="Row", min_value=0, max_value=2**63 - 1, help_text="Number of the row, or offset of the message."
    )


class ChangesForm(SelectionForm):
    """Form of a run's changes: the run, and the kind of change."""

    OPERATIONS = (
        ("", "All changes"),
        ("I", "Inserted"),
        ("U", "Updated"),
        ("D", "Deleted"),
        ("R", "Reappeared"),
    )

    run = forms.ChoiceField(required=False, help_text="Runs that succeeded, the newest first.")
    op = forms.ChoiceField(choices=OPERATIONS, required=False, help_text="Reappeared keys were absent before.")

    def __init__(self, *args: Any, runs: Sequence[tuple[str, str]] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        set_choices(self, "run", runs)


class QuestionForm(forms.Form):
    """Form of a read, which the pages of the history explorer send."""

    kind = forms.ChoiceField(
        choices=[(kind, kind) for kind in KINDS],
        widget=forms.HiddenInput,
    )
    rows = forms.TypedChoiceField(
        choices=[(size, size) for size in SAMPLE_SIZES],
        coerce=int,
        empty_value=SAMPLE_SIZES[0],  # type: ignore[arg-type]  # the stubs know texts only
        required=False,
        widget=forms.HiddenInput,
    )
    find = forms.CharField(max_length=LONGEST_TEXT, required=False, widget=forms.HiddenInput)
    column = forms.CharField(max_length=LONGEST_TEXT, required=False, widget=forms.HiddenInput)
    comparison = forms.ChoiceField(choices=tuple(COMPARISONS.items()), required=False, widget=forms.HiddenInput)
    value = forms.CharField(max_length=LONGEST_TEXT, required=False, widget=forms.HiddenInput)
    sort = forms.CharField(max_length=LONGEST_TEXT, required=False, widget=forms.HiddenInput)
    descending = forms.BooleanField(required=False, widget=forms.HiddenInput)
    offset = forms.IntegerField(min_value=0, max_value=MOST_OFFSET, required=False, widget=forms.HiddenInput)
    failing = forms.UUIDField(required=False, widget=forms.HiddenInput)
    check = forms.UUIDField(required=False, widget=forms.HiddenInput)
    run = forms.CharField(max_length=100, required=False, widget=forms.HiddenInput)
    op = forms.ChoiceField(choices=[(op, op) for op in ("I", "U", "D", "R")], required=False, widget=forms.HiddenInput)
    text = forms.CharField(max_length=200, required=False, widget=forms.HiddenInput)
    entity_key = forms.RegexField(
        r"\A[0-9a-f]{64}\Z",
        required=False,
        widget=forms.HiddenInput,
        error_messages={"invalid": "This is not the key of a row."},
    )
    at = forms.DateTimeField(required=False, widget=forms.HiddenInput)
    known_at = forms.DateTimeField(required=False, widget=forms.HiddenInput)
    all_rows = forms.BooleanField(required=False, widget=forms.HiddenInput)
    file = forms.CharField(max_length=4000, required=False, widget=forms.HiddenInput)
    row = forms.IntegerField(min_value=0, max_value=2**63 - 1, required=False, widget=forms.HiddenInput)
    by = forms.ChoiceField(choices=tuple(WAYS.items()), required=False, widget=forms.HiddenInput)
    base = forms.CharField(max_length=LONGEST_TEXT, required=False, widget=forms.HiddenInput)
    other = forms.CharField(max_length=LONGEST_TEXT, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, by_number: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if by_number:
            self.fields["at"] = _number_field(required=False, widget=forms.HiddenInput)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        for needed, missing in _NEEDS.get(cleaned.get("kind", ""), {}).items():
            if cleaned.get(needed) in (None, "") and needed not in self.errors:
                self.add_error(needed, f"The question needs {missing}.")
        return cleaned

    def arguments(self) -> dict[str, Any]:
        """Return the read's arguments (``loader.engine.queries.reads``)."""
        kind, values = self.cleaned_data["kind"], self.cleaned_data
        if kind == EXPORT and values["at"] is not None:
            return self._as_of_arguments() | replace(_selection(values), offset=0).as_arguments()
        selection = _selection(values)
        of_run = {"run_id": values["run"], "op": values["op"]} if values["run"] else {}
        if kind == EXPORT:
            of_run = {name: value for name, value in of_run.items() if value}
            return of_run | replace(selection, offset=0).as_arguments()
        if kind == "sample":
            return {"limit": values["rows"], **selection.as_arguments()}
        if kind == "changes":
            op = {"op": values["op"]} if values["op"] else {}
            return {"run_id": values["run"], "limit": self._limit(), **op, **selection.as_arguments()}
        if kind == COMPARE:
            return Comparison.from_arguments(values).as_arguments()
        if kind == "key_search":
            return {"text": values["text"], "limit": KEYS_SHOWN}
        if kind == ORIGIN:
            at = {"at": _utc(values["at"])} if values["at"] is not None else {}
            return {"entity_key": values["entity_key"], "limit": ROWS_SHOWN, **at}
        if kind == DESCENDANTS:
            return {"run_id": values["run"], "file": values["file"], "row": values["row"]}
        if kind in ("profile", "quality"):
            check = values["check"] if kind == "quality" else None
            return {"check": str(check)} if check is not None else {}
        if kind == "quarantine":
            of_run = {"run_id": values["run"]} if values["run"] else {}
            return {"limit": MOST_QUARANTINED if values["all_rows"] else ROWS_SHOWN, **of_run}
        if kind == "versions":
            return {"entity_key": values["entity_key"], "limit": VERSIONS_SHOWN}
        return self._as_of_arguments() | {"limit": self._limit()} | _selection(values).as_arguments()

    def _limit(self) -> int:
        return self.cleaned_data["rows"] if self.data.get("rows") else ROWS_SHOWN

    def _as_of_arguments(self) -> dict[str, Any]:
        values = self.cleaned_data
        known = {"known_at": _utc(values["known_at"])} if values["known_at"] else {}
        return {"at": _utc(values["at"]), **known}


def _utc(instant: datetime | int) -> str:
    """Return a time in ISO 8601, in UTC, or a number as text."""
    return str(instant) if isinstance(instant, int) else instant.astimezone(UTC).isoformat()
