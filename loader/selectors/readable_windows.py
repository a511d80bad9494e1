"""Watermark values of a run's datasets for one reader."""

from collections.abc import Container, Iterable
from functools import partial
from typing import Any

from elevata.accounts.permissions import may
from elevata.accounts.places import Place
from elevata.accounts.roles import Permission
from loader.domain.sources.window_texts import without_values
from loader.models import DatasetRun, LoadRun
from metadata.models import TargetSchema
from metadata.selectors.classification import classifications


def with_readable_windows(run: LoadRun, rows: Iterable[DatasetRun], user: Any) -> list[DatasetRun]:
    """Return the rows of a run without watermark values that a user may not read.

    Values need the permission to read the dataset's data in the run's environment, in its schema then and now. Every
    reader sees only those of columns that are described and not sensitive by the present classification: a load hides
    the values of columns that are sensitive when it runs. The rows have ``dataset__schema`` selected.
    """
    given = list(rows)
    windowed = [row for row in given if row.window]
    schemas = {
        row.pk: {row.qualified_name.rpartition(".")[0], row.dataset.schema.name}
        for row in windowed
        if row.dataset is not None
    }
    readable = _readable_schemas(set().union(*schemas.values()), run.environment.name, user)
    datasets = {
        row.pk: row.dataset_id
        for row in windowed
        if row.dataset_id is not None and row.pk in schemas and schemas[row.pk] <= readable
    }
    classified = classifications(set(datasets.values())) if datasets else {}
    for row in windowed:
        others = classified[datasets[row.pk]].other_read if row.pk in datasets else frozenset()
        row.window = without_values(row.window, partial(_is_outside, others))
    return given


def _is_outside(names: Container[str], name: str) -> bool:
    return name not in names


def _readable_schemas(names: set[str], environment: str, user: Any) -> set[str]:
    """Return the names of the schemas whose data a user may read in an environment."""
    layers = dict(TargetSchema.objects.filter(name__in=names).values_list("name", "layer")) if names else {}
    places = {name: Place(environment, frozenset({(name, layers.get(name, ""))})) for name in names}
    return {name for name, place in places.items() if may(user, Permission.READ_DATA, on=place)}
