"""Check that a metadata change does not make sensitive values readable for an actor who may not read them.

Raising a classification is always allowed. Lowering one, deleting a classified object, and disconnecting a
column from the sensitive column that it reads need ``read_sensitive`` there, because the tables still contain
the values.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from elevata.core.errors import MetadataError
from metadata.classification import classifications
from metadata.domain.roles import Permission, Place
from metadata.domain.sensitivity import is_sensitive
from metadata.models import ColumnInput, DatasetInput, SourceColumn, TargetColumn, TargetDataset
from metadata.permissions import may
from metadata.services.actor import current_actor
from metadata.services.row_changes import Touched
from metadata.services.subjects import read

_OF_A_COLUMN = ("pii", "sensitivity", "expression", "name", "former_names", "dataset_id")


def must_stay_classified(unit: Touched) -> None:
    """Raise MetadataError ``not_permitted`` if the work makes values readable that its actor may not read.

    To be called at the end of the work, in its transaction. The system is always allowed.
    """
    user = current_actor().user
    if user is None or may(user, Permission.READ_SENSITIVE):
        return
    before = {model: rows for model, rows in unit.before.items() if any(row is not None for row in rows.values())}
    for where, place in (*_sources(before), *_targets(before)):
        if not may(user, Permission.READ_SENSITIVE, on=place):
            raise MetadataError(
                "not_permitted",
                f"its values are classified, and lowering that takes the permission to read them, {user}; "
                "a steward can do it",
                "sensitivity",
                where,
            )


def _sources(before: Mapping[Any, Mapping[int, Any]]) -> Iterator[tuple[str, Place]]:
    """Yield source columns that were sensitive and are not any more, or are deleted, without a schema."""
    was = {pk: row for pk, row in before.get(SourceColumn, {}).items() if row is not None and _is_sensitive(row)}
    now = read(SourceColumn, was, "id", "pii", "sensitivity")
    for pk, row in was.items():
        if pk not in now or not _is_sensitive(now[pk]):
            yield row["name"], Place()


def _is_sensitive(row: Mapping[str, Any]) -> bool:
    return is_sensitive(personal=row["pii"], level=row["sensitivity"])


def _targets(before: Mapping[Any, Mapping[int, Any]]) -> Iterator[tuple[str, Place]]:
    """Yield the datasets of columns that were sensitive and are not any more, or are deleted."""
    touched = _touched_datasets(before)
    if not touched:
        return
    was = {pk: found for pk, found in classifications(touched, before).items() if found.sensitive}
    if not was:
        return
    now = classifications(list(was))
    rows = TargetDataset.objects.select_related("schema").in_bulk(list(was))
    for pk, then in was.items():
        if then.sensitive - now[pk].sensitive:
            row = rows.get(pk)
            place = Place() if row is None else Place(schemas=frozenset({(row.schema.name, row.schema.layer)}))
            yield str(row or before[TargetDataset][pk]["name"]), place


def _touched_datasets(before: Mapping[Any, Mapping[int, Any]]) -> set[int]:
    """Return the datasets with a changed or deleted row that decides on sensitivity."""
    rows = {model: {pk: row for pk, row in some.items() if row is not None} for model, some in before.items()}
    found = {row["dataset_id"] for row in rows.get(DatasetInput, {}).values()}
    columns = {row["column_id"] for row in rows.get(ColumnInput, {}).values()}
    found |= {row["dataset_id"] for row in read(TargetColumn, columns, "id", "dataset_id").values()}
    was = rows.get(TargetColumn, {})
    now = read(TargetColumn, was, "id", *_OF_A_COLUMN)
    found |= {
        row["dataset_id"] for pk, row in was.items() if pk not in now or any(row[f] != now[pk][f] for f in _OF_A_COLUMN)
    }
    datasets = rows.get(TargetDataset, {})
    levels = read(TargetDataset, datasets, "id", "sensitivity")
    found |= {pk for pk, row in datasets.items() if pk not in levels or row["sensitivity"] != levels[pk]["sensitivity"]}
    return found
