"""Requested parts of the lineage of columns, and suggestions of names."""

from __future__ import annotations

from uuid import UUID

from django.db.models import QuerySet

from metadata.domain.column_lineage import BOTH, HISTORY, SOURCE, TARGET, ColumnLineage
from metadata.filtersets import called
from metadata.models import SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.selectors.column_lineage import MOST_STEPS, ColumnId, dataset_columns, lineage_of, whole_lineage
from metadata.selectors.datasets import dataset_called

# A lineage of more datasets is not drawn or read as a whole.
DRAWN = 300


def requested(focus: str, column: str, up: int = MOST_STEPS, down: int = MOST_STEPS) -> ColumnLineage | None:
    """Return the lineage of a column (by id), or of the dataset or column named ``focus``; else that of everything.

    Return None for unknown names, and for everything if there are more than ``DRAWN`` datasets.
    """
    if column or focus.strip():
        starts = starts_at(column) if column else starts_named(focus.strip())
        return lineage_of(starts, BOTH, up, down) if starts else None
    count = TargetDataset.objects.filter(active=True).count() + SourceDataset.objects.filter(active=True).count()
    return whole_lineage() if count <= DRAWN else None


def starts_at(node_id: str) -> list[ColumnId]:
    """Return the column with an id ``<kind>:<key>`` as a start; [] for an unknown one."""
    kind, _, text = node_id.partition(":")
    try:
        key = UUID(text)
    except ValueError:
        return []
    rows: dict[str, QuerySet] = {
        SOURCE: SourceColumn.objects.filter(key=key),
        TARGET: TargetColumn.objects.filter(key=key),
        HISTORY: TargetColumn.objects.filter(key=key, dataset__history__isnull=False),
    }
    return [(kind, pk) for pk in rows[kind].values_list("pk", flat=True)] if kind in rows else []


def starts_named(name: str) -> list[ColumnId]:
    """Return the columns of the dataset with a qualified name, or the column; [] for an unknown name."""
    for of_dataset in (name, name.rpartition(".")[0]):
        dataset = dataset_called(of_dataset) if "." in of_dataset else None
        ids = dataset_columns(dataset) if dataset is not None else []
        if ids and of_dataset != name:
            ids = _called(ids, name.rpartition(".")[2])
        if ids:
            return ids
    return []


def _called(ids: list[ColumnId], name: str) -> list[ColumnId]:
    """Return the column of a name among the columns of one dataset."""
    kind = ids[0][0]
    rows = (SourceColumn if kind == SOURCE else TargetColumn).objects.filter(pk__among=[pk for _, pk in ids])
    return [(kind, pk) for pk in rows.filter(name__iexact=name).values_list("pk", flat=True)]


def suggestions(text: str, most: int = 20) -> list[str]:
    """Return qualified names of datasets and columns whose name or former name contains the last part of a text."""
    wanted = text.rpartition(".")[2].strip()
    if not wanted:
        return []
    datasets = TargetDataset.objects.filter(called(wanted), active=True).select_related("schema")
    columns = TargetColumn.objects.filter(called(wanted), active=True).select_related("dataset__schema")
    sources = SourceColumn.objects.filter(name__icontains=wanted, active=True).select_related("dataset__system")
    return [str(row) for rows in (datasets, columns, sources) for row in rows[:most]][:most]
