"""Forecast of an undo: the decision of the change policy, losses, the metadata, and alternatives of each group."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.urls import reverse

from architecture.domain.operations import BLOCKED, DECISIONS, Operation
from architecture.domain.undo import group_assignment
from architecture.domain.undo.losses import losses
from architecture.domain.undo.undo import Ground, undo_together
from architecture.domain.undo.undo_groups import NAME, TABLE, THERE, UndoGroup
from architecture.models import ExecutionRecord
from architecture.services.observations import Observations, last_observations
from architecture.services.undo import undo_basis
from architecture.services.undo_metadata import Described, MetadataUndo, described_by_key, metadata_undo
from architecture.services.undo_options import Offered, offered, undo_state
from elevata.core.errors import ProductError

# Groups of a record whose undo is planned for the forecast; that of more takes too long for a page.
MAX_PLANNED = 100
_NONE = ("", "")
_OF_DATASETS, _OF_COLUMNS = {TABLE: "retire", NAME: "rename"}, {THERE: "retire", NAME: "rename"}


@dataclass(frozen=True)
class Forecast:
    """Undo option with its consequences.

    ``operations`` are those of the undo report; they are not known if there are more options than ``MAX_PLANNED``.
    ``alternative`` are label and address of an edit that is possible instead.
    """

    offer: Offered
    operations: tuple[Operation, ...] = ()
    losses: tuple[str, ...] = ()
    metadata: MetadataUndo = field(default_factory=MetadataUndo)
    alternative: tuple[str, str] = _NONE

    def as_json(self) -> dict[str, Any]:
        return {
            **self.offer.as_json(),
            "decision": self.decision,
            "losses": list(self.losses),
            "metadata": self.metadata.text,
        }

    @property
    def decision(self) -> str:
        """Return the most severe decision of the change policy; empty if it is not known."""
        return max((operation.decision for operation in self.operations), key=DECISIONS.index, default="")

    @property
    def blocked(self) -> Operation | None:
        """Return the first operation that the change policy blocks."""
        return next((operation for operation in self.operations if operation.decision == BLOCKED), None)

    @property
    def possible(self) -> bool:
        """Return True if the option can be undone now and the change policy does not block it."""
        return self.offer.refused is None and self.blocked is None


def forecasts(record: ExecutionRecord) -> tuple[Forecast, ...]:
    """Return the undo options of a record in the order of undo, each with its forecast."""
    offers = offered(record)
    if not offers:
        return ()
    observations = last_observations(environment=record.environment)
    ground = undo_state(record, observations)
    possible = [offer.group for offer in reversed(offers) if offer.refused is None]
    operations = _operations(record, possible, ground, observations) if len(possible) <= MAX_PLANNED else {}
    rows = {key: size["rows"] for key, size in observations.sizes.items() if size.get("rows") is not None}
    described = described_by_key([offer.group for offer in offers], ground)

    def forecast(offer: Offered) -> Forecast:
        group, item = offer.group, described.get(offer.group.dataset_key)
        planned, metadata = operations.get(offer.ordinals, ()), metadata_undo(group, ground, item)
        made = Forecast(offer, planned, losses(offer.inverses, rows), metadata)
        return made if made.possible else replace(made, losses=(), alternative=_alternative(group, item))

    return tuple(map(forecast, offers))


def _operations(
    record: ExecutionRecord, groups: Sequence[UndoGroup], ground: Ground, observations: Observations
) -> dict[tuple[int, ...], tuple[Operation, ...]]:
    """Return the operations of the report that undoes these groups, by group; {} if it could not be created."""
    result = undo_together(groups, ground)
    if not result.groups:
        return {}
    try:
        made = undo_basis(record, result.states, observations).report()
    except ProductError:  # creating the report gives the reason
        return {}
    return group_assignment.by_group(result.groups, made.operations, ground.described)


def _alternative(group: UndoGroup, item: Described | None) -> tuple[str, str]:
    """Return label and address of the edit that comes closest to an undo that is not possible."""
    if item is None:
        return _NONE
    if not group.column_key:
        kind = _OF_DATASETS.get(group.aspect) if item.dataset.active else None
        return _edit(kind, "dataset", item.dataset.key)
    column = item.column(group.column_key)
    kind = _OF_COLUMNS.get(group.aspect) if column is not None and column.active else None
    return _edit(kind, "column", column.key if column is not None else "")


def _edit(kind: str | None, subject: str, key: Any) -> tuple[str, str]:
    return (f"{kind.capitalize()} {subject}", reverse(f"{subject}_{kind}", args=[key])) if kind else _NONE
