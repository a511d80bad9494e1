"""Copies of datasets: creation, changes, deletion."""

from typing import Any
from uuid import UUID

from elevata.audit.services.transactions import assign, check_fields, claim, writing
from elevata.core.errors import MetadataError
from metadata.domain import stable_keys
from metadata.domain.copies import check_name, check_table, check_target
from metadata.models import DatasetCopy, System, TargetDataset
from metadata.services.rows.checks import refuse_tables_of_other_copies, with_place
from metadata.services.rows.row_changes import remove, store
from metadata.services.rows.row_names import free_key

COPY_FIELDS = ("table", "mode", "sensitive")


def create_copy(*, dataset: TargetDataset, to: System, key: UUID | None = None, **described: Any) -> DatasetCopy:
    """Create a copy of a dataset in a system; its next load makes it."""
    with writing():
        row = DatasetCopy(dataset=dataset, system=to)
        assign(row, described, COPY_FIELDS)
        row.key = key or free_key(
            DatasetCopy,
            lambda attempt: stable_keys.copy_key(dataset.key, f"{to.short_name} {row.table}".strip(), attempt),
        )
        check_copy(row)
        return store(row)


def update_copy(*, copy: DatasetCopy, expected_version: int, reason: str = "", **changes: Any) -> DatasetCopy:
    """Change a copy; its system stays. The table of its former name is removed by the next copy run."""
    with writing(reason):
        row = claim(copy, expected_version)
        if assign(row, changes, COPY_FIELDS):
            check_copy(row)
            store(row)
        return row


def delete_copy(*, copy: DatasetCopy, expected_version: int, reason: str = "") -> None:
    """Delete a copy. Its table in the target stays."""
    with writing(reason):
        remove([claim(copy, expected_version)])


def check_copy(row: DatasetCopy) -> None:
    """Check a row before it is written: dataset, system, names, and that no other copy has the table."""
    where, dataset, system = str(row), row.dataset, row.system
    if dataset.history_of_id is not None:
        raise MetadataError("invalid", "a history has no copies; copy its base", "dataset", where)
    if dataset.materialization == TargetDataset.Materialization.VIEW:
        raise MetadataError("invalid", "is a view, which has no table to copy", "dataset", where)
    row.table = row.table.strip()
    with_place(row, lambda: check_target(system.kind, system.location))
    with_place(row, lambda: check_table(system.kind, row.table_name))
    for column in dataset.columns.filter(active=True):
        with_place(row, lambda name=column.name: check_name(system.kind, name))
    refuse_tables_of_other_copies([row], "table", where)
    check_fields(row, where)
