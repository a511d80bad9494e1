"""Grouped form fields with described options, and fields that do not apply."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundField
from django.utils.safestring import SafeString

from elevata.core.errors import ProductError
from elevata.web.forms import ProductForm
from metadata.domain.history.history_policy_labels import CHOICES
from metadata.domain.quoted_names import ASK
from metadata.models.base import Classified


@dataclass(frozen=True)
class Option:
    """Choice with its checkbox or radio button, and its help text."""

    tag: SafeString
    id: str
    label: str
    help_text: str


@dataclass(frozen=True)
class ShownField:
    """Field on a page. ``options`` are its choices with help texts; ``unused`` is the reason why it does not apply.

    ``before`` is the hidden initial value, which is sent even if the field is not.
    """

    bound: BoundField
    before: SafeString
    options: tuple[Option, ...]
    unused: str = ""

    @property
    def many(self) -> bool:
        """Return True if any number of the options may be chosen."""
        return isinstance(self.bound.field, forms.MultipleChoiceField)

    @property
    def widget(self) -> SafeString:
        return self.bound.as_widget()


@dataclass(frozen=True)
class Group:
    title: str
    fields: tuple[ShownField, ...]


def shown_group(form: forms.Form, title: str, names: Iterable[str], unused: Mapping[str, str]) -> Group:
    return Group(title, tuple(_shown(form[name], unused.get(name, "")) for name in names))


def _shown(bound: BoundField, unused: str) -> ShownField:
    before = bound.as_hidden(only_initial=True) if bound.field.show_hidden_initial else SafeString()
    drawn = isinstance(bound.field.widget, forms.RadioSelect | forms.CheckboxSelectMultiple)
    help_texts = {item.value: item.explanation for item in CHOICES.get(bound.name, ())}
    options = (
        Option(item.tag(), item.id_for_label, str(item.choice_label), help_texts.get(str(item.data["value"]), ""))
        for item in (bound.subwidgets if drawn else ())
    )
    return ShownField(bound, before, tuple(options), unused)


def sensitivity_field() -> forms.ChoiceField:
    """Return the field for a sensitivity."""
    return forms.ChoiceField(
        required=False,
        choices=[("", "not classified"), *Classified.Sensitivity.choices],
        help_text="Confidential and restricted values are masked for users without the steward role.",
    )


if TYPE_CHECKING:
    _Mixed = forms.Form
else:
    _Mixed = object


class DescribedApart(_Mixed):
    """Fields of a form in two groups: those that a row needs, and its description."""

    _DESCRIBED = ("description", "owner", "tags")

    @property
    def needed_fields(self) -> list[BoundField]:
        return [field for field in self.visible_fields() if field.name not in self._DESCRIBED]

    @property
    def described_fields(self) -> list[BoundField]:
        return [self[name] for name in self._DESCRIBED]

    @property
    def has_described(self) -> bool:
        """Return True if the description has text, or an error."""
        return any(field.value() or field.errors for field in self.described_fields)


class QuotedName(ProductForm):
    """Confirmation of a name that most engines need quotes for; shown after the environment asked about it."""

    quoted_name = forms.BooleanField(
        required=False, label="Keep this name", help_text="Most engines need quotes for it, in every query."
    )

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not self.data.get("quoted_name"):
            self.fields["quoted_name"].widget = forms.HiddenInput()

    def add_problem(self, problem: ProductError) -> None:
        super().add_problem(problem)
        if problem.code == "quoted_name" and settings.QUOTED_NAMES == ASK:
            self.fields["quoted_name"].widget = forms.CheckboxInput(attrs={"class": "form-check-input"})
