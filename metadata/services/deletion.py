"""Deletion of retired target datasets and columns, of systems and of schemas. Tables are not changed.

A deleted description appears as a drop in the next change report, which the environment's change policy decides on. So
two steps precede any loss of data, and the first, retirement, can be undone. Systems and schemas have no data of their
own: they can be deleted while they are empty.
"""

from django.db.models import ProtectedError

from elevata.accounts.models import RoleGrant
from elevata.audit.services.transactions import claim, writing
from elevata.comments.services import delete_comments_on
from elevata.core.errors import MetadataError
from elevata.lists.services import delete_favourites_of
from elevata.notifications.services import mark_settled
from metadata.models import System, TargetColumn, TargetDataset, TargetSchema
from metadata.services.rows.row_changes import remove


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
    """Delete a retired dataset's description with its columns and its history's; see ``delete_column``.

    Comments and favourites are deleted with it, and its notices are marked as read.
    """
    with writing(reason):
        row = claim(dataset, expected_version)
        if row.history_of_id is not None:
            raise MetadataError("invalid", "a history dataset goes with its base; delete that", "name", str(row))
        _refuse_in_use(row)
        keys = [row.key]
        if hasattr(row, "history"):
            keys.append(row.history.key)
            _remove(row.history)
        _remove(row)
        delete_comments_on(kind="dataset", keys=keys)
        delete_favourites_of(kind="dataset", keys=keys)
        for key in keys:
            mark_settled(subject_kind="dataset", subject_key=str(key))


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
        granted = RoleGrant.objects.filter(schema=row.name).select_related("user").order_by("user__username").first()
        if granted is not None:
            # It would be deleted with the schema without notice to its owner.
            raise MetadataError("in_use", f"{granted.user} has a role for it; take that back first", "", str(row))
        _remove(row)


def _refuse_in_use(row: TargetDataset | TargetColumn) -> None:
    if row.active:
        raise MetadataError("in_use", "must be retired before it is deleted", "active", str(row))


def _remove(row: TargetDataset | TargetColumn | System | TargetSchema) -> None:
    try:
        remove([row])
    except ProtectedError as needed:
        reader = sorted(str(row) for row in needed.protected_objects)[0]
        raise MetadataError("in_use", f"{reader} needs it", "", str(row)) from None
