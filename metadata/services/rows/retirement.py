"""Retirement of datasets and columns, and its reversal, as writes of one row."""

from django.utils import timezone

from metadata.models import TargetColumn, TargetDataset
from metadata.services.rows.row_changes import store

BY_PERSON = TargetDataset.RetiredBy.PERSON
BY_GENERATION = TargetDataset.RetiredBy.GENERATION


def set_retired(row: TargetDataset | TargetColumn, *, by: str) -> bool:
    """Retire a row; return True if it was active."""
    if not row.active:
        return False
    row.active, row.retired_at, row.retired_by = False, timezone.now(), by
    store(row)
    return True


def set_in_use(row: TargetDataset | TargetColumn) -> bool:
    if row.active:
        return False
    row.active, row.retired_at, row.retired_by = True, None, ""
    store(row)
    return True
