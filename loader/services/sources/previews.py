"""Preview of accepting a proposal: targets, readers, and operations of the next report.

The changes are made and rolled back, so that preview and acceptance cannot differ.
"""

from collections.abc import Collection
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from architecture.domain.operations import Operation
from architecture.domain.refusals import Refused
from architecture.services.environments import current_environment
from architecture.services.report_basis import Basis, gather
from loader.domain.sources.schema_changes import GONE, SchemaChange
from loader.models import SourceProposal
from loader.services.sources.proposals import Applied, apply_changes, claim_proposal
from metadata.domain.scope import Scope
from metadata.models import SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.dataset_lineage import neighbourhood
from metadata.selectors.dependents import Dependent, of_column_retirement
from metadata.services.datasets.generation_preview import DatasetPreview


@dataclass(frozen=True)
class ProposalPreview:
    """Effects of accepting some changes.

    ``operations`` are those that the next report has because of them; None if the warehouse was never observed, so
    that none can be planned. ``dependents`` are objects outside the source's own targets that lose a column they read.
    """

    changes: tuple[SchemaChange, ...]
    datasets: tuple[DatasetPreview, ...]
    dependents: tuple[Dependent, ...]
    operations: tuple[Operation, ...] | None
    not_planned: str = ""
    fingerprint: str = ""


def preview_proposal(
    *, proposal: SourceProposal, take: Collection[str], split: Collection[str] = ()
) -> ProposalPreview:
    """Return what ``accept_proposal`` would do with these ids; nothing is written. Raise its MetadataError."""
    with transaction.atomic():
        try:
            row = claim_proposal(proposal)
            before, problem = _basis(row.source)
            gone = {change.removeprefix(f"{GONE}:") for change in take if change.startswith(f"{GONE}:")}
            dependents = _dependents(row.source, gone) if gone else ()
            applied = apply_changes(row, take=take, split=split)
            after = before.with_metadata(_affected(row.source)) if before is not None else None
            return _preview(applied, dependents, _operations(before), _operations(after), problem)
        finally:
            transaction.set_rollback(True)


def _preview(
    applied: Applied,
    dependents: tuple[Dependent, ...],
    before: tuple[Operation, ...] | None,
    after: tuple[Operation, ...] | None,
    problem: str,
) -> ProposalPreview:
    datasets = applied.generation.datasets if applied.generation is not None else ()
    known = set(before or ())
    return ProposalPreview(
        changes=applied.changes,
        datasets=tuple(dataset for dataset in datasets if dataset.anything),
        dependents=dependents,
        operations=None if after is None else tuple(operation for operation in after if operation not in known),
        not_planned=problem,
        fingerprint=applied.fingerprint,
    )


def _basis(source: SourceDataset) -> tuple[Basis | None, str]:
    """Return the inputs of a report on what a source can affect, or None and the reason why none can be planned."""
    try:
        return gather(environment=current_environment(), scope=Scope(), datasets=_affected(source)), ""
    except Refused as refused:
        return None, refused.message


def _affected(source: SourceDataset) -> QuerySet[TargetDataset]:
    targets = TargetDataset.objects.filter(generated_from=source).values_list("pk", flat=True)
    return neighbourhood(list(targets))


def _operations(basis: Basis | None) -> tuple[Operation, ...] | None:
    return None if basis is None else basis.planned.within(None).operations


def _dependents(source: SourceDataset, names: Collection[str]) -> tuple[Dependent, ...]:
    """Return what loses a column with these columns of a source, without the generated columns retired along."""
    origins = _origins(source)
    along = {(row.dataset_id, f"column {row.name}") for row, read in origins.items() if read <= set(names)}
    readers = [reader for row, read in origins.items() if read & set(names) for reader in of_column_retirement(row)]
    return tuple(reader for reader in dict.fromkeys(readers) if (reader.dataset.pk, reader.what) not in along)


def _origins(source: SourceDataset) -> dict[TargetColumn, set[str]]:
    """Return the source columns that each column of a source's own targets reads, through these targets."""
    names = {row.pk: row.name for row in source.columns.all()}
    columns = TargetColumn.objects.filter(dataset__generated_from=source, active=True)
    rows = {row.pk: row for row in columns.select_related("dataset__schema").prefetch_related("inputs")}
    read: dict[int, set[str]] = {}

    def origin(pk: int) -> set[str]:
        if pk not in read:
            read[pk] = set()
            for item in rows[pk].inputs.all() if pk in rows else ():
                known = names.get(item.source_column_id or 0)
                read[pk] |= {known} if known else origin(item.upstream_column_id) if item.upstream_column_id else set()
        return read[pk]

    return {row: origin(pk) for pk, row in rows.items()}
