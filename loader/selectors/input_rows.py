"""Rows of the inputs of a model that have the key of one of its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from loader.services.reads.read_permissions import may_read
from metadata.domain.column_lineage import TARGET, UPSTREAM
from metadata.models import TargetColumn, TargetDataset, TargetSchema
from metadata.selectors.column_lineage import lineage_of

_LAYER = TargetSchema.Layer
# Layers whose rows have keys.
_WITH_KEYS = (_LAYER.RAWCORE, _LAYER.BIZCORE, _LAYER.SERVING)


@dataclass(frozen=True)
class InputRows:
    """Rows of an input with the values of the model's key in these columns.

    ``is_key``: the columns are the input's business key, so it is one row. ``address`` is the page of the rows.
    """

    dataset: TargetDataset
    columns: tuple[tuple[str, str], ...]
    is_key: bool

    @property
    def address(self) -> str:
        """Return the address of the rows, by the first column of the key."""
        name, value = self.columns[0]
        query = {"column": name, "comparison": "equals", "value": value}
        return f"{reverse('dataset_data', args=[self.dataset.key])}?{urlencode(query)}"


def input_rows(model: TargetDataset, values: Sequence[str], user: Any) -> list[InputRows]:
    """Return the inputs of a model to which columns of its key lead unchanged, the nearest first.

    ``values`` are those of the key in order. Inputs whose data the user may not read are left out.
    """
    keys = _business_key(model)
    if not keys or len(keys) != len(values):
        return []
    lineage = lineage_of([(TARGET, own.pk) for own in keys], UPSTREAM)
    reached: dict[str, dict[str, str]] = {}
    for own, value in zip(keys, values, strict=True):
        for node in lineage.passed_on(f"{TARGET}:{own.key}"):
            if node.kind == TARGET and node.layer in _WITH_KEYS:
                reached.setdefault(node.dataset_key, {})[node.name] = value
    rows = TargetDataset.objects.filter(key__among=list(reached)).select_related("schema").prefetch_related("columns")
    by_key = {str(row.key): row for row in rows}
    inputs = []
    for key, columns in reached.items():
        dataset = by_key[key]
        own_key = {own.name for own in _business_key(dataset)}
        if may_read(user, dataset):
            inputs.append(InputRows(dataset, tuple(columns.items()), is_key=bool(own_key) and own_key <= set(columns)))
    return inputs


def _business_key(dataset: TargetDataset) -> list[TargetColumn]:
    role = TargetColumn.Role.BUSINESS_KEY
    return [own for own in dataset.columns.all() if own.active and own.role == role]
