"""Flat states: planning treats a foreign key as a column.

Applied state is stored in this form, because the column of a removed reference stays in the table, retired.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from metadata.domain.quality.unknown_parents import KEEP
from metadata.domain.state import (
    CheckState,
    ColumnState,
    ContractState,
    DatasetState,
    ExposureState,
    PromisedColumn,
    ReferenceState,
)

# The role of a foreign key's column in a flat state; state files call it technical.
FOREIGN_KEY = "foreign_key"
# The input of a foreign key that names the rule for unknown parents, beside those that are column pairs.
UNKNOWN_PARENT = "unknown_parent"


def flat(dataset: DatasetState) -> DatasetState:
    """Return the dataset with its references as columns.

    Their inputs are the paired columns, and the rule for unknown parents unless it is the default.
    """
    if not dataset.references:
        return dataset
    columns = tuple(_foreign_key(reference) for reference in dataset.references)
    return replace(dataset, columns=(*dataset.columns, *columns), references=())


def with_references(dataset: DatasetState) -> DatasetState:
    """Return a flat state with its active foreign keys as references again, without their parents and pairs."""
    columns = tuple(column for column in dataset.columns if column.role != FOREIGN_KEY)
    keys = (column for column in dataset.active_columns if column.role == FOREIGN_KEY)
    references = tuple(ReferenceState(column.key, column.name, "", ()) for column in keys)
    return replace(dataset, columns=columns, references=(*dataset.references, *references))


def _foreign_key(reference: ReferenceState) -> ColumnState:
    inputs = tuple(sorted(f"{child}={parent}" for child, parent in reference.pairs))
    if reference.unknown_parent != KEEP:
        inputs = (*inputs, f"{UNKNOWN_PARENT}={reference.unknown_parent}")
    return ColumnState(reference.key, reference.column_name, "string", role=FOREIGN_KEY, inputs=inputs)


def column_pairs(foreign_key: ColumnState) -> tuple[str, ...]:
    """Return a foreign key's inputs without the rule for unknown parents."""
    return tuple(item for item in foreign_key.inputs if item.partition("=")[0] != UNKNOWN_PARENT)


def rule_for_unknown_parents(foreign_key: ColumnState) -> str:
    """Return the rule for unknown parents in a foreign key's inputs; the default if they name none."""
    named = (item.partition("=") for item in foreign_key.inputs)
    return next((rule for name, _, rule in named if name == UNKNOWN_PARENT), KEEP)


def as_row(dataset: DatasetState) -> dict[str, Any]:
    """Return a dataset's flat state as the value of a JSON column; ``of_row`` reads it."""
    return asdict(flat(dataset))


def of_row(row: Mapping[str, Any]) -> DatasetState:
    """Return the state that ``as_row`` of this or an older release wrote. Raise TypeError for unknown fields."""
    columns = tuple(
        ColumnState(**{**column, "former_names": tuple(column["former_names"]), "inputs": tuple(column["inputs"])})
        for column in row["columns"]
    )
    lists = {name: tuple(row[name]) for name in ("former_names", "inputs")}
    promised = {
        "contract": contract_of(row["contract"]) if row.get("contract") else None,
        "exposures": tuple(ExposureState(**exposure) for exposure in row.get("exposures") or ()),
    }
    older = {"rules_recorded": False}
    return DatasetState(**{**older, **row, **lists, **promised, "columns": columns, "references": ()})


def contract_of(row: Mapping[str, Any]) -> ContractState:
    return ContractState(
        checks=tuple(CheckState(**check) for check in row["checks"]),
        version=row["version"],
        dataset=row["dataset"],
        columns=tuple(PromisedColumn(**column) for column in row["columns"]),
    )
