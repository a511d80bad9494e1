"""What people type on the loader's pages."""

from datetime import UTC, datetime
from typing import Any

from django import forms

from loader.domain.dependencies import ALL, DATASET, SCHEMA, Scope
from loader.domain.refusals import Refusal

KEYS_SHOWN, ROWS_SHOWN, VERSIONS_SHOWN = 60, 100, 500


class StartLoadForm(forms.Form):
    """A load run: what, and as of when."""

    SCOPES = ((ALL, "Everything"), (SCHEMA, "One schema"), (DATASET, "One dataset"))

    scope = forms.ChoiceField(choices=SCOPES, initial=ALL)
    schema = forms.CharField(max_length=100, required=False)
    dataset = forms.CharField(max_length=310, required=False)
    target_only = forms.BooleanField(required=False)
    load_timestamp = forms.DateTimeField(
        required=False,
        error_messages={"invalid": "This is not a date and time. Write it like 2026-11-21 08:00."},
    )
    allow_empty = forms.BooleanField(required=False)
    run_id = forms.CharField(max_length=100, required=False)

    # Where a refusal of the service is shown.
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
    """With a capital at its beginning and a mark at its end."""
    return text[:1].upper() + text[1:] + ("" if text.endswith((".", "?", "!")) else ".")


_NO_TIME = "This is not a date and time. Write it like 2026-11-21 08:00."


def _number_field(**options: Any) -> forms.IntegerField:
    """A number that versions are dated by, in the range of a bigint."""
    said = {"required": "Choose a number.", "invalid": "Versions are dated by a whole number here."}
    return forms.IntegerField(min_value=-(2**63), max_value=2**63 - 1, error_messages=said, **options)


class AsOfForm(forms.Form):
    """The table as of an instant, as it was known at another; ``by_number``: versions are dated by a number."""

    at = forms.DateTimeField(error_messages={"required": "Choose a date and time.", "invalid": _NO_TIME})
    known_at = forms.DateTimeField(required=False, error_messages={"invalid": _NO_TIME})
    q = forms.CharField(max_length=200, required=False)

    def __init__(self, *args: Any, by_number: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if by_number:
            self.fields["at"] = _number_field()


class QuestionForm(forms.Form):
    """A question to a history, as the explorer's pages put it."""

    kind = forms.ChoiceField(choices=[(kind, kind) for kind in ("key_search", "versions", "as_of")])
    text = forms.CharField(max_length=200, required=False)
    entity_key = forms.RegexField(
        r"\A[0-9a-f]{64}\Z", required=False, error_messages={"invalid": "This is not the key of a row."}
    )
    at = forms.DateTimeField(required=False)
    known_at = forms.DateTimeField(required=False)

    def __init__(self, *args: Any, by_number: bool = False, **options: Any) -> None:
        super().__init__(*args, **options)
        if by_number:
            self.fields["at"] = _number_field(required=False)

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean()
        needed = {"versions": "entity_key", "as_of": "at"}.get(cleaned.get("kind", ""))
        if needed and cleaned.get(needed) in (None, "") and needed not in self.errors:
            self.add_error(needed, f"The question needs {'a key' if needed == 'entity_key' else 'a time'}.")
        return cleaned

    def arguments(self) -> dict[str, Any]:
        """The read's arguments (``loader.spark.reads``)."""
        kind, given = self.cleaned_data["kind"], self.cleaned_data
        if kind == "key_search":
            return {"text": given["text"], "limit": KEYS_SHOWN}
        if kind == "versions":
            return {"entity_key": given["entity_key"], "limit": VERSIONS_SHOWN}
        known = {"known_at": _utc(given["known_at"])} if given["known_at"] else {}
        return {"at": _utc(given["at"]), "text": given["text"], "limit": ROWS_SHOWN, **known}


def _utc(instant: datetime | int) -> str:
    """An instant in ISO 8601; a number as it is."""
    return str(instant) if isinstance(instant, int) else instant.astimezone(UTC).isoformat()
