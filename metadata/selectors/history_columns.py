"""Columns of histories and of other datasets, as pages describe them."""

from dataclasses import dataclass

from metadata.domain import naming
from metadata.domain.history.history_columns import layout_of, time_type, version_columns
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.models import TargetColumn, TargetDataset


@dataclass(frozen=True)
class ShownColumn:
    """Column on a page. ``purpose`` is empty for business keys and attributes, ``column`` None for other columns."""

    name: str
    type: str
    purpose: str = ""
    column: TargetColumn | None = None


def history_columns(history: TargetDataset) -> tuple[ShownColumn, ...]:
    """Return the columns of a history dataset, which are derived from its base."""
    base = history.history_of
    if base is None:
        raise ValueError(f"{history} is not a history dataset")
    policy = HistoryPolicy.from_dict(base.history_policy)
    dated = time_type(policy, {column.name: str(column.type) for column in base.columns.all()})
    return (
        ShownColumn(layout_of(policy).history_key.format(table=base.name), "string", "history key"),
        ShownColumn(naming.entity_key_name(base.name), "string", "entity key"),
        *described_columns(base),
        ShownColumn("row_hash", "string", "row hash"),
        *(ShownColumn(name, type_, _PURPOSES[purpose]) for purpose, name, type_ in version_columns(policy, dated)),
    )


_PURPOSES = {
    "started_at": "start of the version",
    "ended_at": "end of the version",
    "updated_at": "when the row changed",
    "active": "whether it is the current one",
    "state": "state of the version",
    "run_id": "load run",
    "loaded_at": "load time",
    "closed_by": "load run that closed it",
    "closed_at": "when it was closed",
    "segment": "partition",
}


def described_columns(dataset: TargetDataset) -> tuple[ShownColumn, ...]:
    """Return the business keys, attributes and foreign keys of a dataset, in the order of its tables."""
    active = [column for column in dataset.columns.all() if column.active]
    ordered = [c for role in ("business_key", "attribute") for c in active if c.role == role]
    used = [reference for reference in dataset.references.all() if reference.active]
    return tuple(ShownColumn(column.name, str(column.type), column=column) for column in ordered) + tuple(
        ShownColumn(naming.foreign_key_name(reference.role_name, reference.parent.name), "string", "foreign key")
        for reference in used
    )
