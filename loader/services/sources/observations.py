"""Schemas that loads and checks saw of sources, compared with their contracts.

What the contract lacks becomes one open proposal of the source; a newer one supersedes it, as does a schema that agrees
with the contract again. Nothing but new columns of a source that declares it is changed without a user.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from elevata.core.errors import MetadataError
from loader.domain.sources.proposal_states import DISMISSED, OPEN, SUPERSEDED
from loader.domain.sources.schema_changes import (
    NEW,
    RETURNING,
    RETYPED,
    ObservedColumn,
    SchemaChange,
    compare_schema,
    fingerprint,
    names_all_columns,
    with_joined,
)
from loader.models import DatasetRun, LoadRun, SourceProposal
from loader.services.sources.new_columns import take_new_columns
from loader.services.sources.proposals import (
    contract_of,
    end_proposal,
    in_words,
    open_changes,
    tell_editors,
)
from metadata.domain.sources.contracts import IGNORE
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.models import SourceDataset

log = logging.getLogger(__name__)


def observe_delivery(*, run: LoadRun, dataset_key: str, schema: Iterable[Mapping[str, Any]]) -> SourceProposal | None:
    """Compare the schema of a delivery, as the runner reported it, with the contract of its source."""
    item = run.datasets.filter(dataset_key=dataset_key).first()
    sources = SourceDataset.objects.select_related("system")
    source = sources.filter(feeds__dataset__dataset_runs=item).first() if item is not None else None
    if item is None or source is None:
        return None
    types = {column.name: column.type for column in contract_of(source)}
    columns = [ObservedColumn.from_json(dict(column)) for column in schema]
    observed = [column.beside(types.get(column.name)) if column.declared else column for column in columns]
    refused = item.status == DatasetRun.Status.FAILED
    return observe_schema(
        source=source, columns=observed, complete=refused or names_all_columns(source.format), run=run
    )


def observe_schema(
    *,
    source: SourceDataset,
    columns: Iterable[ObservedColumn],
    complete: bool = True,
    run: LoadRun | None = None,
    renew: bool = False,
) -> SourceProposal | None:
    """Compare the schema that a load or check saw with the contract; return the open proposal, None without one.

    Changes that a user dismissed are not proposed again, unless a user asks for it (``renew``). Without ``complete``
    the source may have further columns.
    """
    observed = list(columns)
    take_new_columns(source, _changes(source, observed, complete=complete), run)
    with transaction.atomic():
        row = SourceDataset.objects.select_for_update(of=("self",)).select_related("system").get(pk=source.pk)
        changes = _changes(row, observed, complete=complete)
        current = SourceProposal.objects.filter(source=row, status=OPEN).first()
        if current is not None:
            changes = _with_proven_renames(current, changes)
            changes += _not_refuted(current, changes, observed, complete=complete)
        return _propose(row, current, changes, run=run, renew=renew)


def _changes(source: SourceDataset, observed: Iterable[ObservedColumn], *, complete: bool) -> tuple[SchemaChange, ...]:
    ignored = ReadingOptions.of(source.format, source.options).ignored
    changes = compare_schema(contract_of(source), observed, ignored=ignored, complete=complete)
    if source.new_columns != IGNORE:
        return changes
    return tuple(change for change in changes if change.kind not in (NEW, RETURNING))


def _with_proven_renames(current: SourceProposal, changes: tuple[SchemaChange, ...]) -> tuple[SchemaChange, ...]:
    """Return the changes with the renames that values have proven to a load; a check compares no values."""
    proven = {change.id: change for change in open_changes(current) if change.evidence}
    return tuple(proven.get(change.id, change) for change in with_joined(changes, proven))


def _not_refuted(
    current: SourceProposal,
    changes: Iterable[SchemaChange],
    observed: Iterable[ObservedColumn],
    *,
    complete: bool,
) -> tuple[SchemaChange, ...]:
    """Return the open changes of which the observation tells nothing: types, and columns that a sample may lack."""
    seen = {column.name: column for column in observed}
    known = {change.former or change.name for change in changes}

    def is_untold(change: SchemaChange) -> bool:
        if change.kind == RETYPED:
            return change.name in seen and seen[change.name].type is None
        return not complete and not {change.name, change.former} & seen.keys()

    rest = (change for change in open_changes(current) if (change.former or change.name) not in known)
    return tuple(change for change in rest if is_untold(change))


def _propose(
    source: SourceDataset,
    current: SourceProposal | None,
    changes: tuple[SchemaChange, ...],
    *,
    run: LoadRun | None,
    renew: bool,
) -> SourceProposal | None:
    """Store the changes as the source's open proposal, or end the one that they refute."""
    now, digest = timezone.now(), fingerprint(changes)
    rows = [change.as_json() for change in changes]
    if current is not None and current.fingerprint == digest:
        SourceProposal.objects.filter(pk=current.pk, status=OPEN).update(changes=rows, last_seen_at=now)
        return SourceProposal.objects.select_related("source__system").get(pk=current.pk)
    if current is not None:
        end_proposal(current, SUPERSEDED)
    if all(change.is_held for change in changes):
        return None
    dismissed = SourceProposal.objects.filter(source=source, fingerprint=digest, status=DISMISSED)
    if not renew and dismissed.exists():
        return None
    proposal = SourceProposal.objects.create(source=source, changes=rows, fingerprint=digest, run=run, last_seen_at=now)
    tell_editors(proposal, f"{source} differs from its contract: {in_words(changes)}")
    return proposal


def settle_proposals() -> None:
    """Supersede open proposals whose changes users made in another way."""
    for proposal in SourceProposal.objects.filter(status=OPEN).select_related("source__system"):
        if all(change.is_held for change in open_changes(proposal)):
            try:
                with transaction.atomic():
                    end_proposal(proposal, SUPERSEDED)
            except MetadataError:
                log.info("%s was decided meanwhile", proposal)
