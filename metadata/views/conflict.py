"""Two people edited one row: the second is told, sees the other's values beside their own, and loses nothing.

For any ``EditForm``. The answer is 409, a page of its own or, for htmx, the part alone. From there a
person keeps what the other saved, saves their own over it (naming the version they have seen by now),
or goes on editing: then the view finds ``again`` in what is posted and shows the form unsaved.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from metadata.change_log import since_version
from metadata.forms.base import EditForm
from metadata.models import Versioned

AGAIN = "again"
STATUS = 409


@dataclass(frozen=True)
class FieldSides:
    """One field as it was seen, as it is saved now, and as it was typed, in words."""

    label: str
    was: str
    theirs: str
    mine: str
    touched: bool
    moved: bool

    @property
    def both(self) -> bool:
        return self.touched and self.moved and self.theirs != self.mine


def goes_on(request: HttpRequest) -> bool:
    """Return whether a user came from a conflict page to edit further: nothing is saved yet."""
    return AGAIN in request.POST


def conflict(
    request: HttpRequest,
    *,
    form: EditForm,
    now: EditForm,
    row: Versioned,
    back: str,
    action: str = "",
    verb: str = "Save mine over it",
) -> HttpResponse:
    """The answer to StaleVersion.

    ``form`` is what was typed, valid; ``now`` the same form of the row as it is now (``row``). ``back``
    is where somebody goes who keeps the other's; ``action`` takes the form again (left out: the address
    that was asked); ``verb`` says what saving means here.
    """
    context = {
        "row": row,
        "fields": [one for one in sides(form, now) if one.touched or one.moved],
        "changes": since_version(row, form.over),
        "resend": list(_resent(form, now)),
        "may_go_on": bool(form.seen),
        "action": action or request.path,
        "back": back,
        "verb": verb,
    }
    part = bool(request.htmx) and not request.htmx.boosted
    template = "parts/conflict.html" if part else "metadata/conflict_page.html"
    return render(request, template, context, status=STATUS)


def sides(form: EditForm, now: EditForm) -> list[FieldSides]:
    """Every field of the row from three sides: seen, theirs, mine."""
    found = []
    for name in form.seen:
        field, was = form.fields[name], _was(form, name)
        theirs, mine = now.initial.get(name), form.cleaned_data.get(name)
        touched = name in form.changed_data
        words = [in_words(field, value) for value in (was, theirs, mine if touched else theirs)]
        found.append(FieldSides(form[name].label, *words, touched=touched, moved=words[0] != words[1]))
    return found


def in_words(field: forms.Field, value: Any) -> str:
    """A field's value as people read it."""
    if isinstance(field, forms.BooleanField):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_choice(field, one) for one in value)
    return "" if value is None else _choice(field, value)


def _choice(field: forms.Field, value: Any) -> str:
    for known, label in getattr(field, "choices", ()):
        options = label if isinstance(label, list | tuple) else [(known, label)]
        for option, said in options:
            if str(option) == str(value):
                return str(said)
    return str(value)


def _was(form: EditForm, name: str) -> Any:
    """Return the field's value when the page was made, as the browser sent it back."""
    bound = form[name]
    sent = form._widget_data_value(bound.field.hidden_widget(), bound.html_initial_name)
    try:
        return bound.field.to_python(sent)
    except forms.ValidationError:
        return sent


def _resent(form: EditForm, now: EditForm) -> Iterator[tuple[str, str]]:
    """Everything to post again: one's own where one typed, theirs where not; theirs is what is seen by now."""
    mine = {name: value for name, value in form.cleaned_data.items() if name != "version"}
    typed = {name: value for name, value in mine.items() if name not in form.seen or name in form.changed_data}
    for name, values in now.as_posted(typed).lists():
        yield from ((name, value) for value in values)
