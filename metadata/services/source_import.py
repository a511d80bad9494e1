"""Import of datasets found in an external system: new contracts, and changes of existing ones."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elevata.core.errors import MetadataError, StaleVersion
from metadata.domain.types import DataType
from metadata.models import SourceColumn, SourceDataset, System
from metadata.services.common import writing
from metadata.services.sources import (
    create_source_column,
    create_source_dataset,
    next_ordinal,
    update_source_column,
)


@dataclass(frozen=True)
class ImportedColumn:
    """Column to import; ``key_ordinal`` is its position in the business key, None outside of it."""

    name: str
    type: DataType
    target_name: str = ""
    key_ordinal: int | None = None
    nullable: bool = True
    pii: bool = False
    sensitivity: str = ""
    description: str = ""

    def described(self) -> dict[str, Any]:
        return {
            "type": self.type,
            "target_name": self.target_name,
            "key_ordinal": self.key_ordinal,
            "nullable": self.nullable and self.key_ordinal is None,
            "pii": self.pii,
            "sensitivity": self.sensitivity,
            "description": self.description,
        }


@dataclass(frozen=True)
class ContractChanges:
    """Accepted changes of a contract; ``seen`` has the compared version of every changed column, by name."""

    add: tuple[ImportedColumn, ...] = ()
    change: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    bring_back: tuple[str, ...] = ()
    retire: tuple[str, ...] = ()
    seen: Mapping[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.add or self.change or self.bring_back or self.retire)


def import_source_dataset(
    *,
    system: System,
    name: str,
    location: str,
    columns: Iterable[ImportedColumn],
    **described: Any,
) -> SourceDataset:
    """Create a source dataset with its columns, all or nothing; targets are generated afterwards.

    A MetadataError about a column names it as ``where``: ``system.dataset.column``.
    """
    wanted = list(columns)
    if not wanted:
        raise MetadataError("no_columns", "has no column: take at least one", "columns", f"{system}.{name}")
    check_key_places(wanted)
    with writing():
        dataset = create_source_dataset(system=system, name=name, location=location, **described)
        for ordinal, column in enumerate(wanted, start=1):
            create_source_column(source_dataset=dataset, name=column.name, **{**column.described(), "ordinal": ordinal})
    return dataset


def change_contract(*, source_dataset: SourceDataset, changes: ContractChanges) -> SourceDataset:
    """Apply these changes to a contract, all or nothing; the rest of it is not changed.

    Raises StaleVersion if one of the columns was changed since the comparison.
    """
    with writing():
        locked = SourceDataset.objects.select_for_update(of=("self",)).select_related("system")
        dataset = locked.get(pk=source_dataset.pk)
        rows = {row.name: row for row in dataset.columns.select_related("dataset__system")}
        for name, given in changes.change.items():
            _update(rows, name, changes, **given)
        for name in changes.bring_back:
            _update(rows, name, changes, active=True)
        for name in changes.retire:
            _update(rows, name, changes, active=False)
        ordinal = next_ordinal(dataset)
        for place, column in enumerate(changes.add):
            create_source_column(
                source_dataset=dataset, name=column.name, **{**column.described(), "ordinal": ordinal + place}
            )
    return dataset


def check_key_places(columns: Iterable[ImportedColumn]) -> None:
    """Check that the positions in the business key are 1, 2, 3 … without duplicates."""
    keyed = sorted((column for column in columns if column.key_ordinal is not None), key=lambda one: one.key_ordinal)
    for place, column in enumerate(keyed, start=1):
        if column.key_ordinal != place:
            said = "is there twice" if column.key_ordinal < place else f"comes before there is a place {place}"
            raise MetadataError("bad_key", f"place {column.key_ordinal} {said}", "key_ordinal", column.name)


def _update(rows: Mapping[str, SourceColumn], name: str, changes: ContractChanges, **given: Any) -> None:
    row = rows.get(name)
    if row is None:
        raise MetadataError("gone", "is not in the contract any more", where=name)
    seen = changes.seen.get(name, 0)
    if row.version != seen:
        raise StaleVersion(str(row), seen, row.version)
    update_source_column(source_column=row, expected_version=seen, **given)
