"""Conflict page: two users edited the same row.

The second user gets status 409 with a page, or for htmx with its fragment, and accepts the saved values, overwrites
them, or continues editing. "Continue editing" sends the form with ``again``: the view then shows it without saving.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from elevata.audit.models import Versioned
from elevata.audit.selectors import since_version
from elevata.web.forms import EditForm
from elevata.web.requests import htmx_of

AGAIN = "again"
STATUS = 409


@dataclass(frozen=True)
class FieldSides:
    """Values of one field as text: initial, saved, and typed by the user.

    ``user_changed`` is True if the user changed the field, ``other_changed`` if another user did.
    """

    label: str
    initial: str
    saved: str
    typed: str
    user_changed: bool
    other_changed: bool

    @property
    def is_conflict(self) -> bool:
        return self.user_changed and self.other_changed and self.saved != self.typed


def continues_editing(request: HttpRequest) -> bool:
    """Return True if the user continues editing after a conflict, so that nothing is saved yet."""
    return AGAIN in request.POST


def conflict(
    request: HttpRequest,
    *,
    form: EditForm,
    now: EditForm,
    row: Versioned,
    back: str,
    action: str = "",
    verb: str = "Overwrite with mine",
) -> HttpResponse:
    """Return the response to StaleVersion.

    ``form`` is the valid form that was sent, ``now`` the same form filled with the saved values of ``row``. ``back`` is
    the address for a user who accepts the saved values, ``action`` the address that receives the form again (by default
    the requested one), and ``verb`` the label of the button that overwrites.
    """
    context = {
        "row": row,
        "fields": [field for field in sides(form, now) if field.user_changed or field.other_changed],
        "changes": since_version(row, form.edited_version),
        "resend": list(_fields_to_resend(form, now)),
        "may_go_on": bool(form.seen),
        "action": action or request.path,
        "back": back,
        "verb": verb,
    }
    is_part = bool(htmx_of(request)) and not htmx_of(request).boosted
    template = "parts/conflict.html" if is_part else "metadata/conflict_page.html"
    return render(request, template, context, status=STATUS)


def sides(form: EditForm, now: EditForm) -> list[FieldSides]:
    """Return the fields that come from the row (``form.seen``), with initial, saved and typed value."""
    rows = []
    for name in form.seen:
        field, initial = form.fields[name], _initial(form, name)
        saved, typed = now.initial.get(name), form.cleaned_data.get(name)
        user_changed = name in form.changed_data
        was, now_, own = (as_text(field, value) for value in (initial, saved, typed if user_changed else saved))
        rows.append(
            FieldSides(str(form[name].label), was, now_, own, user_changed=user_changed, other_changed=was != now_)
        )
    return rows


def as_text(field: forms.Field, value: Any) -> str:
    """Return a field's value as text for users."""
    if isinstance(field, forms.BooleanField):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(_label(field, item) for item in value)
    return "" if value is None else _label(field, value)


def _label(field: forms.Field, value: Any) -> str:
    for choice, label in getattr(field, "choices", ()):
        options = label if isinstance(label, list | tuple) else [(choice, label)]
        for option, text in options:
            if str(option) == str(value):
                return str(text)
    return str(value)


def _initial(form: EditForm, name: str) -> Any:
    """Return the field's initial value from the sent form."""
    bound = form[name]
    private: Any = form  # Django reads initial values in the same way
    value = private._widget_data_value(bound.field.hidden_widget(), bound.html_initial_name)
    try:
        return bound.field.to_python(value)
    except forms.ValidationError:
        return value


def _fields_to_resend(form: EditForm, now: EditForm) -> Iterator[tuple[str, str]]:
    """Yield the fields to send again: the user's value of changed fields, else the saved value."""
    mine = {name: value for name, value in form.cleaned_data.items() if name != "version"}
    typed = {name: value for name, value in mine.items() if name not in form.seen or name in form.changed_data}
    for name, values in now.as_posted(typed).lists():
        yield from ((name, value) for value in values)
