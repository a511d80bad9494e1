"""Deletion of retired target datasets and columns, of systems and of schemas. Tables are not changed.

A deleted description appears as a drop in the next change report, which the environment's change policy
decides on. So two steps precede any loss of data, and the first, retirement, can be undone. Systems and
schemas have no data of their own: they can be deleted while they are empty.
"""

from django.db.models import ProtectedError

from elevata.core.errors import MetadataError
from metadata.models import System, TargetColumn, TargetDataset, TargetSchema
from metadata.services.common import claim, remove, writing


def delete_column(*, column: TargetColumn, expected_version: int, reason: str = "") -> None:
    """Delete a retired column's description.

    Generation recreates a generated column while its source is active. Raises MetadataError ``in_use`` for a
    column that is not retired, or that another object reads.
    """
    with writing(reason):
        row = claim(column, expected_version)
        _refuse_in_use(row)
        _remove(row)


def delete_dataset(*, dataset: TargetDataset, expected_version: int, reason: str = "") -> None:
    """Delete a retired dataset's description with its columns and its history's; see ``delete_column``."""
    with writing(reason):
        row = claim(dataset, expected_version)
        if row.history_of_id is not None:
            raise MetadataError("invalid", "a history dataset goes with its base; delete that", "name", str(row))
        _refuse_in_use(row)
        if hasattr(row, "history"):
            _remove(row.history)
        _remove(row)


def delete_system(*, system: System, expected_version: int, reason: str = "") -> None:
    """Delete a system without source datasets; MetadataError ``in_use`` names one."""
    with writing(reason):
        _remove(claim(system, expected_version))


def delete_schema(*, schema: TargetSchema, expected_version: int, reason: str = "") -> None:
    """Delete a schema without datasets, retired ones included.

    Raises MetadataError ``in_use``, naming a dataset, or a user with a role for the schema.
    """
    with writing(reason):
        row = claim(schema, expected_version)
        granted = row.role_grants.select_related("user").order_by("user__username").first()
        if granted is not None:
            # It would go with the schema, and whoever gave it would not hear of it.
            raise MetadataError("in_use", f"{granted.user} has a role for it; take that back first", "", str(row))
        _remove(row)


def _refuse_in_use(row: TargetDataset | TargetColumn) -> None:
    if row.active:
        raise MetadataError("in_use", "must be retired before it is deleted", "active", str(row))


def _remove(row: TargetDataset | TargetColumn | System | TargetSchema) -> None:
    try:
        remove([row])
    except ProtectedError as needed:
        reader = sorted(str(one) for one in needed.protected_objects)[0]
        raise MetadataError("in_use", f"{reader} needs it", "", str(row)) from None
