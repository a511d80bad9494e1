"""New columns that a source takes into its contract and targets without a decision, because it declares so."""

import logging
from collections.abc import Iterable

from django.utils import timezone

from architecture.domain.refusals import Refused
from architecture.services.environments import current_environment
from architecture.services.previews import build_previewed_report
from elevata.accounts.actors import acting_as
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from loader.domain.sources.proposal_states import ACCEPTED
from loader.domain.sources.schema_changes import (
    NEW,
    SchemaChange,
    fingerprint,
)
from loader.models import LoadRun, SourceProposal
from loader.services.sources.proposals import (
    in_words,
    report_scope,
    tell_editors,
)
from metadata.domain.sources.contracts import TAKE as TAKE_NEW
from metadata.domain.types import parse
from metadata.models import SourceDataset
from metadata.services.source_contracts import ContractChanges, ImportedColumn, change_contract, take_columns

log = logging.getLogger(__name__)


def take_new_columns(source: SourceDataset, changes: Iterable[SchemaChange], run: LoadRun | None) -> None:
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
