"""Answers about delivered rows for pages: the origin of a key, and what was made of a row."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from metadata.domain.sensitivity import is_mask
from metadata.models import DatasetInput, SourceDataset, TargetDataset, TargetSchema


@dataclass(frozen=True)
class Origin:
    """Delivered row of a key: its raw table, load run, file and row number; ``source`` is None if it is unknown.

    ``opened``: the run opened a version of the key.
    """

    raw: str
    run_id: str
    loaded_at: str
    file: str | None
    number: str | None
    opened: bool
    source: SourceDataset | None


def origins(answer: Mapping[str, Any]) -> list[Origin]:
    """Return the rows of an answer to a read of kind origin, with the sources of their raw tables."""
    names = {row[0] for row in answer["rows"]}
    inputs = DatasetInput.objects.filter(source__isnull=False, dataset__schema__layer=TargetSchema.Layer.RAW)
    sources = {
        str(item.dataset): item.source
        for item in inputs.select_related("source__system", "dataset__schema")
        if str(item.dataset) in names
    }
    return [
        Origin(raw, run_id, loaded_at, file, number, opened == "true", sources.get(raw))
        for raw, run_id, loaded_at, file, number, opened in answer["rows"]
    ]


@dataclass(frozen=True)
class StoredKey:
    """Key of a table that has a delivered row: its versions, and if one is current or was opened by the delivery.

    ``entity_key`` is empty for a reader who may not see it.
    """

    dataset: TargetDataset | None
    name: str
    entity_key: str
    versions: int
    current: bool
    opened: bool


def descendants(answer: Mapping[str, Any]) -> list[StoredKey]:
    """Return the rows of an answer to a read of kind descendants, with their datasets."""
    names = {row[0] for row in answer["rows"]}
    datasets = TargetDataset.objects.filter(schema__name__in={name.partition(".")[0] for name in names})
    by_name = {str(row): row for row in datasets.select_related("schema", "history_of__schema") if str(row) in names}
    return [
        StoredKey(
            by_name[name].history_of or by_name[name] if name in by_name else None,
            name,
            "" if is_mask(key) else key,
            int(versions),
            current == "true",
            opened == "true",
        )
        for name, key, versions, current, opened in answer["rows"]
    ]
