"""Columns of a dataset for pages and the API."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from elevata.comments.selectors import with_comment_count
from metadata.domain import naming
from metadata.filtersets import called
from metadata.models import SourceDataset, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.dataset_lineage import Lineage
from metadata.selectors.datasets import target_dataset_detail, target_datasets
from metadata.selectors.history_columns import ShownColumn, described_columns, history_columns

_HEAD = ("schema", "generated_from__system", "history__schema")


def headed() -> QuerySet[TargetDataset]:
    """Return datasets with the values that the head of their pages shows."""
    return with_comment_count(target_datasets(), "dataset").select_related(*_HEAD, "history_of__schema")


def details() -> QuerySet[TargetDataset]:
    """Return datasets with everything that their page shows; history datasets with their bases'."""
    # The base is prefetched, because nothing could be prefetched for a base that is joined.
    whole = target_dataset_detail().select_related(None).select_related(*_HEAD)
    return with_comment_count(whole, "dataset").prefetch_related(Prefetch("history_of", target_dataset_detail()))


def shown_columns(dataset: TargetDataset) -> tuple[ShownColumn, ...]:
    """Return the columns of a dataset's table or view, including technical columns."""
    if dataset.history_of_id is not None:
        return history_columns(dataset)
    run_id, loaded_at = naming.LOAD_COLUMNS
    load_columns = (
        ShownColumn(run_id, "string", "load run"),
        ShownColumn(loaded_at, "timestamp", "load time"),
    )
    is_plain_model = bool(dataset.select) and not dataset.historize
    if is_plain_model or dataset.materialization == TargetDataset.Materialization.VIEW:
        return described_columns(dataset)
    if dataset.schema.layer == TargetSchema.Layer.RAW:
        source_file, source_row = naming.PROVENANCE_COLUMNS
        provenance = (
            ShownColumn(source_file, "string", "source file"),
            ShownColumn(source_row, "bigint", "source row"),
            ShownColumn(naming.LOAD_DAY, "date", "load day"),
        )
        return (*described_columns(dataset), *load_columns, *provenance)
    return (
        ShownColumn(naming.entity_key_name(dataset.name), "string", "entity key"),
        *described_columns(dataset),
        ShownColumn("row_hash", "string", "row hash"),
        *load_columns,
    )


def retired_columns(dataset: TargetDataset) -> tuple[TargetColumn, ...]:
    """Return the retired columns, which the table still has."""
    described = dataset.history_of or dataset
    return tuple(column for column in described.columns.all() if not column.active)


def may_refer(dataset: TargetDataset) -> bool:
    """Return True if rows of a dataset can refer to others: its layer has keys, and it is no history."""
    keyed = dataset.history_of_id is None and dataset.schema.layer not in naming.KEYLESS_LAYERS
    return dataset.active and keyed


@dataclass(frozen=True)
class LayerCount:
    """Number of active datasets of a layer; histories are counted as a layer of their own."""

    layer: str
    label: str
    count: int


def layer_counts() -> list[LayerCount]:
    """Return the number of datasets of every layer, in order, in one query."""
    active = TargetDataset.objects.filter(active=True)
    counts = {
        (row["schema__layer"], row["is_history"]): row["count"]
        for row in active.order_by()
        .annotate(is_history=Q(history_of__isnull=False))
        .values("schema__layer", "is_history")
        .annotate(count=Count("pk"))
    }
    layers = []
    for value, label in TargetSchema.Layer.choices:
        layers.append(LayerCount(value, label, counts.get((value, False), 0)))
        if value == TargetSchema.Layer.RAWCORE:
            histories = sum(count for (_, is_history), count in counts.items() if is_history)
            layers.append(LayerCount("history", "History", histories))
    return layers


def stable_keys(lineage: Lineage) -> dict[str, UUID]:
    """Return the stable key of every node, by its id."""
    keys: dict[str, UUID] = {}
    for kind, model in (("source", SourceDataset), ("target", TargetDataset)):
        pks = [node.pk for node in lineage.nodes if node.id.startswith(kind)]
        keys |= {f"{kind}:{pk}": key for pk, key in model.objects.filter(pk__among=pks).values_list("pk", "key")}
    return keys


def found_by(datasets: Iterable[TargetDataset], text: str) -> dict[int, str]:
    """Return the reason why a dataset matches a search, by its row, if its own name does not.

    The reason is a former name or a column.
    """
    rows, wanted = list(datasets), text.rpartition(".")[2].strip().lower()
    if not wanted:
        return {}
    why = {row.pk: f"formerly {', '.join(row.former_names)}" for row in rows if _has(row.former_names, wanted)}
    unnamed = [row.pk for row in rows if row.pk not in why and wanted not in row.name.lower()]
    columns = TargetColumn.objects.filter(dataset__in=unnamed).filter(called(wanted)).order_by("ordinal", "id")
    for dataset, name, former in columns.values_list("dataset", "name", "former_names"):
        message = f"column {name}" + (f", formerly {', '.join(former)}" if _has(former, wanted) else "")
        why.setdefault(dataset, message)
    return why


def _has(names: Iterable[str], wanted: str) -> bool:
    return any(wanted in name.lower() for name in names)
