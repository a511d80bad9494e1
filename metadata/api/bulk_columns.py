"""Columns of a bulk request: those of one dataset are updated and created together.

The dataset is checked once, after the last row, so that two columns can swap their positions in the business key.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from elevata.api.resources import Editable
from elevata.core.errors import MetadataError
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.column_batches import BatchProblem, ColumnEdit, edit_target_columns

if TYPE_CHECKING:
    _Mixed = Editable
else:
    _Mixed = object
from metadata.api.bulk import CREATE, UPDATE, BulkRun, keys_named


@dataclass(frozen=True)
class _PlacedEdit:
    """Edit of a column, with its list and position in the request."""

    list: str
    position: int
    edit: ColumnEdit


def write_columns(run: BulkRun, made: Sequence[Mapping[str, Any]], changed: Sequence[Mapping[str, Any]]) -> None:
    """Update and create columns by dataset. Record problems with their rows."""
    for dataset, placed in _by_dataset(run, made, changed).items():
        try:
            rows = edit_target_columns(dataset=dataset, edits=[item.edit for item in placed])
        except BatchProblem as problem:
            _record_problems(run, placed, problem)
        else:
            for item, row in zip(placed, rows, strict=True):
                run.rows[item.list][item.position] = row


def lock_datasets(given: Mapping[str, Any]) -> None:
    """Lock the datasets of the columns in the same order in all requests; pages lock the dataset first, too."""
    changed = TargetColumn.objects.filter(key__in=keys_named(given)).order_by().values("dataset")
    created = [row["dataset"].pk for row in given.get(CREATE, ())]
    datasets = TargetDataset.objects.filter(Q(pk__in=changed) | Q(pk__in=created))
    list(datasets.select_for_update().order_by("pk"))


def _by_dataset(
    run: BulkRun, made: Sequence[Mapping[str, Any]], changed: Sequence[Mapping[str, Any]]
) -> dict[TargetDataset, list[_PlacedEdit]]:
    edits: dict[TargetDataset, list[_PlacedEdit]] = defaultdict(list)
    for position, given in enumerate(changed):
        column: Any = run.seen(UPDATE, position, given)  # a TargetColumn
        if column is not None:
            values = {name: value for name, value in given.items() if name not in ("key", "version")}
            edit = ColumnEdit(column.name, values, column, given["version"])
            edits[column.dataset].append(_PlacedEdit(UPDATE, position, edit))
    for position, given in enumerate(made):
        values = {name: value for name, value in given.items() if name not in ("dataset", "name", "quoted_name")}
        edit = ColumnEdit(given["name"], values, quoted_name=given["quoted_name"])
        edits[given["dataset"]].append(_PlacedEdit(CREATE, position, edit))
    return edits


def _record_problems(run: BulkRun, placed: Sequence[_PlacedEdit], problem: BatchProblem) -> None:
    """Record problems with their rows; problems of the dataset as a whole with its first row."""
    rows = {row.edit.name: row for row in placed}
    for cell in problem.problems:
        row = rows.get(cell.column, placed[0])
        message = cell.message if cell.column in rows else f"{problem.where}: {cell.column} {cell.message}"
        run.note(row.list, row.position, MetadataError(cell.code, " ".join(message.split()), cell.field))
