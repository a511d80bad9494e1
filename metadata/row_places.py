"""Place of a row of metadata, for roles that are granted for a layer or a schema."""

from collections.abc import Callable, Iterable
from typing import Any

from django.db import models

from elevata.core.errors import MetadataError
from metadata.domain.roles import Permission, Place
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.permissions import may
from metadata.services.actor import current_actor

# How each kind of row leads to the schema it stands in. What is outside the warehouse stands in none:
# sources are described by those whose role counts everywhere.
_SCHEMA: dict[type[models.Model], Callable[[Any], TargetSchema | None]] = {
    System: lambda row: None,
    SourceDataset: lambda row: None,
    SourceColumn: lambda row: None,
    TargetSchema: lambda row: row,
    TargetDataset: lambda row: row.schema,
    TargetColumn: lambda row: row.dataset.schema,
    DatasetInput: lambda row: row.dataset.schema,
    ColumnInput: lambda row: row.column.dataset.schema,
    Reference: lambda row: row.child.schema,
    ReferencePair: lambda row: row.reference.child.schema,
}


def place_of(row: models.Model) -> Place:
    """The layer and schema that a row of metadata stands in; nowhere in particular if there is none."""
    schema = _SCHEMA[type(row)](row)
    return Place() if schema is None else Place(schemas=frozenset({(schema.name, schema.layer)}))


def may_change(user: Any, row: models.Model) -> bool:
    """Return whether the user may change this row of metadata."""
    return may(user, Permission.CHANGE_METADATA, on=lambda: place_of(row))


def must_be_changeable(rows: Iterable[models.Model]) -> None:
    """MetadataError ``not_permitted`` unless who acts may change these rows, as they are stored and as they will be.

    The system may; so do its workers. Rows that are no metadata are somebody else's to guard.
    """
    user = current_actor().user
    if user is None or may(user, Permission.CHANGE_METADATA):
        return
    for row in rows:
        if type(row) in _SCHEMA and not all(may_change(user, one) for one in _then_and_now(row)):
            raise MetadataError("not_permitted", f"your roles do not let you change it, {user}", where=str(row))


def _then_and_now(row: models.Model) -> Iterable[models.Model]:
    """A schema may be moved to another layer, a dataset to another schema: both ends are to be permitted."""
    yield row
    stored = type(row)._base_manager.filter(pk=row.pk).first() if row.pk is not None else None
    if stored is not None:
        yield stored
