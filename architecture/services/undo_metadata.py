"""Undo in the metadata: what an execution changed is described again as it was before."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db.models import Q

from architecture.domain import operations as ops
from architecture.domain.planning.matching import as_known
from architecture.domain.states.flat_states import flat
from architecture.domain.undo.dataset_undo import BEFORE, LEFT, State, undone
from architecture.domain.undo.undo import Ground
from architecture.domain.undo.undo_groups import NAME, NULLABLE, TABLE, THERE, TYPE, USE, UndoGroup
from elevata.audit.services.transactions import writing
from metadata.domain.state import DatasetState
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.dataset_states import dataset_states
from metadata.services.datasets.targets import update_target_column
from metadata.services.lifecycle import (
    rename_column,
    rename_dataset,
    retire_column,
    retire_dataset,
    unretire_column,
    unretire_dataset,
)


@dataclass(frozen=True)
class MetadataUndo:
    """Undo of one group in the metadata: ``edit`` changes it back, as ``text`` says.

    Without ``edit`` nothing has to be changed, or it cannot be changed here (``stays``).
    """

    text: str = ""
    edit: Callable[[str], Any] | None = None
    stays: bool = False


_NOTHING, _STAYS = MetadataUndo(), MetadataUndo(stays=True)


@dataclass(frozen=True)
class Described:
    """Described dataset with its flat state, which has the environment's stable keys."""

    dataset: TargetDataset
    state: DatasetState

    def column(self, key: str) -> TargetColumn | None:
        """Return the described column with a stable key of the environment."""
        names = {column.key: column.name for column in self.state.columns}
        return next((column for column in self.dataset.columns.all() if column.name == names.get(key)), None)


def described_by_key(groups: Iterable[UndoGroup], ground: Ground) -> dict[str, Described]:
    """Return the described datasets of these groups by the environment's stable keys."""
    keys = {group.dataset_key for group in groups}
    applied = [ground.applied[key] for key in keys if key in ground.applied]
    # A dataset whose key changed is found by its name.
    names = {state.name for state in applied}
    rows = TargetDataset.objects.filter(Q(key__among=keys) | Q(name__in=names), history_of__isnull=True)
    by_name = {str(row): row for row in rows.select_related("schema").prefetch_related("columns")}
    states = map(flat, as_known(dataset_states(rows), applied).states)
    return {state.key: Described(by_name[state.qualified_name], state) for state in states if state.key in keys}


def undo_metadata(groups: Iterable[UndoGroup], ground: Ground, reason: str) -> tuple[UndoGroup, ...]:
    """Change the metadata of these groups back for the current actor; return the groups whose metadata stays.

    Columns of models follow the datasets that they read, so models come last. Raises MetadataError if a change is
    refused. Call in a transaction.
    """
    groups = tuple(groups)
    models = {key for key, item in described_by_key(groups, ground).items() if item.dataset.select}
    stays = []
    for group in sorted(groups, key=lambda group: (group.dataset_key in models, -group.ordinals[0])):
        # Read anew, because the edits before may have changed it.
        undo = metadata_undo(group, ground, described_by_key([group], ground).get(group.dataset_key))
        if undo.edit is not None:
            undo.edit(reason)
        elif undo.stays:
            stays.append(group)
    return tuple(stays)


def metadata_undo(group: UndoGroup, ground: Ground, item: Described | None) -> MetadataUndo:
    """Return the undo of a group in the metadata, in which its dataset is ``item``."""
    if item is None:
        return _NOTHING if group.of_base(ops.CREATE_TABLE) else _STAYS
    dataset, state = item.dataset, item.state
    result = undone(group, state, ground.before.get(group.dataset_key), ground.left.get(group.dataset_key))
    if result.found == BEFORE or (result.found == LEFT and result.state == state):
        return _NOTHING
    if result.found != LEFT:
        return _STAYS
    if not group.column_key and group.aspect in (TABLE, NAME, USE):
        return _of_dataset(group, dataset, result.state)
    if dataset.select:
        return _STAYS
    columns = {column.name: column for column in dataset.columns.all()}
    changed = _changed_columns(state, result.state)
    edits = [_of_column(group, columns[name], after) for name, after in changed.items() if name in columns]
    if not edits or any(edit.edit is None for edit in edits):
        return _STAYS
    return MetadataUndo("; ".join(edit.text for edit in edits), partial(_make_all, edits))


def _make_all(edits: Iterable[MetadataUndo], reason: str) -> None:
    for undo in edits:
        if undo.edit is not None:
            undo.edit(reason)


def _changed_columns(state: DatasetState, after: State) -> dict[str, Any]:
    """Return the columns after the undo that differ, by their names now; None for a removed one."""
    columns = {column.key: column for column in after.columns} if after is not None else {}
    return {column.name: columns.get(column.key) for column in state.columns if columns.get(column.key) != column}


def _of_dataset(group: UndoGroup, dataset: TargetDataset, after: State) -> MetadataUndo:
    def undo(text: str, service: Callable[..., Any], **values: Any) -> MetadataUndo:
        return MetadataUndo(text, lambda reason: _current(service, dataset=dataset, reason=reason, **values))

    if after is None:
        return undo(f"{dataset} is retired", retire_dataset) if dataset.active else _NOTHING
    if group.aspect == NAME:
        if after.schema != dataset.schema.name:
            return _STAYS
        return undo(f"{dataset} is renamed to {after.name}", rename_dataset, name=after.name)
    if group.aspect == USE and after.active != dataset.active:
        retires = dataset.active
        verb, service = ("retired", retire_dataset) if retires else ("used again", unretire_dataset)
        return undo(f"{dataset} is {verb}", service)
    return _STAYS


def _of_column(group: UndoGroup, column: TargetColumn, after: Any) -> MetadataUndo:
    def undo(text: str, service: Callable[..., Any], **values: Any) -> MetadataUndo:
        return MetadataUndo(text, lambda reason: _current(service, column=column, reason=reason, **values))

    if group.aspect == THERE and after is None:
        return undo(f"{column.name} is retired", retire_column) if column.active else _NOTHING
    if after is None:
        return _STAYS
    if group.aspect == NAME:
        return undo(f"{column.name} is renamed to {after.name}", rename_column, name=after.name)
    if group.aspect == TYPE:
        return undo(f"{column.name} is {after.type} again", _update_column, type=after.type)
    if group.aspect == NULLABLE:
        return undo(f"{column.name} may be empty again", _update_column, nullable=after.nullable)
    if group.aspect == USE:
        verb, service = ("used again", unretire_column) if after.active else ("retired", retire_column)
        return undo(f"{column.name} is {verb}", service)
    return _STAYS


def _update_column(*, column: TargetColumn, expected_version: int, reason: str, **changes: Any) -> None:
    with writing(reason):
        update_target_column(column=column, expected_version=expected_version, **changes)


def _current(service: Callable[..., Any], *, reason: str, **row: Any) -> Any:
    """Call a service with the row in its current version: an edit before may have changed it, too."""
    (known,) = (value for value in row.values() if isinstance(value, TargetDataset | TargetColumn))
    known.refresh_from_db()
    return service(**row, expected_version=known.version, reason=reason)
