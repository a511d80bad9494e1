"""Decisions on proposals to change a source's contract, and what they change."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.urls import reverse
from django.utils import timezone

from architecture.services.environments import current_environment
from elevata.accounts.access import holders
from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from elevata.audit.services.change_log import record_change
from elevata.audit.services.transactions import writing
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from elevata.jobs.states import may_become
from elevata.notifications.kinds import Kind
from elevata.notifications.services import mark_settled, tell
from loader.domain.sources.proposal_states import ACCEPTED, DISMISSED, OPEN, STEPS, SUPERSEDED
from loader.domain.sources.schema_changes import (
    GONE,
    NARROWER,
    NEW,
    RECASED,
    RENAMED,
    RETURNING,
    RETYPED,
    ContractColumn,
    SchemaChange,
    fingerprint,
    remaining,
    split_rename,
    with_joined,
)
from loader.models import SourceProposal
from metadata.domain.scope import DATASET, Scope
from metadata.domain.types import STRING, DataType, parse
from metadata.models import SourceColumn, SourceDataset, TargetDataset
from metadata.services.datasets.generation_preview import GenerationPreview, generate_following
from metadata.services.source_contracts import ContractChanges, ImportedColumn, change_contract

SUBJECT = "source proposal"
_NAMED = 3


def contract_of(source: SourceDataset) -> list[ContractColumn]:
    """Return the columns of a source's contract, retired ones included."""
    return [ContractColumn(row.name, row.type, row.active) for row in source.columns.all()]


def open_changes(proposal: SourceProposal) -> tuple[SchemaChange, ...]:
    """Return the changes of a proposal that its contract does not have yet."""
    return remaining(proposal.schema_changes, contract_of(proposal.source))


def report_scope(source: SourceDataset) -> Scope | None:
    """Return the scope of a report with all targets of a source: its last dataset with what that reads."""
    rows = TargetDataset.objects.filter(generated_from=source, history_of__isnull=True, active=True)
    by_layer = {row.schema.layer: row for row in rows.select_related("schema").order_by("pk")}
    last = next((by_layer[layer] for layer in ("rawcore", "stage", "raw") if layer in by_layer), None)
    return None if last is None else Scope(DATASET, str(last))


@dataclass(frozen=True)
class Applied:
    """Result of accepted changes: the changes, those that are left, and the generation of the targets.

    ``generation`` is None for a source without targets.
    """

    changes: tuple[SchemaChange, ...]
    left: tuple[SchemaChange, ...]
    generation: GenerationPreview | None

    @property
    def fingerprint(self) -> str:
        """Return the SHA-256 of the changes and of what they generate."""
        generated = self.generation.fingerprint if self.generation is not None else ""
        return sha256_hex([[change.as_json() for change in self.changes], generated])


def accept_proposal(
    *,
    proposal: SourceProposal,
    take: Collection[str],
    split: Collection[str] = (),
    previewed: str = "",
    reason: str = "",
) -> Applied:
    """Make the changes with the ids in ``take``, all or nothing; what is left stays open as a proposal of its own.

    ``split`` are ids of renames that are none: their columns are gone and new. An id ``renamed:FORMER>NAME`` in
    ``take`` joins a column that is gone and one that is new. ``previewed`` is the fingerprint of the preview that the
    user saw, if any. Raise MetadataError ``proposal_closed``, ``nothing_chosen``,
    ``proposal_changed``, or those of the edits, which the user must be permitted to make.
    """
    with writing(reason):
        row = claim_proposal(proposal)
        applied = apply_changes(row, take=take, split=split)
        if previewed and applied.fingerprint != previewed:
            message = "the contract or its targets have changed since the preview; nothing was changed. Reload the page"
            raise MetadataError("proposal_changed", message, where=str(row))
        end_proposal(row, ACCEPTED, accepted=[change.id for change in applied.changes], reason=reason)
        _log("accepted", row, applied.changes)
        if not all(change.is_held for change in applied.left):
            SourceProposal.objects.create(
                source=row.source,
                changes=[change.as_json() for change in applied.left],
                fingerprint=fingerprint(applied.left),
                run=row.run,
                last_seen_at=row.last_seen_at,
            )
        return applied


def dismiss_proposal(*, proposal: SourceProposal, reason: str = "") -> SourceProposal:
    """Dismiss a proposal; loads and schedules do not propose the same changes again.

    Raise MetadataError ``proposal_closed`` or ``not_permitted``.
    """
    with writing(reason):
        row = claim_proposal(proposal)
        user = current_actor().user
        if user is not None and not may(user, Permission.CHANGE_METADATA):
            raise MetadataError("not_permitted", f"dismissing it needs the editor role, {user}", where=str(row))
        end_proposal(row, DISMISSED, reason=reason)
        _log("dismissed", row, row.schema_changes)
        return row


