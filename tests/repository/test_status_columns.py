"""Tests that each status column has a CHECK constraint of its values in the database."""

from collections.abc import Iterator

import pytest
from django.apps import apps
from django.db import models

OURS = ("elevata.", "metadata.", "architecture.", "loader.")
NAMES = {"status", "outcome", "decision", "purpose"}


def status_columns() -> Iterator[tuple[type[models.Model], str]]:
    for model in apps.get_models():
        if f"{model.__module__}.".startswith(OURS):
            for field in model._meta.local_concrete_fields:
                if field.name in NAMES and isinstance(field, models.CharField):
                    yield model, field.name


def checked(model: type[models.Model]) -> set[str]:
    """Return the lookups that a model's CHECK constraints consist of."""
    constraints = (check for check in model._meta.constraints if isinstance(check, models.CheckConstraint))
    return {name for check in constraints for name in lookups(check.condition)}


def lookups(condition: models.Q) -> Iterator[str]:
    for child in condition.children:
        if isinstance(child, models.Q):
            yield from lookups(child)
        else:
            yield child[0]


@pytest.mark.parametrize(("model", "name"), list(status_columns()), ids=lambda value: getattr(value, "__name__", value))
def test_a_status_column_has_a_check(model: type[models.Model], name: str):
    assert f"{name}__in" in checked(model)


def test_status_columns_of_the_main_models_are_found():
    assert {"Job", "DatasetRun", "Schedule", "ExecutionOperation", "ChangeReport"} <= {
        model.__name__ for model, _ in status_columns()
    }
