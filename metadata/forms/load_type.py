"""Form of the load type and history of a new source dataset."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from elevata.core.errors import MetadataError, ProductError, as_sentence
from elevata.web.forms import ProductForm, set_choices
from metadata.domain.history.history_policy import (
    APPEND,
    BATCH_FILES,
    DELTA,
    KEY_LIST,
    LOAD_TIME,
    NONE,
    SNAPSHOT,
    TIME_TYPES,
    HistoryPolicy,
)
from metadata.domain.history.history_policy_labels import CHOICES, Chosen, not_applying
from metadata.domain.history.load_types import LoadType, load_type
from metadata.domain.sources.intake import Intake
from metadata.domain.types import STRING, DataType
from metadata.forms.base import Group, shown_group

# Delivery types that need no business key.
_WITHOUT_KEY = (SNAPSHOT, APPEND)
# Fields whose choices are all shown, in their order.
_DRAWN = ("watermark", "delete_detection", "input")
# Other watermarks are set on the source's edit page.
_MOST_WATERMARKS = 6


class LoadTypeForm(ProductForm):
    """Meaning of a delivery, and whether its versions are kept; both together are the load type.

    ``columns`` are the types of the columns outside the business key, by name; ``keyed`` is false without a key, and
    then no history and only some delivery types are possible. ``watermarks`` are the columns by which a load can read
    only new and changed rows, the likeliest first, ``detections`` the ways in which it then finds deleted ones.
    ``policy`` and ``intake`` are those of the source once the form is valid.
    """

    elsewhere = {"no_business_key": "historize"}

    input = forms.ChoiceField(
        choices=[(choice.value, choice.label) for choice in CHOICES["input"] if choice.value != BATCH_FILES],
        initial=SNAPSHOT,
        widget=forms.RadioSelect,
        label="Delivery type",
        help_text="Meaning of a row in a delivery, and of an absent row.",
    )
    time = forms.ChoiceField(
        required=False,
        label="Versions are dated by",
        help_text="The load time, or a column with the time of each row.",
    )
    op = forms.ChoiceField(
        required=False, label="Operation", help_text="Column with the operation of a change feed: I, U or D."
    )
    watermark = forms.ChoiceField(
        required=False,
        widget=forms.RadioSelect,
        label="Rows to read",
        help_text="New and changed rows are those whose value in this column is at least the highest loaded so far.",
    )
    delete_detection = forms.ChoiceField(
        required=False,
        widget=forms.RadioSelect,
        label="Deleted rows",
        help_text="With only new and changed rows: how a load finds rows that were deleted.",
    )
    historize = forms.BooleanField(
        required=False,
        initial=True,
        label="Keep history",
        help_text="A history table beside rawcore keeps every version of every row.",
    )

    def __init__(
        self,
        *args: Any,
        columns: Mapping[str, DataType],
        keyed: bool,
        watermarks: Sequence[str] = (),
        detections: Sequence[str] = (),
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.policy: dict[str, Any] = {}
        self.intake: dict[str, Any] = {}
        self._set_rows_to_read(watermarks if keyed else (), detections)
        times = [(name, f"{name} ({type_})") for name, type_ in columns.items() if type_.name in TIME_TYPES]
        texts = [(name, name) for name, type_ in columns.items() if type_.name == STRING]
        set_choices(self, "time", [(LOAD_TIME, "the load"), *times])
        set_choices(self, "op", [("", "none"), *texts])
        if not keyed:
            # Disabled fields have their initial value, so none may come from a suggestion for rows with a key.
            self.initial = {"input": APPEND, "historize": False}
            for name in ("historize", "time", "op"):
                self.fields[name].disabled = True
            shown: Any = self.fields["input"]  # a field of choices
            set_choices(self, "input", [choice for choice in shown.choices if choice[0] in _WITHOUT_KEY])
        for name in _DRAWN:
            if name in self.fields:
                self.fields[name].widget.attrs["class"] = "form-check-input"

    def _set_rows_to_read(self, watermarks: Sequence[str], detections: Sequence[str]) -> None:
        """Offer these watermarks, and by default the first way to find deleted rows; remove the fields without any."""
        if not watermarks:
            del self.fields["watermark"], self.fields["delete_detection"]
            return
        changed = [(name, f"Only new and changed rows, by {name}") for name in watermarks[:_MOST_WATERMARKS]]
        set_choices(self, "watermark", [("", "All rows, at each load"), *changed])
        possible = (NONE, *detections)
        choices = [(choice.value, choice.label) for choice in CHOICES["delete_detection"] if choice.value in possible]
        set_choices(self, "delete_detection", choices)
        self.initial = {"delete_detection": KEY_LIST if KEY_LIST in detections else NONE, **self.initial}

    def group(self) -> Group:
        """Return the rows to read, where there is a choice, and the delivery types, each with its sentence."""
        return shown_group(self, "Delivery type", (name for name in _DRAWN if name in self.fields), {})

    @property
    def load_type(self) -> LoadType:
        """Return the load type that a valid form chooses."""
        return load_type(HistoryPolicy.from_dict(self.policy), historize=self.cleaned_data["historize"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            watermark = cleaned.get("watermark", "")
            if watermark and cleaned["input"] == SNAPSHOT:
                cleaned["input"] = DELTA  # what is not read is not deleted
            unused = not_applying(Chosen(cleaned["input"], time=cleaned["time"], historize=cleaned["historize"]))
            cleaned["historize"] = cleaned["historize"] and "historize" not in unused
            given = {name: cleaned[name] for name in ("input", "time", "op") if cleaned[name] and name not in unused}
            self.intake = {"watermark": [watermark]} if watermark else {}
            detection = {"delete_detection": cleaned["delete_detection"] or NONE} if watermark else {}
            try:
                # Checked first without delete detection: an unsuitable delivery type is reported at the watermark only.
                Intake.from_dict(self.intake).check_reader(HistoryPolicy.from_dict(given))
                self.policy = HistoryPolicy.from_dict(given | detection).to_dict()
            except MetadataError as problem:
                self.add_problem(problem)
        return cleaned

    def add_problem(self, problem: ProductError) -> None:
        """Show an error of the policy or intake at the field of its part: ``history_policy.time`` at time."""
        owner, _, part = problem.field.partition(".")
        if owner in ("history_policy", "intake") and part in self.fields:
            self.add_error(part, as_sentence(problem.message))
        else:
            super().add_problem(problem)
