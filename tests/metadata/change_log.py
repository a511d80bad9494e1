"""Expected change-log entries, computed from tables before and after, and metadata to change."""

import json
from collections.abc import Callable
from typing import Any

from django.apps import apps

from elevata.audit.models import ChangeLogEntry, Versioned
from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from elevata.notifications.models import Webhook
from metadata.models import Reference, TargetColumn, TargetDataset
from metadata.services import lifecycle, references
from metadata.services.datasets import generation
from metadata.services.rows import subjects
from tests.factories import (
    SourceColumnFactory,
    SourceDatasetFactory,
    airport_source,
)

# Models that describe the warehouse. Webhooks have versions, too, but their service writes its own log entries.
MODELS = [
    model
    for model in apps.get_app_config("metadata").get_models()
    if issubclass(model, Versioned) and model is not Webhook
]
LINKS = {"DatasetInput": ("dataset_id", "inputs"), "ColumnInput": ("column_id", "inputs")}
LINKS["ReferencePair"] = ("reference_id", "pairs")
OWNERS = {"DatasetInput": "TargetDataset", "ColumnInput": "TargetColumn", "ReferencePair": "Reference"}
KINDS = {
    "System": "system",
    "SourceDataset": "source_dataset",
    "SourceColumn": "source_column",
    "TargetSchema": "schema",
    "TargetDataset": "dataset",
    "TargetColumn": "column",
    "Reference": "reference",
}
WHOLES = {"SourceColumn": "SourceDataset", "TargetColumn": "TargetDataset"}


# --- entries and snapshots -----------------------------------------------------------------------


def entries() -> list[ChangeLogEntry]:
    return list(ChangeLogEntry.objects.order_by("id"))


def told() -> list[tuple[str, str, str]]:
    return [(entry.action, entry.subject_kind, entry.subject_name) for entry in entries()]


def changes(entry: ChangeLogEntry) -> dict[str, dict[str, Any]]:
    return json.loads(entry.changes)


def snapshot() -> dict[tuple[str, int], dict[str, Any]]:
    """Return all rows of the metadata tables."""
    return {(model.__name__, row["id"]): row for model in MODELS for row in model.objects.values()}


def expected(before: dict, after: dict) -> dict[tuple[str, str], set[str]]:
    """Return the changed objects with their changed fields, computed from the tables alone."""
    changed: dict[tuple[str, int], set[str]] = {}
    for row_id in {*before, *after}:
        old, new = before.get(row_id, {}), after.get(row_id, {})
        if old == new:
            continue
        model, pk = row_id
        if model in LINKS:
            owned_by, field = LINKS[model]
            owner = (OWNERS[model], (new or old)[owned_by])
            changed.setdefault(owner, set()).add(field)
        else:
            differing = {name for name in {*old, *new} if old.get(name) != new.get(name)}
            changed.setdefault(row_id, set()).update(differing - subjects.UNLOGGED)
    result = {}
    for (model, pk), fields in changed.items():
        row = after.get((model, pk)) or before[model, pk]
        whole = (WHOLES.get(model), row.get("dataset_id"))
        if model in WHOLES and whole in after and whole not in before:
            result.setdefault((KINDS[whole[0]], str(after[whole]["key"])), set()).add("columns")
        elif fields:
            result.setdefault(
                (KINDS[model], subjects.stable_key(apps.get_model("metadata", model), row)), set()
            ).update(_logged_names(fields, row))
    return {
        row_id: {name for name in fields if _has_value(name, row_id, before, after)}
        for row_id, fields in result.items()
    }


def _logged_names(fields: set[str], row: dict) -> set[str]:
    parts = {"data_type", "length", "precision", "scale"} if "data_type" in row else set()
    return {"type" if name in parts else name.removesuffix("_id") for name in fields}


def _has_value(name: str, row_id: tuple[str, str], before: dict, after: dict) -> bool:
    """Return False for a field that is empty before and after, as an empty description of a new row."""
    if name in ("type", "inputs", "pairs", "columns"):
        return True
    model = {kind: model for model, kind in KINDS.items()}[row_id[0]]
    for state in (before, after):
        for (kind_model, _), row in state.items():
            if kind_model == model and subjects.stable_key(apps.get_model("metadata", model), row) == row_id[1]:
                value = row.get(name, row.get(f"{name}_id"))
                if value not in (None, "", [], {}):
                    return True
    return False


def generated() -> TargetDataset:
    generation.generate_targets(source_dataset=airport_source())
    return TargetDataset.objects.get(name="rc_air_airport")


def referring() -> Reference:
    parent = generated()
    child = SourceDatasetFactory(system__short_name="net", name="route")
    SourceColumnFactory(dataset=child, name="route_no", key_ordinal=1)
    SourceColumnFactory(dataset=child, name="origin")
    generation.generate_targets(source_dataset=child)
    routes = TargetDataset.objects.get(name="rc_net_route")
    pair = (routes.columns.get(name="origin"), parent.columns.get(name="icao"))
    return references.create_reference(child=routes, parent=parent, role_name="origin", pairs=[pair])


def column(dataset: TargetDataset, name: str) -> TargetColumn:
    return dataset.columns.get(name=name)


def retired_dataset() -> TargetDataset:
    dataset = generated()
    return lifecycle.retire_dataset(dataset=dataset, expected_version=dataset.version)


def retired_column() -> TargetColumn:
    return lifecycle.retire_column(column=column(generated(), "name"), expected_version=1)


def current(row: Any) -> dict[str, Any]:
    return {"expected_version": type(row).objects.get(pk=row.pk).version}


def taken_back(work: Callable[[], Any]) -> None:
    with writing():
        work()
        raise MetadataError("no", "not after all")