def apply_changes(proposal: SourceProposal, *, take: Collection[str], split: Collection[str]) -> Applied:
    """Make the chosen changes of a proposal in its contract and targets; the caller opens the unit of work."""
    parts = [
        part
        for change in open_changes(proposal)
        for part in (split_rename(change) if change.id in split and change.kind == RENAMED else (change,))
    ]
    changes = with_joined(parts, take)
    chosen = tuple(change for change in changes if change.id in take)
    if not chosen:
        raise MetadataError("nothing_chosen", "choose at least one change", "take", str(proposal))
    if unknown := sorted(set(take) - {change.id for change in changes}):
        message = f"the proposal or its contract has changed meanwhile: {unknown[0]} is no open change; reload it"
        raise MetadataError("proposal_changed", message, "take", str(proposal))
    source, rows = proposal.source, {row.name: row for row in SourceColumn.objects.filter(dataset=proposal.source)}
    change_contract(source_dataset=source, changes=_contract_changes(chosen, rows))
    generation = None
    if source.generated.exists():
        generation = generate_following(source_dataset=source, retyped=_retyped(chosen, rows))
    left = tuple(change for change in changes if change not in chosen)
    return Applied(chosen, remaining(left, contract_of(source)), generation)


def _contract_changes(chosen: Iterable[SchemaChange], rows: Mapping[str, SourceColumn]) -> ContractChanges:
    of: dict[str, list[SchemaChange]] = {}
    for change in chosen:
        of.setdefault(change.kind, []).append(change)
    edits: dict[str, dict[str, Any]] = {}
    for change in (*of.get(RENAMED, ()), *of.get(RECASED, ()), *of.get(RETYPED, ())):
        former = change.former or change.name
        type_ = _new_type(change)
        edits[former] = ({"name": change.name} if change.former else {}) | ({"type": type_} if type_ else {})
    retire = tuple(change.name for change in of.get(GONE, ()))
    bring_back = tuple(change.name for change in of.get(RETURNING, ()))
    seen = {name: rows[name].version for name in (*edits, *retire, *bring_back) if name in rows}
    added = tuple(ImportedColumn(change.name, parse(change.after or STRING)) for change in of.get(NEW, ()))
    return ContractChanges(add=added, change=edits, bring_back=bring_back, retire=retire, seen=seen)


def _new_type(change: SchemaChange) -> DataType | None:
    """Return the type that a column of the contract gets; None if its own holds the source's."""
    if change.kind == RETYPED or change.relation not in ("", NARROWER):
        return parse(change.after)
    return None


def _retyped(chosen: Iterable[SchemaChange], rows: Mapping[str, SourceColumn]) -> dict[UUID, DataType]:
    """Return the former types of the columns that get another one, by stable key."""
    columns = ((rows.get(change.former or change.name), _new_type(change)) for change in chosen)
    return {row.key: row.type for row, type_ in columns if row is not None and type_ is not None}


def claim_proposal(proposal: SourceProposal) -> SourceProposal:
    """Lock source and proposal; return the proposal. Raise MetadataError ``proposal_closed`` unless it is open."""
    SourceDataset.objects.select_for_update(of=("self",)).get(pk=proposal.source_id)
    row = SourceProposal.objects.select_related("source__system", "run").get(pk=proposal.pk)
    if row.status != OPEN:
        raise _closed(row)
    return row


def end_proposal(proposal: SourceProposal, status: str, *, accepted: Collection[str] = (), reason: str = "") -> None:
    """End an open proposal by compare-and-set, and mark its notices as read."""
    user = current_actor().user if status != SUPERSEDED else None
    values = {"accepted": list(accepted), "decided_by": user, "decided_at": timezone.now(), "reason": reason[:1000]}
    still_open = SourceProposal.objects.filter(pk=proposal.pk, status__in=may_become(status, STEPS))
    if not still_open.update(status=status, **values):
        raise _closed(SourceProposal.objects.get(pk=proposal.pk))
    mark_settled(subject_kind=SUBJECT, subject_key=str(proposal.key))


def _closed(proposal: SourceProposal) -> MetadataError:
    message = f"was {proposal.status} already; nothing was changed"
    return MetadataError("proposal_closed", message, where=str(proposal))


def _log(action: str, proposal: SourceProposal, changes: Iterable[SchemaChange]) -> None:
    record_change(
        action=action,
        subject_kind=SUBJECT,
        subject_key=str(proposal.key),
        subject_name=str(proposal),
        after={"changes": [change.describe() for change in changes]},
        dataset_key=proposal.source.key,
    )


def in_words(changes: Iterable[SchemaChange]) -> str:
    words = [change.describe() for change in changes if not change.is_held]
    more = f" and {len(words) - _NAMED} more" if len(words) > _NAMED else ""
    return "; ".join(words[:_NAMED]) + more


def tell_editors(proposal: SourceProposal, title: str) -> None:
    """Notify the users who may edit contracts."""
    source, changes = proposal.source, proposal.schema_changes
    tell(
        event=Kind.SOURCE_CHANGED,
        subject_kind=SUBJECT,
        subject_key=str(proposal.key),
        subject_name=str(proposal),
        title=title,
        link=reverse("source_proposal", args=[proposal.key]),
        users=holders(Permission.CHANGE_METADATA, Place()),
        environment=current_environment().name,
        facts={
            "source": str(source),
            "status": str(proposal.status),
            "changes": [change.as_json() for change in changes],
        },
    )
