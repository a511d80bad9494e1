"""Columns of a bulk request: those of one dataset are changed and made at once.

So two columns may change places in the business key, and a dataset is checked as it is in the end, not as
it is after every row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q

from elevata.core.errors import MetadataError
from metadata.api.bulk import CREATE, UPDATE, BulkRun, keys_named
from metadata.models import TargetColumn, TargetDataset
from metadata.services.column_batches import BatchProblem, ColumnEdit, edit_target_columns


@dataclass(frozen=True)
class _Placed:
    """An edit, and where in the request it stands."""

    list: str
    position: int
    edit: ColumnEdit


def write_columns(run: BulkRun, made: Sequence[Mapping[str, Any]], changed: Sequence[Mapping[str, Any]]) -> None:
    """Change and make columns, dataset by dataset; what is refused is noted at its row."""
    for dataset, placed in _by_dataset(run, made, changed).items():
        try:
            rows = edit_target_columns(dataset=dataset, edits=[one.edit for one in placed])
        except BatchProblem as problem:
            _note(run, placed, problem)
        else:
            for one, row in zip(placed, rows, strict=True):
                run.rows[one.list][one.position] = row


def lock_datasets(given: Mapping[str, Any]) -> None:
    """Lock the datasets that columns are written of, in one order: their pages lock them first, too."""
    holding = TargetColumn.objects.filter(key__in=keys_named(given)).order_by().values("dataset")
    named = [row["dataset"].pk for row in given.get(CREATE, ())]
    wanted = TargetDataset.objects.filter(Q(pk__in=holding) | Q(pk__in=named))
    list(wanted.select_for_update().order_by("pk"))


def _by_dataset(
    run: BulkRun, made: Sequence[Mapping[str, Any]], changed: Sequence[Mapping[str, Any]]
) -> dict[TargetDataset, list[_Placed]]:
    found: dict[TargetDataset, list[_Placed]] = defaultdict(list)
    for position, given in enumerate(changed):
        column = run.seen(UPDATE, position, given)
        if column is not None:
            values = {name: value for name, value in given.items() if name not in ("key", "version")}
            edit = ColumnEdit(column.name, values, column, given["version"])
            found[column.dataset].append(_Placed(UPDATE, position, edit))
    for position, given in enumerate(made):
        values = {name: value for name, value in given.items() if name not in ("dataset", "name")}
        found[given["dataset"]].append(_Placed(CREATE, position, ColumnEdit(given["name"], values)))
    return found


def _note(run: BulkRun, placed: Sequence[_Placed], problem: BatchProblem) -> None:
    """Problems at their rows; what is wrong with the dataset as a whole stands at the first of them."""
    rows = {one.edit.name: one for one in placed}
    for cell in problem.problems:
        one = rows.get(cell.column, placed[0])
        said = cell.message if cell.column in rows else f"{problem.where}: {cell.column} {cell.message}"
        run.note(one.list, one.position, MetadataError(cell.code, " ".join(said.split()), cell.field))
