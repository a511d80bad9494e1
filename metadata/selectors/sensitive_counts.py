"""Numbers of sensitive columns by schema and system."""

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet, Value

from metadata.domain.column_lineage import SOURCE
from metadata.models import SourceColumn, TargetColumn
from metadata.selectors.sensitive_columns import PERSONAL, is_classified, places_of, sees_all, target_pks


@dataclass(frozen=True)
class SensitiveCount:
    """Number of sensitive columns of a schema or system, and of the personal ones among them."""

    name: str
    layer: str
    columns: int
    personal: int


def counts_by_schema(user: Any = None) -> dict[str, SensitiveCount]:
    """Return the numbers of active sensitive columns by schema, in the order of the layers.

    With a user, they are the numbers of ``target_columns``.
    """
    rows = TargetColumn.objects.filter(pk__among=target_pks(), active=True, dataset__active=True)
    rows = rows if user is None else rows.filter(places_of(user))
    personal, schema = Q(pk__among=target_pks(PERSONAL)), "dataset__schema"
    return _counts(rows, personal, f"{schema}__name", f"{schema}__layer", f"{schema}__ordinal")


def counts_by_system(user: Any = None) -> dict[str, SensitiveCount]:
    """Return the numbers of active sensitive columns by system; with a user, those of ``source_columns``."""
    rows = SourceColumn.objects.filter(is_classified(), active=True, dataset__active=True)
    rows = rows if user is None or sees_all(user) else rows.none()
    return _counts(rows.annotate(layer=Value(SOURCE)), Q(pii=True), "dataset__system__short_name", "layer")


def _counts(rows: QuerySet, personal: Q, name: str, layer: str, *order: str) -> dict[str, SensitiveCount]:
    grouped = rows.order_by().values(name, layer, *order)
    numbers = grouped.annotate(count=Count("pk"), personal=Count("pk", filter=personal)).order_by(*order, name)
    return {row[name]: SensitiveCount(row[name], row[layer], row["count"], row["personal"]) for row in numbers}
