"""Check the permission to read input data when a dataset, check or reference is saved.

Rows that a load copies into another schema can be read there, and a check or a foreign key reveals which values a table
has. So who saves one must be permitted to read the data that it reads, in this environment.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from django.db import models

from elevata.accounts.actors import current_actor
from elevata.accounts.permissions import may
from elevata.accounts.roles import Permission
from metadata.domain.quality import unknown_parents
from metadata.domain.sql import is_same_sql
from metadata.models import (
    ColumnInput,
    DatasetInput,
    QualityCheck,
    Reference,
    SourceDataset,
    TargetColumn,
    TargetDataset,
)
from metadata.permissions import must_read_data
from metadata.selectors.datasets import datasets_by_name
from metadata.services.rows.subjects import Model, Values, read

# Before-images of changed rows by model and primary key, None for new rows.
Before = Mapping[Any, Mapping[int, Values | None]]
# Fields with SQL, in which the undo of a rename leaves out quotes that the rename wrote.
_SQL = ("select", "filter", "expression")


def check_read_permissions(before: Before) -> None:
    """Raise MetadataError ``not_permitted`` if a unit of work lets rows read data that its actor may not read.

    A change counts if it adds or alters something that is read; one that removes or describes does not. ``before`` has
    texts as they follow renames, so that those do not count. Call it at the end of the unit of work, in its
    transaction. The system is always allowed.
    """
    user = current_actor().user
    if user is None or may(user, Permission.READ_DATA):
        return
    reads: tuple[tuple[str, Iterable[models.Model]], ...] = (*_datasets(before), *_checks(before), *_references(before))
    for where, read_rows in reads:
        must_read_data(((str(row), row) for row in read_rows), where=where)


def _written(before: Before, model: Model, *fields: str) -> Iterator[tuple[Values, Values]]:
    """Yield the rows, as they are now, that are new, back in use or changed in a field, with their before-images."""
    was = before.get(model, {})
    for pk, row in read(model, was).items():
        old = was[pk] or {}
        is_back = row.get("active") and not old.get("active")
        if not old or is_back or any(_differs(row, old, name) for name in fields):
            yield row, old


def _differs(now: Values, was: Values, name: str) -> bool:
    return not is_same_sql(now[name], was[name]) if name in _SQL else now[name] != was[name]


def _datasets(before: Before) -> Iterator[tuple[str, list[TargetDataset | SourceDataset]]]:
    """Yield the datasets that read something else or in another way, with all that they read.

    Columns of a model follow from its SELECT and from what its inputs offer, so only the SELECT and the inputs count.
    """
    changed = {row["id"] for row, _ in _written(before, TargetDataset, "select", "filter")}
    changed |= {row["dataset_id"] for row, _ in _written(before, DatasetInput, "source_id", "upstream_id")}
    columns = {row["column_id"] for row, _ in _written(before, ColumnInput, "source_column_id", "upstream_column_id")}
    links = ColumnInput.objects.filter(column__in=before.get(TargetColumn, {}))
    linked = set(links.values_list("column_id", flat=True))
    for row, old in _written(before, TargetColumn, "expression", "name"):
        is_only_renamed = old and old["active"] == row["active"] and old["expression"] == row["expression"]
        if not (is_only_renamed and (row["expression"] or row["id"] in linked)):
            columns.add(row["id"])
    described = TargetColumn.objects.filter(pk__in=columns, dataset__select="")
    changed |= set(described.values_list("dataset_id", flat=True))
    inputs = DatasetInput.objects.filter(dataset__in=changed).order_by("dataset", "ordinal")
    own: dict[str, list[TargetDataset | SourceDataset]] = {}
    for item in inputs.select_related("dataset__schema", "source__system", "upstream__schema"):
        own.setdefault(str(item.dataset), []).append(item.read_dataset)
    yield from own.items()


def _checks(before: Before) -> Iterator[tuple[str, list[TargetDataset]]]:
    """Yield the changed checks, with the datasets that they name."""
    changed = [row["id"] for row, _ in _written(before, QualityCheck, "arguments", "kind")]
    for check in QualityCheck.objects.filter(pk__in=changed, active=True).select_related("dataset__schema"):
        yield str(check), list(datasets_by_name(*check.rule.tables).select_related("history_of__schema"))


def _references(before: Before) -> Iterator[tuple[str, list[TargetDataset]]]:
    """Yield the changed references whose rule looks up the parent's keys, with the parent."""
    changed = [row["id"] for row, _ in _written(before, Reference, "parent_id", "unknown_parent")]
    rows = Reference.objects.filter(pk__in=changed).exclude(unknown_parent=unknown_parents.KEEP)
    for row in rows.select_related("child__schema", "parent__schema"):
        yield str(row), [row.parent]
