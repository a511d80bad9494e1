"""Form of a dataset's history policy."""

from collections.abc import Iterable
from typing import Any

from django import forms

from elevata.core.errors import MetadataError, ProductError, as_sentence
from elevata.web.forms import MONO, EditForm, set_choices
from metadata.domain.history.history_policy import LOAD_TIME, NONE, STATES, TIME_TYPES, HistoryPolicy
from metadata.domain.history.history_policy_labels import CHOICES, Chosen, described_policy, not_applying
from metadata.domain.types import BIGINT, BOOLEAN, INTEGER, STRING, DataType
from metadata.forms.base import Group, shown_group
from metadata.models import TargetColumn, TargetDataset
from metadata.services.rows.checks import input_column_names

FILES_START = "_fivetran_start"
_LABEL = "label_"
_PLAIN = ("input", "op", "delete_flag", "absent_keys", "delete_detection", "time", "late", "late_horizon", "deletes")
_TRACKED = ("track", "untracked")
_RANKED = ("rank", "rank_by")
_MARKERS = ("null_string", "unmodified_string")
_STORED = ("open_end", "profile", "null_string", "unmodified_string", "views")
_GROUPS = (
    (
        "What comes",
        ("input", "historize", "op", "delete_flag", "absent_keys", "delete_detection", *_RANKED, *_MARKERS),
    ),
    ("Time", ("time", "late", "late_horizon")),
    ("What is recorded", ("deletes", "track", "untracked")),
    ("Storage in the table", ("profile", "open_end", *(_LABEL + word for word in STATES))),
    ("What is published", ("views",)),
)


def _choice(name: str, **options: Any) -> forms.ChoiceField:
    """Return the form field for the choices of a policy field; the first is the default."""
    choices = [(choice.value, choice.label) for choice in CHOICES[name]]
    return forms.ChoiceField(choices=choices, required=False, widget=forms.RadioSelect, **options)


def _text(**options: Any) -> forms.CharField:
    """Return a text field that keeps blanks unchanged."""
    return forms.CharField(required=False, strip=False, max_length=200, widget=forms.TextInput(attrs=MONO), **options)


def _label(word: str, when: str) -> forms.CharField:
    return _text(label=f"Word for {word}", help_text=when)


