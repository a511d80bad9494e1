"""Contracts of source datasets: import of datasets found in an external system, and addition of delivered columns."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from elevata.audit.services.transactions import claim, constraints_left_to_database, writing
from elevata.core.errors import MetadataError, StaleVersion
from metadata.domain.sources.contracts import ColumnProposals, DeliveredColumn, compare
from metadata.domain.types import DataType, parse
from metadata.models import SourceColumn, SourceDataset, System
from metadata.services.datasets.generation import Summary, generate_targets
from metadata.services.rows.checks import name_taken
from metadata.services.rows.row_changes import store
from metadata.services.rows.source_checks import check_source_policy
from metadata.services.sources import create_source_column, create_source_dataset, next_ordinal, update_source_column


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
        _check_different_names(dataset, wanted)
        with constraints_left_to_database():
            for ordinal, column in enumerate(wanted, start=1):
                create_source_column(
                    source_dataset=dataset, name=column.name, **{**column.described(), "ordinal": ordinal}
                )
        check_source_policy(dataset)
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
            _update(rows, name, changes, given)
        for name in changes.bring_back:
            _update(rows, name, changes, {"active": True})
        for name in changes.retire:
            _update(rows, name, changes, {"active": False})
        ordinal = next_ordinal(dataset)
        for place, column in enumerate(changes.add):
            create_source_column(
                source_dataset=dataset, name=column.name, **{**column.described(), "ordinal": ordinal + place}
            )
    return dataset


def _check_different_names(dataset: SourceDataset, columns: Iterable[ImportedColumn]) -> None:
    """Check that no two columns of a new dataset have one name, ignoring case."""
    known: dict[str, str] = {}
    for column in columns:
        other = known.get(column.name.lower())
        known[column.name.lower()] = column.name
        if other is not None:
            raise name_taken(column.name, other, f"{dataset}.{column.name}")


def check_key_places(columns: Iterable[ImportedColumn]) -> None:
    """Check that the positions in the business key are 1, 2, 3 … without duplicates."""
    keyed = [(column.key_ordinal, column.name) for column in columns if column.key_ordinal is not None]
    for place, (ordinal, name) in enumerate(sorted(keyed, key=lambda pair: pair[0]), start=1):
        if ordinal != place:
            message = "is there twice" if ordinal < place else f"comes before there is a place {place}"
            raise MetadataError("bad_key", f"place {ordinal} {message}", "key_ordinal", name)


def _update(rows: Mapping[str, SourceColumn], name: str, changes: ContractChanges, given: Mapping[str, Any]) -> None:
    row = rows.get(name)
    if row is None:
        raise MetadataError("gone", "is not in the contract any more", where=name)
    seen = changes.seen.get(name, 0)
    if row.version != seen:
        raise StaleVersion(str(row), seen, row.version)
    update_source_column(source_column=row, expected_version=seen, **given)


def propose_columns(source_dataset: SourceDataset, delivered: Iterable[Mapping[str, str]]) -> ColumnProposals:
    """Return the differences between the contract and a file's columns, ``[{"name", "type"}]``."""
    known = [DeliveredColumn(column.name, column.type, column.active) for column in source_dataset.columns.all()]
    return compare(known, [_delivered(item) for item in delivered])


def take_columns(*, source_dataset: SourceDataset, proposals: Iterable[Mapping[str, str]]) -> Summary:
    """Add proposed columns to the contract and generate the targets; known columns are not changed.

    An inactive column becomes active again, otherwise unchanged.
    """
    with writing():
        dataset = SourceDataset.objects.select_for_update().get(pk=source_dataset.pk)
        proposal = propose_columns(dataset, proposals)
        if proposal.clashing:
            raise MetadataError(
                "name_taken",
                f"differs only by case from a column that is there already: {proposal.clashing[0].name!r}",
                "name",
                str(dataset),
            )
        for column in proposal.new:
            create_source_column(source_dataset=dataset, name=column.name, type=column.type)
        for column in proposal.returning:
            row = dataset.columns.get(name=column.name)
            row = claim(row, row.version)
            row.active = True
            store(row)
        return generate_targets(source_dataset=dataset)


def _delivered(item: Mapping[str, str]) -> DeliveredColumn:
    unknown = set(item) - {"name", "type"}
    if unknown or not isinstance(item.get("name"), str) or not isinstance(item.get("type"), str):
        raise MetadataError("invalid", f"a proposal has a name and a type, both text, not {dict(item)!r}")
    return DeliveredColumn(item["name"], parse(item["type"]))
