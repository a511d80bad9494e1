"""All that is described of target datasets, as the export needs it: of every column at once."""

from collections import defaultdict
from dataclasses import dataclass

from django.db.models import Prefetch, QuerySet

from metadata import selectors
from metadata.models import ColumnInput, TargetColumn, TargetDataset


def described_targets() -> QuerySet[TargetDataset]:
    """Target datasets with what describes them and their columns; what those read, ``ends_read`` has for all."""
    return (
        TargetDataset.objects.filter(history_of__isnull=True)
        .select_related("schema", "generated_from__system", "history")
        .prefetch_related(
            Prefetch("columns", TargetColumn.objects.order_by("ordinal", "id")),
            Prefetch("inputs", selectors.datasets_read()),
            Prefetch("references", selectors.references()),
        )
    )


@dataclass(frozen=True)
class EndRead:
    """A column that a column reads; ``dataset`` is its dataset's name, with its system or schema."""

    is_source: bool
    dataset: str
    column: str


def ends_read() -> dict[int, list[EndRead]]:
    """Return the inputs of every column of a target dataset, in order, by the column's row.

    One query, and no models.
    """
    source, upstream = "source_column__dataset", "upstream_column__dataset"
    found: dict[int, list[EndRead]] = defaultdict(list)
    rows = ColumnInput.objects.order_by("column_id", "ordinal", "id").values_list(
        *("column_id", f"{source}__system__short_name", f"{source}__name", "source_column__name"),
        *(f"{upstream}__schema__name", f"{upstream}__name", "upstream_column__name"),
    )
    for column, system, source_name, source_column, schema, name, upstream_column in rows.iterator():
        found[column].append(
            EndRead(True, f"{system}.{source_name}", source_column)
            if source_column is not None
            else EndRead(False, f"{schema}.{name}", upstream_column)
        )
    return found