class PolicyForm(EditForm):
    """Form of a history policy, or of no history. ``policy`` is the policy, once the form is valid.

    Fields without effect for the other choices are not sent by a browser, and are left out of the policy.
    """

    seen = ("historize", *_PLAIN, *_TRACKED, *_RANKED, *_STORED, *(_LABEL + word for word in STATES))
    field_order = (*seen, "version")

    historize = forms.BooleanField(
        required=False,
        label="Keep history",
        help_text="Every version of a row is kept in a table beside it. Switched off, the history is retired and "
        "keeps what it has.",
    )
    input = _choice("input", label="Delivery type", help_text="Meaning of a row in a delivery, and of an absent row.")
    op = forms.ChoiceField(required=False, label="Operation", help_text="Column with the operation: I, U or D.")
    delete_flag = forms.ChoiceField(
        required=False, label="Delete flag", help_text="Column of type boolean: a row in which it is true is a delete."
    )
    absent_keys = _choice(
        "absent_keys", label="Absent keys", help_text="Meaning of a key that is absent from a delivery."
    )
    delete_detection = _choice(
        "delete_detection", label="Delete detection", help_text="Evidence that a key was deleted in the source."
    )
    time = forms.ChoiceField(
        required=False, label="Versions are dated by", help_text="The load time, or a column with the time of each row."
    )
    late = _choice("late", label="Late rows", help_text="Handling of rows older than the newest version of their key.")
    late_horizon = forms.IntegerField(
        required=False,
        min_value=1,
        label="Late row window",
        widget=forms.NumberInput(attrs={"inputmode": "numeric", "step": "1"}),
        help_text="In days. Older rows are rejected and counted. Empty means no limit.",
        error_messages={"invalid": "This is a whole number of days."},
    )
    deletes = _choice("deletes", label="Deletes", help_text="Handling of deleted keys.")
    track = forms.MultipleChoiceField(
        required=False,
        label="Tracked columns",
        widget=forms.CheckboxSelectMultiple,
        help_text="A change in these columns opens a version. None selected means all columns.",
    )
    rank = forms.CharField(
        required=False,
        max_length=2000,
        label="Sources, best first",
        widget=forms.TextInput(attrs={**MONO, "placeholder": "crm.customer, erp.customer"}),
        help_text="Sources of this dataset, where several have the same key. Empty: rows of one key that differ refuse "
        "the load.",
    )
    rank_by = _choice("rank_by", label="Best source", help_text="What the best source decides.")
    untracked = _choice("untracked", label="The other columns", help_text="Handling of changes in untracked columns.")
    open_end = forms.CharField(
        required=False,
        max_length=40,
        label="End of an open version",
        widget=forms.TextInput(attrs={**MONO, "placeholder": "9999-12-31"}),
        help_text="A date from the year 2200 on. Empty means NULL.",
    )
    profile = _choice("profile", label="Names of its columns", help_text="Names of the history columns.")
    null_string = _text(label="Text for NULL", help_text="Text that means NULL in batch files.")
    unmodified_string = _text(label="Unchanged text", help_text="Text in an update file that keeps the previous value.")
    label_new = _label("new", "A version that begins a key. Empty: new.")
    label_changed = _label("changed", "A version that follows another, or ended by a change. Empty: changed.")
    label_deleted = _label("deleted", "A version that ended by a delete, or a tombstone. Empty: deleted.")
    label_live = _label("live", "With tombstones, every version that is none. Empty: live.")
    views = forms.MultipleChoiceField(
        required=False,
        label="Views",
        choices=[(choice.value, choice.label) for choice in CHOICES["views"]],
        widget=forms.CheckboxSelectMultiple,
        help_text="Made anew by every load, which takes it some 20 to 120 ms each.",
    )

    def __init__(self, data: Any = None, *args: Any, dataset: TargetDataset, **options: Any) -> None:
        if data is not None:
            data = data.copy()
            for name, choices in CHOICES.items():
                if name != "views":
                    data.setdefault(name, choices[0].value)
            data.setdefault("time", LOAD_TIME)
        super().__init__(data, *args, **options)
        self._dataset = dataset
        self.columns = [column for column in dataset.columns.all() if column.active]
        self.types: dict[str, DataType] = {column.name: column.type for column in self.columns}
        self.business_key = [column.name for column in _in_key_order(self.columns)]
        self.policy: HistoryPolicy | None = None
        self._offer_columns(HistoryPolicy.from_dict(dataset.history_policy))
        for name in self.fields:
            widget = self.fields[name].widget
            if isinstance(widget, forms.RadioSelect | forms.CheckboxSelectMultiple):
                widget.attrs["class"] = "form-check-input"
            if isinstance(widget, forms.CheckboxSelectMultiple):
                widget.attrs["aria-describedby"] = f"id_{name}_helptext"

    @classmethod
    def values(cls, row: TargetDataset) -> dict[str, Any]:
        policy = HistoryPolicy.from_dict(row.history_policy)
        written, labels = policy.to_dict(), dict(policy.state_labels)
        by_input = {name: written.get(name, "") for name in ("deletes", "profile")}
        plain = {name: getattr(policy, name) for name in (*_PLAIN, *_TRACKED, *_STORED) if name not in by_input}
        lists: dict[str, Any] = {"track": list(policy.track or ()), "views": list(policy.views)}
        lists |= {"rank": ", ".join(policy.rank or ()), "rank_by": policy.rank_by}
        texts = {
            name: plain[name] or "" for name in ("op", "delete_flag", "open_end", "null_string", "unmodified_string")
        }
        named = {_LABEL + word: labels.get(word, "") for word in STATES}
        return {"historize": row.historize, **plain, **by_input, **lists, **texts, **named}

    def not_applying(self) -> dict[str, str]:
        """Return the fields that do not apply to the current choices, with the reason."""
        time = self["time"].value() or LOAD_TIME
        numbered = time in self.types and self.types[time].name in (BIGINT, INTEGER)
        chosen = Chosen(
            self["input"].value(),
            self["absent_keys"].value(),
            time,
            numbered,
            tracks=bool(self["track"].value()),
            ranks=bool(self["rank"].value()),
            flagged=bool(self["delete_flag"].value()),
            historize=bool(self["historize"].value()),
            detects=self["delete_detection"].value() != NONE,
        )
        unused = not_applying(chosen)
        labels = dict.fromkeys((_LABEL + word for word in STATES), unused.pop("state_labels", ""))
        return unused | {name: why for name, why in labels.items() if why}

    def groups(self) -> list[Group]:
        """Return the fields in groups, as the page shows them; fields without effect with the reason."""
        unused = self.not_applying()
        return [shown_group(self, title, names, unused) for title, names in _GROUPS]

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if any(name in self.errors for name in self.seen):
            return cleaned
        labels = {word: cleaned[_LABEL + word] for word in STATES}
        try:
            ranked = [name.strip() for name in cleaned["rank"].split(",") if name.strip()]
            policy = HistoryPolicy.from_dict(described_policy(cleaned | {"rank": ranked}, labels))
            policy.check_historize(cleaned["historize"])
            if policy.is_honoured(historize=cleaned["historize"]):
                self.check(policy)
            self.policy = policy
        except MetadataError as problem:
            self.add_problem(problem)
        return cleaned

    def check(self, policy: HistoryPolicy) -> None:
        """Raise MetadataError if the policy does not fit the dataset's columns."""
        delivered = input_column_names(self._dataset) if policy.delivered_only else ()
        policy.check_described(self.types, self.business_key, delivered)

    def add_problem(self, problem: ProductError) -> None:
        """Show an error at its field: ``history_policy.late`` at late, ``….state_labels.new`` at the label of new."""
        _, _, place = problem.field.partition("history_policy.")
        if place.startswith("state_labels"):
            place = _LABEL + (place.partition(".")[2] or STATES[0])
        if place in self.fields:
            self.add_error(place, as_sentence(problem.message))
        else:
            super().add_problem(problem)

    def changes(self) -> dict[str, Any]:
        touched = set(super().changes())
        changes = {"historize": self.cleaned_data["historize"]} if "historize" in touched else {}
        if touched - {"historize"}:
            assert self.policy is not None
            changes["history_policy"] = self.policy.to_dict()
        return changes

    def _offer_columns(self, stored: HistoryPolicy) -> None:
        """Set the columns to choose from, including the current choices."""
        dates = [c for c in self.columns if c.type.name in TIME_TYPES and c.name not in self.business_key]
        texts = [c for c in self.columns if c.type.name == STRING and c.name not in self.business_key]
        flags = [c for c in self.columns if c.type.name == BOOLEAN and c.name not in self.business_key]
        kept = [c for c in self.columns if c.role == TargetColumn.Role.ATTRIBUTE]
        delivered = self._delivered(STRING, BOOLEAN)
        files = (FILES_START, f"{FILES_START} (of the batch files)")
        times = [(LOAD_TIME, "the load"), *_offered(dates), files]
        operations = [("", "none"), *_offered(texts), *delivered[STRING]]
        deletes = [("", "none"), *_offered(flags), *delivered[BOOLEAN]]
        set_choices(self, "time", _with(times, [stored.time]))
        set_choices(self, "op", _with(operations, [stored.op] if stored.op else []))
        set_choices(self, "delete_flag", _with(deletes, [stored.delete_flag] if stored.delete_flag else []))
        set_choices(self, "track", _with(_offered(kept), stored.track or ()))

    def _delivered(self, *types: str) -> dict[str, list[tuple[str, str]]]:
        """Return the columns of the dataset's inputs that the dataset does not have, by type."""
        known = {name.lower() for name in self.types}
        by_type: dict[str, dict[str, str]] = {type_: {} for type_ in types}
        for item in self._dataset.inputs.select_related("source", "upstream"):
            for column in item.read_dataset.columns.filter(active=True, data_type__in=types):
                if column.name.lower() not in known:
                    by_type[column.data_type].setdefault(column.name, f"{column.name} (of its input)")
        return {type_: list(columns.items()) for type_, columns in by_type.items()}


def _in_key_order(columns: Iterable[TargetColumn]) -> list[TargetColumn]:
    key = [column for column in columns if column.role == TargetColumn.Role.BUSINESS_KEY]
    return sorted(key, key=lambda column: column.key_ordinal or 0)


def _offered(columns: Iterable[TargetColumn]) -> list[tuple[str, str]]:
    return [(column.name, f"{column.name} ({column.type})") for column in columns]


def _with(choices: list[tuple[str, str]], chosen: Iterable[str]) -> list[tuple[str, str]]:
    """Return the choices with the current value among them."""
    known = {value for value, _ in choices}
    return [*choices, *((value, f"{value} (not there any more)") for value in chosen if value not in known)]
