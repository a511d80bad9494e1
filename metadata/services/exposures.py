"""Exposures of datasets: creation, changes, deletion."""

from typing import Any
from uuid import UUID

from elevata.audit.services.transactions import assign, check_fields, claim, writing
from elevata.core.errors import MetadataError
from metadata.domain import stable_keys
from metadata.domain.exposures import check_link
from metadata.models import Exposure, TargetDataset, TargetSchema
from metadata.services.rows.checks import with_place
from metadata.services.rows.row_changes import remove, store
from metadata.services.rows.row_names import free_key

EXPOSURE_FIELDS = ("name", "kind", "owner", "link", "description")


def create_exposure(*, dataset: TargetDataset, key: UUID | None = None, **described: Any) -> Exposure:
    """Create an exposure of a serving dataset; reports that break the dataset's contract name it."""
    with writing():
        row = Exposure(dataset=dataset)
        assign(row, described, EXPOSURE_FIELDS)
        row.key = key or free_key(Exposure, lambda attempt: stable_keys.exposure_key(dataset.key, row.name, attempt))
        check_exposure(row)
        return store(row)


def update_exposure(*, exposure: Exposure, expected_version: int, reason: str = "", **changes: Any) -> Exposure:
    """Change an exposure."""
    with writing(reason):
        row = claim(exposure, expected_version)
        if assign(row, changes, EXPOSURE_FIELDS):
            check_exposure(row)
            store(row)
        return row


def delete_exposure(*, exposure: Exposure, expected_version: int, reason: str = "") -> None:
    """Delete an exposure."""
    with writing(reason):
        remove([claim(exposure, expected_version)])


def check_exposure(row: Exposure) -> None:
    """Check a row before it is written: layer, name, owner and link."""
    where, dataset = str(row), row.dataset
    if dataset.history_of_id is not None or dataset.schema.layer != TargetSchema.Layer.SERVING:
        raise MetadataError("invalid", "only datasets of the serving layer have exposures", "dataset", where)
    for field in ("name", "owner"):
        if not getattr(row, field).strip():
            raise MetadataError("invalid", f"needs {'a name' if field == 'name' else 'an owner'}", field, where)
    with_place(row, lambda: check_link(row.link))
    check_fields(row, where)
