"""Queries of the rules that decide which rows a load of a dataset brings, for its state."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from django.db.models import QuerySet

from metadata.domain.load_policy import (
    HOLDING_BACK,
    check_rules,
    column_rule,
    columns_decide,
    source_rules,
)
from metadata.domain.quality.unknown_parents import GHOST
from metadata.domain.types import DataType
from metadata.models import DatasetInput, QualityCheck, Reference, SourceColumn

_SOURCE = ("format", "options", "intake", "new_columns")
_TYPE = ("data_type", "length", "precision", "scale")


def rules_of_rows(datasets: QuerySet) -> Mapping[int, dict[str, dict[str, Any]]]:
    """Return the parts of these datasets' load policies by the dataset's pk: sources, checks and ghost rows.

    The number of queries does not depend on the number of datasets.
    """
    rules: dict[int, dict[str, dict[str, Any]]] = defaultdict(lambda: {"sources": {}, "checks": {}, "ghost_rows": {}})
    inputs = DatasetInput.objects.filter(dataset__in=datasets, source__isnull=False).order_by("source__key")
    read = list(inputs.values("dataset_id", "source_id", "source__key", *(f"source__{name}" for name in _SOURCE)))
    columns = _column_rules({row["source_id"] for row in read if columns_decide(row["source__options"])})
    for row in read:
        rule = source_rules(**{name: row[f"source__{name}"] for name in _SOURCE}, columns=columns[row["source_id"]])
        rules[row["dataset_id"]]["sources"][str(row["source__key"])] = rule
    checks = QualityCheck.objects.filter(dataset__in=datasets, active=True, severity__in=HOLDING_BACK).order_by("key")
    for dataset, key, *described in checks.values_list("dataset_id", "key", "kind", "severity", "arguments"):
        rules[dataset]["checks"][str(key)] = check_rules(*described)
    ghosts = Reference.objects.filter(parent__in=datasets, active=True, unknown_parent=GHOST).order_by("key")
    for parent, key, child in ghosts.values_list("parent_id", "key", "child__key"):
        rules[parent]["ghost_rows"][str(key)] = str(child)
    return rules


def _column_rules(sources: Collection[int]) -> Mapping[int, dict[str, str]]:
    """Return the rules of the active columns of these sources by the source's pk."""
    rules: dict[int, dict[str, str]] = defaultdict(dict)
    rows = SourceColumn.objects.filter(dataset__in=sources, active=True).order_by("key")
    for row in rows.values("dataset_id", "key", "key_ordinal", "nullable", *_TYPE) if sources else ():
        type_ = str(DataType(*(row[name] for name in _TYPE)))
        rule = column_rule(type=type_, key_ordinal=row["key_ordinal"], nullable=row["nullable"])
        rules[row["dataset_id"]][str(row["key"])] = rule
    return rules
