"""Edits of many datasets, columns and sources: previewed by row, written in one transaction, and undone as one.

A preview makes the edits and rolls them back, so it finds the reasons that the edits themselves would find.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from django.db import transaction

from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import FieldChange, field_change
from elevata.audit.services.change_log import EMPTY, plain
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError, StaleVersion, as_sentence
from metadata.domain.bulk_edits import BUSINESS_KEY, MOST_ROWS, RETIRE, changes_of
from metadata.models import DatasetInput, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column, update_target_dataset
from metadata.services.lifecycle import (
    rename_column,
    rename_dataset,
    retire_column,
    retire_dataset,
    unretire_column,
    unretire_dataset,
)
from metadata.services.rows.lowered_classification import must_stay_classified
from metadata.services.rows.row_changes import ChangedRows, changed_rows
from metadata.services.sources import update_source_dataset

Row = TargetDataset | TargetColumn | SourceDataset


@dataclass(frozen=True)
class _Services:
    """Services that change a kind of row, which they take as the argument ``keyword``.

    Sources are renamed and retired on their pages only.
    """

    keyword: str
    update: Callable[..., Row]
    rename: Callable[..., Row] | None = None
    retire: Callable[..., Row] | None = None
    restore: Callable[..., Row] | None = None


_SERVICES: Mapping[type[Row], _Services] = {
    TargetDataset: _Services("dataset", update_target_dataset, rename_dataset, retire_dataset, unretire_dataset),
    TargetColumn: _Services("column", update_target_column, rename_column, retire_column, unretire_column),
    SourceDataset: _Services("source_dataset", update_source_dataset),
}


@dataclass(frozen=True)
class RowEdit:
    """Edit of one row in the version that the user saw, or the reason why it cannot be made.

    ``row`` is None for a row that does not exist any more. ``undoes`` is True for the undo of a logged change, which
    the undo of another change can make, too: after a rename, expressions follow.
    """

    name: str
    row: Row | None = None
    version: int = 0
    changes: Mapping[str, Any] = field(default_factory=dict)
    problem: MetadataError | None = None
    undoes: bool = False

    @property
    def fields(self) -> tuple[FieldChange, ...]:
        """Return the changed fields, before and after; none of an edit that cannot be made."""
        row = self.row
        if row is None:
            return ()
        return tuple(field_change(name, field_value(row, name), value) for name, value in self.changes.items())

    @property
    def reason(self) -> str:
        return as_sentence(self.problem.message) if self.problem is not None else ""

    def refused(self, problem: MetadataError) -> RowEdit:
        return replace(self, problem=problem)


class EditsRefused(MetadataError):
    """Error of a bulk edit in which a row cannot be changed; nothing was written."""

    def __init__(self, edits: Collection[RowEdit]) -> None:
        problems = [edit.problem for edit in edits if edit.problem is not None]
        codes = {problem.code for problem in problems}
        names = ", ".join(edit.name for edit in edits if edit.problem is not None)
        message = "cannot be changed as previewed; nothing was changed"
        super().__init__(codes.pop() if len(codes) == 1 else "bad_rows", message, where=names)
        self.edits = tuple(edits)


def edits_of(rows: Iterable[Row], action: str, value: Any, versions: Mapping[UUID, int] | None = None) -> list[RowEdit]:
    """Return the edits of an action (``metadata.domain.bulk_edits``); ``versions`` default to the current ones."""
    edits = []
    for row in rows:
        wanted = changes_of(action, value, tags=row.tags)
        changes = {name: value for name, value in wanted.items() if getattr(row, name) != value}
        problem = None if changes else MetadataError("no_change", "nothing changes")
        if action == RETIRE and isinstance(row, TargetDataset) and row.history_of_id is not None:
            problem = MetadataError("invalid", "a history is retired with its base dataset")
        version = row.version if versions is None else versions[row.key]
        edits.append(RowEdit(str(row), row, version, changes, problem))
    return edits


def preview_edits(edits: Collection[RowEdit]) -> list[RowEdit]:
    """Return the edits with the reason of each that would be refused now; nothing is written."""
    with writing():
        _lock(edits)
        result = _attempt_all(edits)
        transaction.set_rollback(True)
    return result


def apply_edits(edits: Collection[RowEdit], reason: str = "") -> ChangeLogEntry | None:
    """Make all edits or none, and return an entry of them. Raise EditsRefused with the reason by row.

    Inside another unit of work, which writes the entries, it returns None.
    """
    with writing(reason) as unit:
        _lock(edits)
        result = _attempt_all(edits)
        if any(edit.problem for edit in result):
            raise EditsRefused(result)
    return unit.entry


def _lock(edits: Collection[RowEdit]) -> None:
    """Lock the datasets in the same order in all bulk edits and previews, to avoid deadlocks.

    Raise MetadataError ``too_many`` for more than MOST_ROWS edits.
    """
    if len(edits) > MOST_ROWS:
        raise MetadataError("too_many", f"at most {MOST_ROWS} rows are changed at once, not {len(edits)}")
    rows = [edit.row for edit in edits if edit.row is not None]
    sources = {row.pk for row in rows if isinstance(row, SourceDataset)}
    targets = [row for row in rows if not isinstance(row, SourceDataset)]
    pks = {row.dataset_id if isinstance(row, TargetColumn) else row.pk for row in targets}
    for model, locked in ((TargetDataset, pks), (SourceDataset, sources)):
        if locked:
            list(model.objects.select_for_update().filter(pk__in=locked).order_by("pk").values_list("pk"))


def _attempt_all(edits: Iterable[RowEdit]) -> list[RowEdit]:
    """Return the edits, made where possible; an edit that needs others of them is tried again after those."""
    wanted = list(edits)
    result = [_attempt(edit) for edit in wanted]
    refused = [place for place, edit in enumerate(result) if edit.problem is not None]
    while refused:
        for place in refused:
            result[place] = _attempt(wanted[place])
        left = [place for place in refused if result[place].problem is not None]
        if len(left) == len(refused):
            break
        refused = left
    return result


def _attempt(edit: RowEdit) -> RowEdit:
    if edit.undoes and _is_made(edit):
        return replace(edit, problem=None)
    if edit.problem is not None or edit.row is None:
        return edit
    try:
        with writing(), changed_rows() as tracker:
            _write(edit.row, _expected_version(edit, tracker), dict(edit.changes))
            images = tracker.before.get(type(edit.row), {})
            if edit.row.pk in images:  # of this row alone: the rows before it have passed
                must_stay_classified({type(edit.row): {edit.row.pk: images[edit.row.pk]}})
    except StaleVersion as stale:
        return edit.refused(MetadataError(stale.code, "was changed by another user since the preview", stale.field))
    except MetadataError as problem:
        return edit.refused(problem)
    return edit


def _is_made(edit: RowEdit) -> bool:
    """Return True if the stored row has the values of the edit."""
    row = None if edit.row is None else type(edit.row)._base_manager.filter(pk=edit.row.pk).first()
    if row is None or not edit.changes:
        return False
    return all(
        (value := field_value(row, name)) == wanted or (value in EMPTY and wanted in EMPTY)
        for name, wanted in edit.changes.items()
    )


def _expected_version(edit: RowEdit, tracker: ChangedRows) -> int:
    """Return the version that the user saw, or the current one if this unit of work has changed the row since."""
    assert edit.row is not None
    image = tracker.before.get(type(edit.row), {}).get(edit.row.pk)
    if image is None or image["version"] != edit.version:
        return edit.version
    return type(edit.row)._base_manager.values_list("version", flat=True).get(pk=edit.row.pk)


def _write(row: Row, version: int, changes: dict[str, Any]) -> None:
    services = _SERVICES[type(row)]
    subject: dict[str, Any] = {services.keyword: row}
    active, name = changes.pop("active", None), changes.pop("name", None)
    if name is not None:
        assert services.rename is not None
        version = services.rename(**subject, name=name, expected_version=version).version
    if "inputs" in changes:
        assert isinstance(row, TargetColumn)
        changes["inputs"] = _inputs_named(row, changes["inputs"])
    if changes:
        version = services.update(**subject, expected_version=version, **changes).version
    if active is not None:
        change = services.restore if active else services.retire
        assert change is not None
        change(**subject, expected_version=version)


def field_value(row: Row, name: str) -> Any:
    """Return a field as the change log has it."""
    if name == "inputs" and isinstance(row, TargetColumn):
        return [str(item.read_column) for item in row.inputs.order_by("ordinal", "id")]
    if name == BUSINESS_KEY:
        assert not isinstance(row, TargetColumn)
        keys = row.columns.filter(active=True, key_ordinal__isnull=False)
        return list(keys.order_by("key_ordinal").values_list("name", flat=True))
    value = getattr(row, name)
    return str(value) if name == "type" else plain(value)


def _inputs_named(column: TargetColumn, names: Iterable[str]) -> list[SourceColumn | TargetColumn]:
    """Return the columns with these names in the inputs of the column's dataset."""
    datasets = [item.read_dataset for item in column.dataset.inputs.order_by("ordinal", "id")]
    columns = {str(other): other for dataset in datasets for other in dataset.columns.all()}
    for name in names:
        if name not in columns:
            message = f"it read {name}, which its dataset does not read any more; choose its inputs on its page"
            raise MetadataError("changed_since", message, "inputs")
    return [columns[name] for name in names]


def reader_counts(rows: Iterable[TargetDataset]) -> dict[int, int]:
    """Return the number of active datasets that read each of these, by primary key; none are left out."""
    links = DatasetInput.objects.filter(upstream__in=[row.pk for row in rows], dataset__active=True)
    counts: dict[int, int] = {}
    for pk in links.order_by().values_list("upstream", flat=True):
        counts[pk] = counts.get(pk, 0) + 1
    return counts
