"""Values that pages and the API show beside the stored ones: computed columns, counts, stable ids."""

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Prefetch, Q, QuerySet

from metadata.domain import naming
from metadata.filtersets import called
from metadata.models import SourceDataset, TargetColumn, TargetDataset, TargetSchema
from metadata.selectors import (
    Lineage,
    ShownColumn,
    described_columns,
    history_columns,
    target_dataset_detail,
    target_datasets,
)

_HEAD = ("schema", "generated_from__system", "history__schema")


def headed() -> QuerySet[TargetDataset]:
    """Datasets with what the head of their pages shows."""
    return target_datasets().select_related(*_HEAD, "history_of__schema")


def details() -> QuerySet[TargetDataset]:
    """Datasets with all that their page shows; of history datasets, their bases with the same."""
    # A base that came with its row would not be prefetched, so it must not come with it.
    whole = target_dataset_detail().select_related(None).select_related(*_HEAD)
    return whole.prefetch_related(Prefetch("history_of", target_dataset_detail()))


def shown_columns(dataset: TargetDataset) -> tuple[ShownColumn, ...]:
    """The columns of a dataset as its table or view has them, technical ones included."""
    if dataset.history_of_id is not None:
        return history_columns(dataset)
    run_id, loaded_at = naming.LOAD_COLUMNS
    load_columns = (
        ShownColumn(run_id, "string", "load run"),
        ShownColumn(loaded_at, "timestamp", "load time"),
    )
    if dataset.materialization == TargetDataset.Materialization.VIEW:
        return described_columns(dataset)
    if dataset.schema.layer == TargetSchema.Layer.RAW:
        return (*described_columns(dataset), *load_columns)
    return (
        ShownColumn(naming.entity_key_name(dataset.name), "string", "entity key"),
        *described_columns(dataset),
        ShownColumn("row_hash", "string", "row hash"),
        *load_columns,
    )


def retired_columns(dataset: TargetDataset) -> tuple[TargetColumn, ...]:
    """Columns that were put out of use; the table still has them."""
    described = dataset.history_of or dataset
    return tuple(column for column in described.columns.all() if not column.active)


def may_refer(dataset: TargetDataset) -> bool:
    """Return whether rows of a dataset can refer to others: its layer has keys, and it is no history."""
    keyed = dataset.history_of_id is None and dataset.schema.layer not in naming.KEYLESS_LAYERS
    return dataset.active and keyed


@dataclass(frozen=True)
class LayerCount:
    """Number of active datasets of a layer; histories are counted as a layer of their own."""

    layer: str
    label: str
    count: int


def layer_counts() -> list[LayerCount]:
    """Every layer in its order, in one query."""
    active = TargetDataset.objects.filter(active=True)
    counts = {
        (row["schema__layer"], row["is_history"]): row["count"]
        for row in active.order_by()
        .annotate(is_history=Q(history_of__isnull=False))
        .values("schema__layer", "is_history")
        .annotate(count=Count("pk"))
    }
    found = []
    for value, label in TargetSchema.Layer.choices:
        found.append(LayerCount(value, label, counts.get((value, False), 0)))
        if value == TargetSchema.Layer.RAWCORE:
            histories = sum(count for (_, is_history), count in counts.items() if is_history)
            found.append(LayerCount("history", "History", histories))
    return found


def stable_keys(lineage: Lineage) -> dict[str, UUID]:
    """The stable key of every node, by its id."""
    keys: dict[str, UUID] = {}
    for kind, model in (("source", SourceDataset), ("target", TargetDataset)):
        pks = [node.pk for node in lineage.nodes if node.id.startswith(kind)]
        keys |= {f"{kind}:{pk}": key for pk, key in model.objects.filter(pk__among=pks).values_list("pk", "key")}
    return keys


def found_by(datasets: Iterable[TargetDataset], text: str) -> dict[int, str]:
    """Return the reason why a dataset matches a search, by its row, where its own name does not.

    A former name or a column.
    """
    rows, wanted = list(datasets), text.rpartition(".")[2].strip().lower()
    if not wanted:
        return {}
    why = {row.pk: f"formerly {', '.join(row.former_names)}" for row in rows if _has(row.former_names, wanted)}
    unnamed = [row.pk for row in rows if row.pk not in why and wanted not in row.name.lower()]
    columns = TargetColumn.objects.filter(dataset__in=unnamed).filter(called(wanted)).order_by("ordinal", "id")
    for dataset, name, former in columns.values_list("dataset", "name", "former_names"):
        said = f"column {name}" + (f", formerly {', '.join(former)}" if _has(former, wanted) else "")
        why.setdefault(dataset, said)
    return why


def _has(names: Iterable[str], wanted: str) -> bool:
    return any(wanted in name.lower() for name in names)
