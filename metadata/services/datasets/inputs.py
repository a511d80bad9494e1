"""Inputs of target datasets and of their columns, as rows."""

from collections.abc import Iterable, Mapping

from elevata.core.errors import MetadataError
from metadata.domain.sql import check_expression
from metadata.models import ColumnInput, DatasetInput, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.services.rows.checks import with_place
from metadata.services.rows.row_changes import remove, store, store_all


def link_dataset(dataset: TargetDataset, inputs: Iterable[SourceDataset | TargetDataset]) -> bool:
    """Set the dataset's input rows; return True if they differed."""
    wanted = list(inputs)
    existing = {item.read_dataset: item for item in dataset.inputs.select_related("source", "upstream")}
    if list(existing) == wanted:
        return False
    if dataset in wanted:
        raise MetadataError("cycle", "a dataset cannot read itself", "inputs", str(dataset))
    for upstream, item in existing.items():
        if upstream not in wanted:
            reading = sorted(set(item.column_inputs.values_list("column__name", flat=True)))
            if reading:
                message = f"columns still read {upstream}: {', '.join(reading)}"
                raise MetadataError("in_use", message, "inputs", str(dataset))
            remove([item])
    for ordinal, upstream in enumerate(wanted, start=1):
        side = "source" if isinstance(upstream, SourceDataset) else "upstream"
        item = existing.get(upstream) or DatasetInput(dataset=dataset, **{side: upstream})
        if item.pk is None or item.ordinal != ordinal:
            item.ordinal = ordinal
            store(item)
    refuse_cycle(dataset)
    return True


def datasets_read() -> dict[int, list[int]]:
    """Return the target datasets that each one reads, by primary key; a history reads its base."""
    edges: dict[int, list[int]] = {}
    for reader, upstream in DatasetInput.objects.filter(upstream__isnull=False).values_list(
        "dataset_id", "upstream_id"
    ):
        edges.setdefault(reader, []).append(upstream)
    for base, history in TargetDataset.objects.filter(history_of__isnull=False).values_list("history_of_id", "id"):
        edges.setdefault(history, []).append(base)
    return edges


def refuse_cycle(dataset: TargetDataset, edges: Mapping[int, list[int]] | None = None) -> None:
    """Refuse a dataset that reads itself, directly or indirectly; ``edges`` as ``datasets_read`` returns them."""
    path = cycle_of(dataset.pk, datasets_read() if edges is None else edges)
    if path:
        names = {row.pk: str(row) for row in TargetDataset.objects.filter(pk__in=path).select_related("schema")}
        circle = " → ".join(names[pk] for pk in (*path, dataset.pk))
        message = f"would read itself over its inputs: {circle}"
        raise MetadataError("cycle", message, "inputs", str(dataset))


def cycle_of(dataset: int, edges: Mapping[int, list[int]]) -> tuple[int, ...]:
    """Return the datasets over which a dataset reads itself, beginning with it; empty if it does not."""
    paths: dict[int, tuple[int, ...]] = {}
    pending: list[tuple[int, tuple[int, ...]]] = [(read, (dataset,)) for read in edges.get(dataset, ())]
    while pending:
        reached, path = pending.pop()
        if reached == dataset:
            return path
        if reached not in paths:
            paths[reached] = (*path, reached)
            pending += [(read, paths[reached]) for read in edges.get(reached, ())]
    return ()


def link_column(column: TargetColumn, inputs: Iterable[SourceColumn | TargetColumn]) -> bool:
    """Set the column's input rows; return True if they differed.

    Columns of other datasets than the inputs are refused.
    """
    wanted = list(dict.fromkeys(inputs))
    existing = [item.read_column for item in column.inputs.all()]
    if existing == wanted:
        return False
    rows = column_inputs(column, wanted, list(column.dataset.inputs.all()))
    remove(column.inputs.all())
    store_all(rows)
    return True


def column_inputs(
    column: TargetColumn, inputs: Iterable[SourceColumn | TargetColumn], dataset_inputs: Iterable[DatasetInput]
) -> list[ColumnInput]:
    """Return the unsaved input rows of a column; columns of other datasets than the inputs are refused."""
    rows_of = list(dataset_inputs)
    available = {item.source_id or -(item.upstream_id or 0): item for item in rows_of}
    rows = []
    for ordinal, reads in enumerate(dict.fromkeys(inputs), start=1):
        from_source = isinstance(reads, SourceColumn)
        dataset_input = available.get(reads.dataset_id if from_source else -reads.dataset_id)
        dataset_input = dataset_input or _history_of(reads, rows_of)
        if dataset_input is None:
            raise MetadataError(
                "foreign_input",
                f"{reads} does not belong to an input of {column.dataset}",
                "inputs",
                str(column),
            )
        side = "source_column" if from_source else "upstream_column"
        rows.append(ColumnInput(column=column, dataset_input=dataset_input, ordinal=ordinal, **{side: reads}))
    return rows


def _history_of(column: SourceColumn | TargetColumn, inputs: Iterable[DatasetInput]) -> DatasetInput | None:
    """Return the input that is the history of a column's dataset, whose columns it has."""
    if isinstance(column, SourceColumn):
        return None
    histories = ((item, item.upstream) for item in inputs if item.upstream is not None)
    return next((item for item, upstream in histories if upstream.history_of_id == column.dataset_id), None)


def columns_named_in(column: TargetColumn) -> list[SourceColumn | TargetColumn]:
    """Return the columns of the dataset's inputs that an expression names, by input in order."""
    if not column.expression:
        return []
    names: list[str] = []
    with_place(column, lambda: names.extend(check_expression(column.expression)))
    columns: list[SourceColumn | TargetColumn] = []
    for item in column.dataset.inputs.all():
        by_name = {row.name.lower(): row for row in item.read_dataset.columns.filter(active=True)}
        columns += [by_name[name.lower()] for name in names if name.lower() in by_name]
    return columns


def same_named(dataset: TargetDataset, name: str) -> list[SourceColumn | TargetColumn]:
    """Return the column of this name in the first input that has one: the default input of a column."""
    for item in dataset.inputs.all():
        column = item.read_dataset.columns.filter(active=True, name__iexact=name).first()
        if column is not None:
            return [column]
    return []
