"""Deleting target datasets and columns that are out of use. What tables hold is not touched by it.

A description that is gone shows in the next change report as a drop, which the environment's policy
decides on. So two steps lie before any value is lost, and the first, retirement, can be taken back.
Systems and schemas hold nothing by themselves: they can be deleted while nothing is in them.
"""

from django.db.models import ProtectedError

from elevata.core.errors import MetadataError
from metadata.models import System, TargetColumn, TargetDataset, TargetSchema
from metadata.services.common import claim, remove, writing


def delete_column(*, column: TargetColumn, expected_version: int, reason: str = "") -> None:
    """Delete a retired column's description.

    What generation derives comes back with the next generation while its source is in use.
    MetadataError ``in_use`` for one that is not retired, or that something else reads.
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
    """Delete a system that nothing is described of. MetadataError ``in_use`` names what is."""
    with writing(reason):
        _remove(claim(system, expected_version))


def delete_schema(*, schema: TargetSchema, expected_version: int, reason: str = "") -> None:
    """Delete a schema without datasets, retired ones included.

    MetadataError ``in_use`` names one of them, or somebody who has a role for the schema.
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
