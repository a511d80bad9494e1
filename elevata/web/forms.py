"""Forms of pages, and forms of stored rows.

The form of a row sends, for each field, also the value that it was opened with. Only changed fields go to the service,
so that concurrent changes of other fields are not overwritten.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, TypeVar

from django import forms
from django.core.exceptions import ValidationError
from django.http import QueryDict

from elevata.audit.models import Versioned
from elevata.core.errors import MetadataError, ProductError, StaleVersion, as_sentence
from elevata.core.lengths import MAX_TAG, MAX_TAGS, MAX_TEXT

T = TypeVar("T")

# Attributes of a widget for names and code.
MONO = {"class": "mono", "autocomplete": "off", "spellcheck": "false"}

_CLASSES: tuple[tuple[type[forms.Widget], str], ...] = (
    (forms.CheckboxInput, "form-check-input"),
    (forms.Select, "form-select"),
    (forms.Widget, "form-control"),
)


class ProductForm(forms.Form):
    """Form with the product's CSS classes on its widgets.

    ``elsewhere`` maps field names or error codes of services to the fields of the form that show the errors.
    """

    elsewhere: Mapping[str, str] = {}
    use_required_attribute = False

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for field in self.fields.values():
            if not field.widget.is_hidden:
                css_class = next(css_class for kind, css_class in _CLASSES if isinstance(field.widget, kind))
                field.widget.attrs["class"] = f"{css_class} {field.widget.attrs.get('class', '')}".strip()
                if field.required:
                    field.widget.attrs["aria-required"] = "true"

    def given(self) -> dict[str, Any]:
        """Return the arguments of the service that creates a row."""
        return dict(self.cleaned_data)

    def add_problem(self, problem: ProductError) -> None:
        """Add a service's error to its field, or to the form if it has no such field."""
        name = problem.field.partition(".")[0]
        place = self.elsewhere.get(problem.field) or self.elsewhere.get(problem.code, name)
        if place in self.fields:
            self.add_error(place, error_text(problem, problem.message))
        else:
            self.add_error(None, error_text(problem, problem.one_line()))

    def attempt(self, save: Callable[[], T]) -> T | None:
        """Return the result of ``save``; None if the form or the service refused the data, with errors on the form.

        StaleVersion passes through: the view shows the conflict page (``elevata.web.conflict``).
        """
        result = None
        if self.is_valid():
            try:
                result = save()
            except StaleVersion:
                raise
            except ProductError as error:
                self.add_problem(error)
        first = next((name for name in self.fields if name in self.errors), None)
        if first is not None:
            self.fields[first].widget.attrs["autofocus"] = True
        return result


def error_text(error: ProductError, text: str) -> str:
    """Return an error as sentences: of a MetadataError ``text``, of any other its message and hint."""
    if isinstance(error, MetadataError):
        return as_sentence(text)
    parts, file = (error.message, error.hint), getattr(error, "file", "")
    # The name of a file keeps its case.
    return " ".join(as_sentence(part, file) for part in parts if part)


class EditForm(ProductForm):
    """Form of a stored row. ``seen`` names the fields whose values come from the row."""

    seen: Iterable[str] = ()

    version = forms.IntegerField(
        widget=forms.HiddenInput, error_messages={"required": "The form is incomplete. Reload the page."}
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name in self.seen:
            self.fields[name].show_hidden_initial = True

    @classmethod
    def of(cls, row: Versioned, **options: Any) -> Self:
        """Return the form, filled with the row's current values."""
        return cls(initial={**cls.values(row), "version": row.version}, **options)

    @classmethod
    def values(cls, row: Any) -> dict[str, Any]:
        """Return the fields' values for a row."""
        return {name: getattr(row, name) for name in cls.seen}

    @property
    def edited_version(self) -> int:
        """Return the version of the row that the user edited."""
        return self.cleaned_data["version"]

    def as_posted(self, typed: Mapping[str, Any], seen: Mapping[str, Any] | None = None) -> QueryDict:
        """Return the form as a browser would send it: ``typed`` overrides values, ``seen`` initial values."""
        initial = {**self.initial, **(seen or {})}
        posted = QueryDict(mutable=True)
        for name, field in self.fields.items():
            posted.setlist(self[name].html_name, as_browser_values(field, typed.get(name, initial.get(name))))
            if name in self.seen:
                posted.setlist(self[name].html_initial_name, as_browser_values(field, initial.get(name)))
        return posted

    def changes(self) -> dict[str, Any]:
        """Return the fields that the user changed, with their new values."""
        return {name: self.cleaned_data[name] for name in self.seen if name in self.changed_data}


def as_browser_values(field: forms.Field, value: Any) -> list[str]:
    """Return a field's value as a browser sends it: a list of texts."""
    prepared = field.prepare_value(value)
    if prepared is None:
        return []
    return [str(item) for item in prepared] if isinstance(prepared, list | tuple) else [str(prepared)]


def set_choices(form: forms.Form, name: str, choices: Any) -> None:
    """Set the choices of a form's field."""
    field = form.fields[name]
    assert isinstance(field, forms.ChoiceField)
    field.choices = choices


class TextField(forms.CharField):
    """Text of several lines, stored with LF line ends; browsers send CR LF."""

    widget = forms.Textarea

    def __init__(self, *, max_length: int = MAX_TEXT, **options: Any) -> None:
        super().__init__(max_length=max_length, **options)

    def to_python(self, value: Any) -> Any:
        """Return the text; subclasses have other values."""
        return (super().to_python(value) or "").replace("\r\n", "\n")

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


class TagsField(forms.CharField):
    """Field of comma-separated words, whose value is a list without duplicates."""

    def to_python(self, value: Any) -> Any:
        words = value if isinstance(value, list) else (value or "").replace("\n", ",").split(",")
        return list(dict.fromkeys(word.strip() for word in words if word.strip()))

    def validate(self, value: list[str]) -> None:
        super().validate(value)
        if len(value) > MAX_TAGS:
            raise ValidationError(f"Enter at most {MAX_TAGS} tags, not {len(value)}.")
        too_long = next((tag for tag in value if len(tag) > MAX_TAG), None)
        if too_long is not None:
            raise ValidationError(f"{too_long[:20]}… is longer than {MAX_TAG} characters.")

    def prepare_value(self, value: Any) -> str:
        return ", ".join(value) if isinstance(value, list) else value

    def has_changed(self, initial: Any, data: Any) -> bool:
        return self.to_python(initial) != self.to_python(data)


class DescribedFields(forms.Form):
    """Description, owner and tags of an object."""

    description = TextField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="Shown on pages and in search results.",
    )
    owner = forms.CharField(required=False, max_length=200, help_text="Responsible user or team.")
    tags = TagsField(required=False, help_text="Words separated by commas.")


class ReasonField(forms.CharField):
    """Reason of a change, for the change log."""

    def __init__(self, **options: Any) -> None:
        required = options.setdefault("required", True)
        options.setdefault("help_text", f"Recorded in the change log. {'Required' if required else 'Optional'}.")
        missing = {"required": "Enter a reason. It is recorded in the change log."}
        super().__init__(max_length=500, error_messages=missing, **options)
