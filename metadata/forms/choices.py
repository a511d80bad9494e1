"""Fields whose choices are told one by one, in groups, and those that have no say beside others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django import forms
from django.forms.boundfield import BoundField
from django.utils.safestring import SafeString

from metadata.domain.policy_choices import CHOICES


@dataclass(frozen=True)
class Option:
    """A choice with its box or button, and what it does."""

    tag: SafeString
    id: str
    label: str
    said: str


@dataclass(frozen=True)
class ShownField:
    """A field of a page: ``options`` where they are told one by one; ``unused`` says why it has no say.

    ``before`` is what the field held when the page was made. It is sent even where the field is not.
    """

    bound: BoundField
    before: SafeString
    options: tuple[Option, ...]
    unused: str = ""

    @property
    def many(self) -> bool:
        """True if any number of the options may be chosen."""
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
    told = isinstance(bound.field.widget, forms.RadioSelect | forms.CheckboxSelectMultiple)
    said = {one.value: one.said for one in CHOICES.get(bound.name, ())}
    options = (
        Option(one.tag(), one.id_for_label, str(one.choice_label), said.get(str(one.data["value"]), ""))
        for one in (bound.subwidgets if told else ())
    )
    return ShownField(bound, before, tuple(options), unused)
