"""Systems, source datasets and columns."""

from typing import Any
from uuid import UUID

from elevata.audit.services.transactions import assign, claim, writing
from metadata.domain import naming, stable_keys
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.sources.intake import Intake
from metadata.domain.types import DataType, parse
from metadata.models import SourceColumn, SourceDataset, System
from metadata.services.lifecycle import follow_policy
from metadata.services.rows.checks import refuse_if_policy_names, with_place
from metadata.services.rows.row_changes import store
from metadata.services.rows.row_names import free_key
from metadata.services.rows.source_checks import (
    check_source_column,
    check_source_dataset,
    check_source_policy,
    check_system,
)

DESCRIBED = ("description", "owner", "tags")
SYSTEM_FIELDS = ("name", "short_name", "kind", "location", "secret", "options", "active", *DESCRIBED)
SOURCE_DATASET_FIELDS = (
    "name",
    "short_name",
    "location",
    "format",
    "options",
    "intake",
    "history_policy",
    "historize",
    "new_columns",
    "active",
    *DESCRIBED,
)
SOURCE_COLUMN_FIELDS = (
    "name",
    "target_name",
    "type",
    "nullable",
    "ordinal",
    "key_ordinal",
    "integrate",
    "pii",
    "sensitivity",
    "active",
    *DESCRIBED,
)


def create_system(*, name: str, short_name: str, **described: Any) -> System:
    with writing():
        row = System(short_name=short_name)
        assign(row, {"name": name, **described}, SYSTEM_FIELDS)
        check_system(row)
        return store(row)


def update_system(*, system: System, expected_version: int, **changes: Any) -> System:
    with writing():
        row = claim(system, expected_version)
        if assign(row, changes, SYSTEM_FIELDS):
            check_system(row)
            store(row)
        return row


def create_source_dataset(
    *, system: System, name: str, location: str, key: UUID | None = None, **described: Any
) -> SourceDataset:
    """Create a source dataset; ``short_name`` is derived from the name by default.

    ``key`` is given only if the dataset already has one.
    """
    with writing():
        derived = key or free_key(
            SourceDataset, lambda attempt: stable_keys.source_dataset_key(system.short_name, name, attempt)
        )
        row = SourceDataset(system=system, key=derived, name=name, location=location)
        assign(
            row,
            {"short_name": naming.safe_table_part(name), **plain_fields(row, described)},
            SOURCE_DATASET_FIELDS,
        )
        check_source_dataset(row)
        return store(row)


def update_source_dataset(*, source_dataset: SourceDataset, expected_version: int, **changes: Any) -> SourceDataset:
    """Change the contract; the targets change at their next generation."""
    with writing():
        row = claim(source_dataset, expected_version)
        if assign(row, plain_fields(row, changes), SOURCE_DATASET_FIELDS):
            check_source_dataset(row)
            check_source_policy(row)
            store(row)
        return row


def create_source_column(
    *,
    source_dataset: SourceDataset,
    name: str,
    type: str | DataType,
    key: UUID | None = None,
    **described: Any,
) -> SourceColumn:
    """Create a column of the contract, after the others unless ``ordinal`` is given."""
    with writing():
        derived = key or free_key(
            SourceColumn, lambda attempt: stable_keys.source_column_key(source_dataset.key, name, attempt)
        )
        row = SourceColumn(dataset=source_dataset, key=derived, name=name)
        ordinal = described.pop("ordinal", None) or next_ordinal(source_dataset)
        assign(row, plain_fields(row, {"type": type, "ordinal": ordinal, **described}), SOURCE_COLUMN_FIELDS)
        check_source_column(row)
        return store(row)


def update_source_column(*, source_column: SourceColumn, expected_version: int, **changes: Any) -> SourceColumn:
    """Change a column of the contract; history policy and intake follow a rename.

    ``active=False`` retires it; the next generation then retires the columns generated from it.
    """
    with writing():
        row = claim(source_column, expected_version)
        old, reached = row.name, row.active and row.integrate
        if assign(row, plain_fields(row, changes), SOURCE_COLUMN_FIELDS):
            check_source_column(row)
            store(row)
            follow_policy(row.dataset, old, row.name)
            if reached and not (row.active and row.integrate):
                refuse_if_policy_names(row)
            check_source_policy(row.dataset)
        return row


def next_ordinal(dataset: Any) -> int:
    """Return the position after the last column of a source or target dataset."""
    last = dataset.columns.order_by("-ordinal").values_list("ordinal", flat=True).first()
    return (last or 0) + 1


def plain_fields(row: Any, described: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with parsed types and normalised policies, so that equal values compare equal."""
    plain = dict(described)

    def normalise() -> None:
        if isinstance(plain.get("type"), str):
            plain["type"] = parse(plain["type"])
        if "history_policy" in plain:
            plain["history_policy"] = HistoryPolicy.from_dict(plain["history_policy"]).to_dict()
        if "intake" in plain:
            plain["intake"] = Intake.from_dict(plain["intake"]).to_dict()

    with_place(row, normalise)
    return plain
