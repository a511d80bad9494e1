"""Adoption of rows that were changed outside of the product: an administrator becomes their author."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import models

from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import roles_of
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.altered_rows import ADOPTED, AlteredRow, all_altered_rows
from elevata.audit.services.change_log import Change
from elevata.audit.services.row_seals import forget
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from metadata.models import Reference, SourceDataset, TargetDataset


def adopt_rows(*, reason: str) -> list[AlteredRow]:
    """Seal all rows that were changed outside of the product as they are, and log the actor as their author.

    The actor may not approve the changes then. Raises MetadataError: ``not_permitted`` for all but administrators,
    ``token_scope`` for a read-only token, ``invalid`` without a reason.
    """
    actor = current_actor()
    if actor.user is None or Role.ADMIN not in roles_of(actor.user):
        message = "only an administrator may adopt rows: give an administrator's token in ELEVATA_TOKEN"
        raise MetadataError("not_permitted", message)
    if not reason.strip():
        raise MetadataError("invalid", "give the reason for which the rows are right as they are", "reason")
    with writing(reason.strip()) as unit:
        altered = all_altered_rows()
        for row in altered:
            unit.recorded.append(_change(row))
            if row.row is not None:
                unit.added(row.row)
            else:
                forget(row.model, row.pk)
    return altered


def _change(row: AlteredRow) -> Change:
    kind = str(getattr(row.model, "LOG_KIND", "") or row.model._meta.model_name)
    if row.row is not None:
        dataset, after = _dataset_key(row.row), {"difference": row.problem}
        return Change(ADOPTED, kind, row.key, str(row.row), {}, after, dataset)
    name = row.entry.subject_name if row.entry is not None else row.name
    dataset = row.entry.dataset_key if row.entry is not None else None
    # The log of an object that is gone ends as if it had been deleted.
    return Change(ChangeLogEntry.Action.DELETED, kind, row.key, name, {"difference": row.problem}, {}, dataset)


def _dataset_key(row: Any) -> UUID | None:
    """Return the stable key of the dataset to which a row belongs: its history's base, a reference's child."""
    if isinstance(row, TargetDataset):
        return row.key if row.history_of is None else row.history_of.key
    if isinstance(row, SourceDataset):
        return row.key
    owner: models.Model | None = row.child if isinstance(row, Reference) else getattr(row, "dataset", None)
    return None if owner is None else _dataset_key(owner)
