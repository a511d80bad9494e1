"""Former names and free keys of metadata rows, and their retirement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.db import models
from django.utils import timezone

from elevata.audit.services.transactions import are_constraints_left_to_database
from elevata.core.errors import MetadataError
from metadata.models import (
    TargetColumn,
    TargetDataset,
)
from metadata.services.rows.row_changes import IS_NAME_APPLIED, store


def check_word_list(value: Any, field: str, where: str) -> None:
    """Check that tags or former names are a list of texts without duplicates."""
    is_list = isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
    if not is_list or len(set(value)) != len(value):
        raise MetadataError("invalid", f"must be a list of words, none twice, not {value!r}", field, where)


def free_key(model: type[models.Model], derive: Callable[[int], UUID]) -> UUID:
    """Return the first derived stable key that is free: an earlier object may have had the same name."""
    attempt = 0
    while not are_constraints_left_to_database() and model._default_manager.filter(key=derive(attempt)).exists():
        attempt += 1
    return derive(attempt)


def former_names(current: list[str], old: str, new: str) -> list[str]:
    """Return the former names after a rename, newest last, without the new name."""
    return [name for name in current if name not in (old, new)] + ([old] if old != new else [])


def former_names_of(row: TargetDataset | TargetColumn, name: str) -> list[str]:
    """Return the former names of a row that is renamed to ``name``.

    They include the name under which the row was created, because exported files may have it. A name that it got by a
    rename is left out unless an environment has it.
    """
    names = former_names(row.former_names, row.name, name)
    if row.former_names and not IS_NAME_APPLIED.get()(row):
        names = [former for former in names if former != row.name]
    return names


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
