"""States with everything that is a column as a column, and as rows for storage.

Planning sees a foreign key as the column that it is. Applied state is kept in this form, because it
has to remember a foreign key whose reference is gone: its column stays, retired.
"""

from dataclasses import asdict, replace
from typing import Any

from metadata.domain.state import ColumnState, DatasetState, ReferenceState

# The role of a foreign key's column in a flat state; state files call it technical.
FOREIGN_KEY = "foreign_key"


def flat(dataset: DatasetState) -> DatasetState:
    """The same dataset with its references as columns; what they pair are the columns' inputs."""
    if not dataset.references:
        return dataset
    columns = tuple(_foreign_key(reference) for reference in dataset.references)
    return replace(dataset, columns=(*dataset.columns, *columns), references=())


def with_references(dataset: DatasetState) -> DatasetState:
    """A flat state with its foreign keys as references again, as its tables need them; their parents are not known."""
    columns = tuple(column for column in dataset.columns if column.role != FOREIGN_KEY)
    keys = (column for column in dataset.active_columns if column.role == FOREIGN_KEY)
    references = tuple(ReferenceState(column.key, column.name, "", ()) for column in keys)
    return replace(dataset, columns=columns, references=(*dataset.references, *references))


def _foreign_key(reference: ReferenceState) -> ColumnState:
    pairs = tuple(sorted(f"{child}={parent}" for child, parent in reference.pairs))
    return ColumnState(reference.key, reference.column_name, "string", role=FOREIGN_KEY, inputs=pairs)


def as_row(dataset: DatasetState) -> dict[str, Any]:
    """A dataset's state for a JSON column, flat; ``of_row`` reads it back."""
    return asdict(flat(dataset))


def of_row(row: dict[str, Any]) -> DatasetState:
    """The state that ``as_row`` wrote. TypeError for fields that are none of its."""
    columns = tuple(
        ColumnState(**{**column, "former_names": tuple(column["former_names"]), "inputs": tuple(column["inputs"])})
        for column in row["columns"]
    )
    lists = {name: tuple(row[name]) for name in ("former_names", "inputs")}
    return DatasetState(**{**row, **lists, "columns": columns, "references": ()})
