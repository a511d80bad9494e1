"""Queries of the rules that decide which rows a load of a dataset brings, for its state."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
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
from metadata.models import QualityCheck, SourceColumn

_SOURCE = ("format", "options", "intake", "new_columns")
# Fields of inputs that ``rules_of_rows`` needs.
SOURCE_FIELDS = tuple(f"source__{name}" for name in _SOURCE)
_TYPE = ("data_type", "length", "precision", "scale")
_Row = Mapping[str, Any]


def holding_back(dataset: Any) -> QuerySet[QualityCheck]:
    """Return the checks of a dataset that keep its rows out."""
    return QualityCheck.objects.filter(dataset=dataset, active=True, severity__in=HOLDING_BACK)


def rules_of_rows(
    inputs: Iterable[_Row], references: Iterable[_Row], checked: Collection[int]
) -> Mapping[int, dict[str, dict[str, Any]]]:
    """Return the parts of datasets' load policies by the dataset's pk: sources, checks and ghost rows.

    ``inputs`` have the dataset, the key and ``SOURCE_FIELDS``; ``checked`` are the datasets with checks that keep rows
    out. The number of queries does not depend on the number of datasets.
    """
    rules: dict[int, dict[str, dict[str, Any]]] = defaultdict(lambda: {"sources": {}, "checks": {}, "ghost_rows": {}})
    read = [row for row in inputs if row["source_id"]]
    columns = _column_rules({row["source_id"] for row in read if columns_decide(row["source__options"])})
    for row in read:
        rule = source_rules(**{name: row[f"source__{name}"] for name in _SOURCE}, columns=columns[row["source_id"]])
        rules[row["dataset_id"]]["sources"][str(row["key"])] = rule
    checks = QualityCheck.objects.filter(dataset__pk__among=checked, active=True, severity__in=HOLDING_BACK)
    for check in checks if checked else ():
        rule = check_rules(check.kind, check.severity, check.rule.arguments)
        rules[check.dataset_id]["checks"][str(check.key)] = rule
    for row in references:
        if row["unknown_parent"] == GHOST:
            rules[row["parent_id"]]["ghost_rows"][str(row["key"])] = str(row["child__key"])
    return rules


def _column_rules(sources: Collection[int]) -> Mapping[int, dict[str, str]]:
    """Return the rules of the active columns of these sources by the source's pk."""
    rules: dict[int, dict[str, str]] = defaultdict(dict)
    rows = SourceColumn.objects.filter(dataset__pk__among=sources, active=True).order_by("key")
    for row in rows.values("dataset_id", "key", "key_ordinal", "nullable", *_TYPE) if sources else ():
        type_ = str(DataType(*(row[name] for name in _TYPE)))
        rule = column_rule(type=type_, key_ordinal=row["key_ordinal"], nullable=row["nullable"])
        rules[row["dataset_id"]][str(row["key"])] = rule
    return rules
