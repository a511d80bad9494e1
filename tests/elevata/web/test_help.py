"""Help texts of every field in every form."""

import importlib
import pkgutil
from collections.abc import Iterable

import pytest
from django import forms

import architecture
import elevata
import loader
import metadata

PACKAGES = (metadata, architecture, loader, elevata)
# Packages without forms, or that need Spark.
EXCLUDED = ("loader.engine", ".migrations", ".management", "elevata.bootstrap", "elevata.wsgi", "elevata.celery")


def own_forms() -> list[type[forms.Form]]:
    """Return every form class of the product."""
    for package in PACKAGES:
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not any(part in module.name for part in EXCLUDED):
                importlib.import_module(module.name)
    names = {package.__name__ for package in PACKAGES}
    known = {form for form in _below(forms.BaseForm) if form.__module__.partition(".")[0] in names}
    return sorted(known, key=lambda form: (form.__module__, form.__qualname__))


def _below(kind: type) -> Iterable[type]:
    for subclass in kind.__subclasses__():
        yield subclass
        yield from _below(subclass)


def shown_fields(kind: type[forms.Form]) -> dict[str, forms.Field]:
    """Return the visible fields of a form; some forms have them only as instances."""
    try:
        fields = kind().fields
    except TypeError:  # the form requires its row
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
