"""Help where it is needed: every field says what it is for, in every form that people see."""

import importlib
import pkgutil
from collections.abc import Iterable

import pytest
from django import forms

import architecture
import elevata
import loader
import metadata

ROOMS = (metadata, architecture, loader, elevata)
# Spark is the runner's, commands have no forms.
ELSEWHERE = ("loader.engine", ".migrations", ".management", "elevata.bootstrap", "elevata.wsgi", "elevata.celery")


def own_forms() -> list[type[forms.Form]]:
    """Every form class that the product has."""
    for room in ROOMS:
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not any(part in module.name for part in ELSEWHERE):
                importlib.import_module(module.name)
    names = {room.__name__ for room in ROOMS}
    known = {form for form in _below(forms.BaseForm) if form.__module__.partition(".")[0] in names}
    return sorted(known, key=lambda form: (form.__module__, form.__qualname__))


def _below(kind: type) -> Iterable[type]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)


def shown_fields(kind: type[forms.Form]) -> dict[str, forms.Field]:
    """A form's visible fields; those of a policy are only there once it is made."""
    try:
        fields = kind().fields
    except TypeError:  # it wants to know the row it is about
        fields = kind.base_fields
    return {name: field for name, field in fields.items() if not field.widget.is_hidden}


@pytest.mark.parametrize("kind", own_forms(), ids=lambda form: f"{form.__module__}.{form.__qualname__}")
@pytest.mark.django_db
def test_every_field_has_a_help_text(kind):
    silent = [name for name, field in shown_fields(kind).items() if not str(field.help_text).strip()]
    assert silent == []


def test_form_search_finds_the_forms_of_the_product():
    names = {form.__name__ for form in own_forms()}
    assert {"ColumnForm", "NewDatasetForm", "ScopeForm", "PolicyForm", "StartLoadForm", "ScheduleForm"} <= names
