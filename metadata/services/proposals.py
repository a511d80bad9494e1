"""Addition of delivered columns that the contract does not have yet."""

from collections.abc import Iterable, Mapping

from elevata.core.errors import MetadataError
from metadata.domain.proposals import ColumnProposals, DeliveredColumn, compare
from metadata.domain.types import parse
from metadata.models import SourceDataset
from metadata.services.common import claim, store, writing
from metadata.services.generation import Summary, generate_targets
from metadata.services.sources import create_source_column


def propose_columns(source_dataset: SourceDataset, delivered: Iterable[Mapping[str, str]]) -> ColumnProposals:
    """Return the differences between the contract and a file's columns, ``[{"name", "type"}]``."""
    known = [DeliveredColumn(column.name, column.type, column.active) for column in source_dataset.columns.all()]
    return compare(known, [_delivered(item) for item in delivered])


def take_columns(*, source_dataset: SourceDataset, proposals: Iterable[Mapping[str, str]]) -> Summary:
    """Add proposed columns to the contract and generate the targets; known columns are not changed.

    An inactive column becomes active again, otherwise unchanged.
    """
    with writing():
        dataset = SourceDataset.objects.select_for_update().get(pk=source_dataset.pk)
        found = propose_columns(dataset, proposals)
        if found.clashing:
            raise MetadataError(
                "name_taken",
                f"differs only by case from a column that is there already: {found.clashing[0].name!r}",
                "name",
                str(dataset),
            )
        for column in found.new:
            create_source_column(source_dataset=dataset, name=column.name, type=column.type)
        for column in found.returning:
            row = dataset.columns.get(name=column.name)
            row = claim(row, row.version)
            row.active = True
            store(row)
        return generate_targets(source_dataset=dataset)


def _delivered(item: Mapping[str, str]) -> DeliveredColumn:
    unknown = set(item) - {"name", "type"}
    if unknown or not isinstance(item.get("name"), str) or not isinstance(item.get("type"), str):
        raise MetadataError("invalid", f"a proposal has a name and a type, both text, not {dict(item)!r}")
    return DeliveredColumn(item["name"], parse(item["type"]))
