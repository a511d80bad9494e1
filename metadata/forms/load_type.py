"""Form of the load type and history of a new source dataset."""

from collections.abc import Mapping
from typing import Any

from django import forms

from elevata.core.errors import MetadataError, ProductError, as_sentence
from elevata.web.forms import ProductForm, set_choices
from metadata.domain.history.history_policy import APPEND, BATCH_FILES, LOAD_TIME, SNAPSHOT, TIME_TYPES, HistoryPolicy
from metadata.domain.history.history_policy_labels import CHOICES, Chosen, not_applying
from metadata.domain.history.load_types import LoadType, load_type
from metadata.domain.types import STRING, DataType
from metadata.forms.base import Group, shown_group

# Delivery types that need no business key.
_WITHOUT_KEY = (SNAPSHOT, APPEND)


class LoadTypeForm(ProductForm):
    """Meaning of a delivery, and whether its versions are kept; both together are the load type.

    ``columns`` are the types of the columns outside the business key, by name; ``keyed`` is false without a key, and
    then no history and only some delivery types are possible. ``policy`` is the policy once the form is valid.
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
    historize = forms.BooleanField(
        required=False,
        initial=True,
        label="Keep history",
        help_text="A history table beside rawcore keeps every version of every row.",
    )

    def __init__(self, *args: Any, columns: Mapping[str, DataType], keyed: bool, **options: Any) -> None:
        super().__init__(*args, **options)
        self.policy: dict[str, Any] = {}
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
        self.fields["input"].widget.attrs["class"] = "form-check-input"

    def group(self) -> Group:
        """Return the delivery types, each with its sentence."""
        return shown_group(self, "Delivery type", ("input",), {})

    @property
    def load_type(self) -> LoadType:
        """Return the load type that a valid form chooses."""
        return load_type(HistoryPolicy.from_dict(self.policy), historize=self.cleaned_data["historize"])

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if not self.errors:
            unused = not_applying(Chosen(cleaned["input"], time=cleaned["time"], historize=cleaned["historize"]))
            cleaned["historize"] = cleaned["historize"] and "historize" not in unused
            given = {name: cleaned[name] for name in ("input", "time", "op") if cleaned[name] and name not in unused}
            try:
                self.policy = HistoryPolicy.from_dict(given).to_dict()
            except MetadataError as problem:
                self.add_problem(problem)
        return cleaned

    def add_problem(self, problem: ProductError) -> None:
        """Show an error of the policy at the field of its part: ``history_policy.time`` at time."""
        part = problem.field.partition("history_policy.")[2]
        if part in self.fields:
            self.add_error(part, as_sentence(problem.message))
        else:
            super().add_problem(problem)
