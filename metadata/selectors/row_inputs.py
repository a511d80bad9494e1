"""Columns that decide which rows models have, as rows."""

from collections.abc import Iterable

from elevata.core.errors import MetadataError
from metadata.domain.column_lineage import HISTORY, TARGET
from metadata.domain.models import dependencies as dependency
from metadata.domain.models.dependency_scopes import ROWS, columns_of
from metadata.domain.models.statement import parse_model
from metadata.models import DatasetInput, TargetDataset
from metadata.selectors.models import Readable, readables

# Kind and primary key of a column; a history has those of its base.
Id = tuple[str, int]


def row_inputs(models: Iterable[TargetDataset]) -> dict[int, list[Id]]:
    """Return the columns that decide the rows of each model, by the model's primary key.

    The number of queries does not depend on the number of models. All columns decide the rows of a SELECT that does
    not fit what it reads.
    """
    rows = {model.pk: model for model in models}
    links = DatasetInput.objects.filter(dataset__id__among=list(rows), upstream__isnull=False).order_by("ordinal", "id")
    read: dict[int, list[int]] = {}
    for model, upstream in links.values_list("dataset_id", "upstream_id"):
        read.setdefault(model, []).append(upstream)
    described = {each.dataset.pk: each for each in readables({pk for pks in read.values() for pk in pks})}
    return {
        pk: _of_model(model.select, [described[upstream] for upstream in read.get(pk, ())])
        for pk, model in rows.items()
    }


def _of_model(text: str, datasets: list[Readable]) -> list[Id]:
    by_name = {each.name.lower(): each for each in datasets}
    try:
        names = parse_model(text).names
        reads = dependency.dependencies(text, {name: _readable(each, names) for name, each in by_name.items()})
    except MetadataError:
        return [(_kind(each), row.pk) for each in datasets for row in each.rows.values()]
    columns = [(owner, name) for owner, name in columns_of(reads.rows) if owner and name != ROWS]
    decide = [(by_name[owner], name) for owner, name in columns]
    return sorted({(_kind(each), row.pk) for each, name in decide for row in each.columns_behind(name)})


def _kind(readable: Readable) -> str:
    return TARGET if readable.dataset.history_of_id is None else HISTORY


def _readable(readable: Readable, names: frozenset[str]) -> dependency.Readable:
    columns = (*readable.columns, *readable.versions)
    seen = (each.name.lower() for each in columns if not each.technical or each.name.lower() in names)
    return dependency.Readable(tuple(dict.fromkeys(seen)))
