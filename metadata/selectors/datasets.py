"""Queries of sources and target datasets."""

from django.db.models import Count, Model, OuterRef, Prefetch, Q, QuerySet, Subquery
from django.db.models.functions import Coalesce

from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)


def _count_of(model: type[Model], owner: str, **conditions: bool) -> Coalesce:
    """Return an expression for the number of rows of each owner.

    A subquery counts only for the rows of a page; a join would count for all rows.
    """
    rows = model._default_manager.filter(**{owner: OuterRef("pk")}, **conditions).order_by().values(owner)
    return Coalesce(Subquery(rows.annotate(count=Count("pk")).values("count")), 0)


def systems() -> QuerySet[System]:
    return System.objects.annotate(dataset_count=_count_of(SourceDataset, "system"))


def source_datasets() -> QuerySet[SourceDataset]:
    """Return source datasets with their system and their number of active columns."""
    rows = SourceDataset.objects.annotate(column_count=_count_of(SourceColumn, "dataset", active=True))
    return rows.select_related("system")


def source_dataset_detail() -> QuerySet[SourceDataset]:
    return source_datasets().prefetch_related("columns", "generated__schema")


def schemas() -> QuerySet[TargetSchema]:
    return TargetSchema.objects.annotate(dataset_count=_count_of(TargetDataset, "schema"))


def tags_by_key() -> dict[str, list[str]]:
    """Return the tags of all datasets by stable key."""
    return {str(key): tags for key, tags in TargetDataset.objects.values_list("key", "tags")}


def schema_names() -> list[str]:
    """Return the names of the schemas, in their order."""
    return list(TargetSchema.objects.values_list("name", flat=True))


def target_datasets() -> QuerySet[TargetDataset]:
    """Return target datasets with their number of active columns; 0 for histories, which have their base's columns."""
    rows = TargetDataset.objects.annotate(column_count=_count_of(TargetColumn, "dataset", active=True))
    return rows.select_related("schema", "generated_from__system", "history_of__schema")


def datasets_by_name(*names: str) -> QuerySet[TargetDataset]:
    """Return the target datasets and histories of these qualified names, ignoring case."""
    wanted = Q(pk__in=())
    for name in names:
        schema, _, own = name.partition(".")
        wanted |= Q(schema__name__iexact=schema, name__iexact=own)
    return TargetDataset.objects.filter(wanted).select_related("schema")


def dataset_called(name: str) -> TargetDataset | SourceDataset | None:
    """Return the target dataset ``schema.name``, else the source ``system.name``, ignoring case."""
    system, _, own = name.partition(".")
    sources = SourceDataset.objects.filter(system__short_name__iexact=system, name__iexact=own)
    return datasets_by_name(name).select_related("history_of").first() or sources.select_related("system").first()


def source_columns() -> QuerySet[SourceColumn]:
    """Return source columns with their dataset."""
    return SourceColumn.objects.select_related("dataset__system")


def target_columns() -> QuerySet[TargetColumn]:
    """Return target columns with their dataset and inputs."""
    return TargetColumn.objects.select_related("dataset__schema").prefetch_related(Prefetch("inputs", _column_inputs()))


def _column_inputs() -> QuerySet[ColumnInput]:
    """Return the inputs of columns with their datasets, ordered within each column.

    There is no order of columns, which would join their tables and is not needed for prefetched rows.
    """
    rows = ColumnInput.objects.select_related("source_column__dataset__system", "upstream_column__dataset__schema")
    return rows.order_by("ordinal", "id")


def datasets_read() -> QuerySet[DatasetInput]:
    """Return the inputs of datasets with their systems and schemas, ordered within each dataset."""
    return DatasetInput.objects.select_related("source__system", "upstream__schema").order_by("ordinal", "id")


def references() -> QuerySet[Reference]:
    """Return references with their child and parent datasets and column pairs."""
    pairs = ReferencePair.objects.select_related("child_column", "parent_column").order_by("id")
    rows = Reference.objects.select_related("child__schema", "parent__schema")
    return rows.prefetch_related(Prefetch("pairs", pairs))


def target_dataset_detail() -> QuerySet[TargetDataset]:
    """Return target datasets with everything that their page shows, in a constant number of queries."""
    columns = TargetColumn.objects.order_by("ordinal", "id").prefetch_related(Prefetch("inputs", _column_inputs()))
    rows = references()
    return target_datasets().prefetch_related(
        Prefetch("columns", columns),
        Prefetch("inputs", datasets_read()),
        Prefetch("feeds", DatasetInput.objects.select_related("dataset__schema")),
        Prefetch("references", rows),
        Prefetch("referenced_by", rows),
    )
