"""Places of metadata rows and permission to change them."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from django.conf import settings
from django.db import models

from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.core.errors import MetadataError
from metadata.models import (
    ColumnInput,
    DatasetCopy,
    DatasetInput,
    Exposure,
    QualityCheck,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)

# Path from each kind of row to its schema. Objects outside the warehouse have none: sources, and copies, which write to
# a system with its secret, need a role that is not limited to a place.
_SCHEMA: dict[type[models.Model], Callable[[Any], TargetSchema | None]] = {
    System: lambda row: None,
    SourceDataset: lambda row: None,
    SourceColumn: lambda row: None,
    TargetSchema: lambda row: row,
    TargetDataset: lambda row: row.schema,
    TargetColumn: lambda row: row.dataset.schema,
    DatasetInput: lambda row: row.dataset.schema,
    ColumnInput: lambda row: row.column.dataset.schema,
    QualityCheck: lambda row: row.dataset.schema,
    Exposure: lambda row: row.dataset.schema,
    DatasetCopy: lambda row: None,
    Reference: lambda row: row.child.schema,
    ReferencePair: lambda row: row.reference.child.schema,
}


def place_of(row: models.Model) -> Place:
    """Return the layer and schema of a row of metadata; an unlimited place if there is none."""
    schema = _SCHEMA[type(row)](row)
    return Place() if schema is None else Place(schemas=frozenset({(schema.name, schema.layer)}))


def here() -> Place:
    """Return the environment of this installation, to which loads, refreshes and schedules belong."""
    return Place(environment=settings.ENVIRONMENT)


def place_of_schemas(names: Iterable[str], environment: str) -> Place:
    """Return an environment with the schemas of these names.

    A schema that is not described has no layer: only a grant by its name covers it.
    """
    schemas = frozenset(names)
    layers = dict(TargetSchema.objects.filter(name__in=schemas).values_list("name", "layer"))
    return Place(environment, frozenset((name, layers.get(name, "")) for name in schemas))


def place_of_data(row: models.Model) -> Place:
    """Return the place of a row's data: the installation's environment, and the schema of a target dataset."""
    return replace(place_of(row), environment=settings.ENVIRONMENT)


def must_read_data(rows: Iterable[tuple[str, models.Model]], *, where: str = "") -> None:
    """Raise MetadataError ``not_permitted`` unless the actor may read the data of these rows, each with its name.

    The system and its workers are always allowed.
    """
    user = current_actor().user
    if user is None or may(user, Permission.READ_DATA):
        return
    for name, row in rows:
        if not may(user, Permission.READ_DATA, on=partial(place_of_data, row)):
            message = f"it reads {name}, and {user} may not read its data; ask for the viewer role there"
            raise MetadataError("not_permitted", message, where=where)


def may_change(user: Any, row: models.Model) -> bool:
    """Return True if the user may change this row of metadata."""
    return may(user, Permission.CHANGE_METADATA, on=lambda: place_of(row))


def must_be_changeable(rows: Iterable[models.Model]) -> None:
    """Raise MetadataError ``not_permitted`` unless the actor may change these rows, as stored and as changed.

    The system and its workers are always allowed. Rows of other apps are not checked here.
    """
    user = current_actor().user
    if user is None or may(user, Permission.CHANGE_METADATA):
        return
    for row in rows:
        if type(row) in _SCHEMA and not all(may_change(user, state) for state in _then_and_now(row)):
            message = f"changing {row} needs the editor role there, which {user} does not have"
            raise MetadataError("not_permitted", message)


def _then_and_now(row: models.Model) -> Iterable[models.Model]:
    """Return the stored and the changed row: a schema may move to another layer, a dataset to another schema."""
    yield row
    stored = type(row)._base_manager.filter(pk=row.pk).first() if row.pk is not None else None
    if stored is not None:
        yield stored
