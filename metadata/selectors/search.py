"""Metadata that the search finds."""

from typing import Any

from django.urls import reverse

from elevata.web.search import PageEntry, PageKind, RowKind
from metadata.models import Exposure, SourceColumn, SourceDataset, System, TargetColumn, TargetDataset, TargetSchema

_TEXTS: dict[str, Any] = {"texts": ("description",), "lists": ("tags",), "similar": True}

_SENSITIVE = ("pii", "personal", "confidential")


def _dataset_label(dataset: TargetDataset) -> str:
    if dataset.history_of_id is not None:
        return "History"
    return "Model" if dataset.select else "Dataset"


def _dataset_page(dataset: TargetDataset) -> str:
    return reverse("dataset_page", args=[dataset.key])


def _column_page(column: TargetColumn) -> str:
    return f"{_dataset_page(column.dataset)}#column-{column.key}"


def _target_columns(user: Any) -> Any:
    return TargetColumn.objects.select_related("dataset__schema").defer("expression", "dataset__select")


def _history_columns(user: Any) -> Any:
    """Return the columns whose values a history has; they are described with its base table."""
    columns = _target_columns(user).select_related("dataset__history__schema").defer("dataset__history__select")
    return columns.filter(dataset__history__active=True)


KINDS = (
    RowKind(
        "system",
        "System",
        lambda user: System.objects.all(),
        key=lambda row: row.short_name,
        page=lambda row: reverse("system_page", args=[row.short_name]),
        aliases=("short_name",),
        api="api-system-detail",
        **_TEXTS,
    ),
    RowKind(
        "source_dataset",
        "Source",
        lambda user: SourceDataset.objects.select_related("system"),
        page=lambda row: reverse("source_page", args=[row.key]),
        aliases=("short_name",),
        parents=("system__short_name",),
        within=lambda row: str(row.system),
        api="api-source-dataset-detail",
        **_TEXTS,
    ),
    RowKind(
        "source_column",
        "Source column",
        lambda user: SourceColumn.objects.select_related("dataset__system"),
        page=lambda row: reverse("source_page", args=[row.dataset.key]),
        parents=("dataset__name", "dataset__system__short_name"),
        within=lambda row: str(row.dataset),
        api="api-source-column-detail",
        **_TEXTS,
    ),
    RowKind(
        "schema",
        "Schema",
        lambda user: TargetSchema.objects.all(),
        key=lambda row: row.name,
        page=lambda row: f"{reverse('dataset_list')}?schema={row.name}",
        api="api-schema-detail",
        **_TEXTS,
    ),
    RowKind(
        "dataset",
        _dataset_label,
        lambda user: TargetDataset.objects.select_related("schema"),
        page=_dataset_page,
        former="former_names",
        parents=("schema__name",),
        within=lambda row: row.schema.name,
        api="api-dataset-detail",
        **_TEXTS,
    ),
    RowKind(
        "column",
        "Column",
        _target_columns,
        page=_column_page,
        former="former_names",
        parents=("dataset__name", "dataset__schema__name"),
        within=lambda row: str(row.dataset),
        api="api-column-detail",
        **_TEXTS,
    ),
    RowKind(
        "history_column",
        "History column",
        _history_columns,
        page=lambda row: _dataset_page(row.dataset.history),
        former="former_names",
        parents=("dataset__history__name", "dataset__history__schema__name"),
        within=lambda row: str(row.dataset.history),
        api="api-column-detail",
        **_TEXTS,
    ),
    RowKind(
        "exposure",
        "Exposure",
        lambda user: Exposure.objects.select_related("dataset__schema"),
        page=lambda row: reverse("dataset_contract", args=[row.dataset.key]),
        within=lambda row: str(row.dataset),
        similar=True,
        api="api-exposure-detail",
    ),
    PageKind(
        "page",
        "Page",
        (
            PageEntry("Datasets", "dataset_list", "tables views histories columns"),
            PageEntry("Sources", "source_list", "systems files databases topics"),
            PageEntry("Schemas", "schema_list", "layers"),
            PageEntry("Columns", "column_list", "fields attributes types tags owners"),
            PageEntry("Columns with personal data", "column_list", "pii gdpr privacy", "?pii=true"),
            PageEntry("Columns without a description", "column_list", "undescribed missing", "?described=false"),
            PageEntry("Columns with failed checks", "column_list", "failing quality", "?failing=true"),
            PageEntry("Favourite datasets", "dataset_list", "marked star", "?favourite=true"),
            PageEntry("Sensitive data", "sensitive_list", "restricted classified masked privacy", names=_SENSITIVE),
            PageEntry("Sensitive columns of sources", "sensitive_source_list", " ".join(_SENSITIVE)),
            PageEntry("Lineage by column", "column_lineage", "upstream downstream openlineage columns"),
            PageEntry("Change log", "change_list", "audit changes who edited"),
        ),
    ),
    PageKind(
        "action",
        "Action",
        (
            PageEntry("New dataset", "dataset_create", "create add table view"),
            PageEntry("New model", "model_create", "create add select sql"),
            PageEntry("New schema", "schema_create", "create add layer"),
            PageEntry("Import metadata", "metadata_import", "upload file yaml csv datasets columns sources"),
        ),
    ),
)
