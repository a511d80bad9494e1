"""Schemas that loads and checks saw of sources, compared with their contracts.

What the contract lacks becomes one open proposal of the source; a newer one supersedes it, as does a schema that agrees
with the contract again. Nothing but new columns of a source that declares it is changed without a user.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from architecture.domain.workflow import Refused
from architecture.services.previews import build_previewed_report
from architecture.services.states import current_environment
from elevata.accounts.permissions import acting_as
from elevata.audit.services.change_log import writing
from elevata.core.errors import MetadataError
from loader.domain.sources.proposal_states import ACCEPTED, DISMISSED, OPEN, SUPERSEDED
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
from loader.services.sources.proposals import (
    contract_of,
    end_proposal,
    in_words,
    open_changes,
    report_scope,
    tell_editors,
)
from metadata.domain.sources.contracts import IGNORE
from metadata.domain.sources.contracts import TAKE as TAKE_NEW
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.domain.types import parse
from metadata.models import SourceDataset
from metadata.services.sources import ContractChanges, ImportedColumn, change_contract, take_columns

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
    _take_new(source, _changes(source, observed, complete=complete), run)
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


# --- new columns by declaration ----------------------------------------------------------------


def _take_new(source: SourceDataset, changes: Iterable[SchemaChange], run: LoadRun | None) -> None:
    """Add the new columns of a source that declares it to its contract and targets, as the system, and report it.

    Columns that cannot be added are proposed instead.
    """
    new = tuple(change for change in changes if change.kind == NEW and change.after)
    if source.new_columns != TAKE_NEW or not new or not source.active:
        return
    reason = f"new columns of {source} are taken at once" + (f", delivered to load run {run.run_id}" if run else "")
    try:
        with acting_as(None), writing(reason):
            items = [{"name": change.name, "type": change.after} for change in new]
            if source.generated.exists():
                take_columns(source_dataset=source, proposals=items)
            else:
                added = tuple(ImportedColumn(change.name, parse(change.after)) for change in new)
                change_contract(source_dataset=source, changes=ContractChanges(add=added))
            _record_taken(source, new, run)
    except MetadataError as problem:
        log.warning("new columns of %s are proposed, because they cannot be taken: %s", source, problem.one_line())
        return
    _build_report(source)


def _record_taken(source: SourceDataset, taken: tuple[SchemaChange, ...], run: LoadRun | None) -> None:
    """Store the taken columns as an accepted proposal, and notify editors."""
    now = timezone.now()
    proposal = SourceProposal.objects.create(
        source=source,
        status=ACCEPTED,
        changes=[change.as_json() for change in taken],
        fingerprint=fingerprint(taken),
        run=run,
        last_seen_at=now,
        decided_at=now,
        accepted=[change.id for change in taken],
        reason="The source declares that new columns are taken at once.",
    )
    tell_editors(proposal, f"New columns of {source} were taken into its contract: {in_words(taken)}")


def _build_report(source: SourceDataset) -> None:
    """Create the change report of a source's targets; a warehouse that was never observed has none."""
    scope = report_scope(source)
    if scope is None:
        return
    try:
        with acting_as(None):
            build_previewed_report(environment=current_environment(), scope=scope)
    except (Refused, MetadataError) as problem:
        log.warning("no report was made of the new columns of %s: %s", source, problem)
