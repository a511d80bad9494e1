"""A form over a row that two people may edit: what was seen, what was typed, and over which version.

Every field is sent with what it held when the page was made, so that only what a person changed goes
to the service: what somebody else did to another field in the meantime is not undone by it.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from django import forms
from django.http import QueryDict

from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from metadata.models import Versioned
from metadata.models.base import Classified

T = TypeVar("T")

_CLASSES: tuple[tuple[type[forms.Widget], str], ...] = (
    (forms.CheckboxInput, "form-check-input"),
    (forms.Select, "form-select"),
    (forms.Widget, "form-control"),
)


class MetadataForm(forms.Form):
    """Fields in the product's look. ``elsewhere`` names the field that a service's field stands in here."""

    elsewhere: Mapping[str, str] = {}
    use_required_attribute = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            if not field.widget.is_hidden:
                look = next(look for kind, look in _CLASSES if isinstance(field.widget, kind))
                field.widget.attrs["class"] = f"{look} {field.widget.attrs.get('class', '')}".strip()
                if field.required:
                    field.widget.attrs["aria-required"] = "true"

    def add_problem(self, problem: MetadataError) -> None:
        """Put a service's refusal by the field it is about; what is about no field here stands on top."""
        place = self.elsewhere.get(problem.field, problem.field.partition(".")[0])
        if place in self.fields:
            self.add_error(place, as_sentence(problem.message))
        else:
            self.add_error(None, as_sentence(problem.one_line()))

    def attempt(self, save: Callable[[], T]) -> T | None:
        """Return the result of ``save``; None if the form or the service refused it: the errors are then in the form.

        StaleVersion passes: it is answered by showing both people's values (``metadata.views.conflict``).
        """
        made = None
        if self.is_valid():
            try:
                made = save()
            except StaleVersion:
                raise
            except MetadataError as problem:
                self.add_problem(problem)
        first = next((name for name in self.fields if name in self.errors), None)
        if first is not None:
            self.fields[first].widget.attrs["autofocus"] = True
        return made


class EditForm(MetadataForm):
    """A form over a stored row. ``seen``: its fields and what they held come from the row itself."""

    seen: Iterable[str] = ()

    version = forms.IntegerField(
        widget=forms.HiddenInput, error_messages={"required": "The version is missing: load the page again."}
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in self.seen:
            self.fields[name].show_hidden_initial = True

    @classmethod
    def of(cls, row: Versioned, **options: Any) -> Self:
        """The form filled with a row as it is now."""
        return cls(initial={**cls.values(row), "version": row.version}, **options)

    @classmethod
    def values(cls, row: Versioned) -> dict[str, Any]:
        """Return the fields' values for a row."""
        return {name: getattr(row, name) for name in cls.seen}

    @property
    def over(self) -> int:
        """The version that was seen when this was typed."""
        return self.cleaned_data["version"]

    def as_posted(self, typed: Mapping[str, Any], seen: Mapping[str, Any] | None = None) -> QueryDict:
        """Return the data that a browser sends for a row's form, with these fields replaced.

        ``seen`` is what fields held when the page was made, where that is not what the row holds now.
        """
        held = {**self.initial, **(seen or {})}
        posted = QueryDict(mutable=True)
        for name, field in self.fields.items():
            posted.setlist(self[name].html_name, sent(field, typed.get(name, held.get(name))))
            if name in self.seen:
                posted.setlist(self[name].html_initial_name, sent(field, held.get(name)))
        return posted

    def changes(self) -> dict[str, Any]:
        """The fields of the row that the person changed, with their new values."""
        return {name: self.cleaned_data[name] for name in self.seen if name in self.changed_data}


def sent(field: forms.Field, value: Any) -> list[str]:
    """A field's value as a form sends it: some texts under one name."""
    prepared = field.prepare_value(value)
    if prepared is None:
        return []
    return [str(one) for one in prepared] if isinstance(prepared, list | tuple) else [str(prepared)]


class TextField(forms.CharField):
    """Text of several lines; a browser sends their ends as CR LF, we keep LF."""

    widget = forms.Textarea

    def to_python(self, value: Any) -> str:
        return super().to_python(value).replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


class TagsField(forms.CharField):
    """Words with commas between them, as a list; none twice."""

    def to_python(self, value: Any) -> list[str]:
        words = value if isinstance(value, list) else (value or "").replace("\n", ",").split(",")
        return list(dict.fromkeys(word.strip() for word in words if word.strip()))

    def prepare_value(self, value: Any) -> str:
        return ", ".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


class DescribedFields(forms.Form):
    """Description fields of an object."""

    description = TextField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What it is, for those who meet it first on a page or in a search.",
    )
    owner = forms.CharField(required=False, max_length=200, help_text="Who answers for it: a person or a team.")
    tags = TagsField(required=False, help_text="Words, with commas between them.")


def sensitivity_field() -> forms.ChoiceField:
    """Return the field for a sensitivity."""
    return forms.ChoiceField(
        required=False,
        choices=[("", "not classified"), *Classified.Sensitivity.choices],
        help_text="How widely it may be shown. Pages, files and REST tell it; it holds nothing back by itself.",
    )


class ReasonField(forms.CharField):
    """Reason of a change, for the change log."""

    def __init__(self, **options: Any) -> None:
        required = options.setdefault("required", True)
        options.setdefault("help_text", "It stays in the change log." + ("" if required else " You may leave it out."))
        missing = {"required": "Say why: it stays in the change log."}
        super().__init__(max_length=500, error_messages=missing, **options)
