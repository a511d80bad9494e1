"""Models that read a dataset or a column, and the effect of its rename or retirement on them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from elevata.core.errors import MetadataError
from metadata.domain import naming
from metadata.domain.impact import FOLLOWS, REFUSES
from metadata.domain.models import (
    ReadColumn,
    describe_select,
    reads_of,
    rename_dataset_in_select,
    rename_in_select,
    versions_of,
)
from metadata.models import TargetColumn, TargetDataset
from metadata.selectors.models import models_reading, readable_datasets, relations


@dataclass(frozen=True)
class Dependent:
    """Dependent object: ``what`` of ``dataset``, and the effect on it in words.

    ``before`` and ``after`` are a name or text that is rewritten; ``after`` is empty if the new name is not known.
    """

    effect: str
    dataset: TargetDataset
    what: str
    says: str
    before: str = ""
    after: str = ""


def of_column_rename(column: TargetColumn, name: str) -> Iterator[Dependent]:
    for model in models_reading([column.dataset]):
        yield _rewritten(model, lambda text: _with_column(text, column, name), column.name, name)


def of_dataset_rename(dataset: TargetDataset, name: str) -> Iterator[Dependent]:
    for model in models_reading([dataset]):
        yield _rewritten(model, lambda text: _with_dataset(text, dataset, name), dataset.name, name)


def of_column_retirement(column: TargetColumn) -> Iterator[Dependent]:
    for model in models_reading([column.dataset]):
        datasets = dict(relations(readable_datasets(model.select)))
        for owner in _names(column.dataset):
            for key in (owner, versions_of(owner)):
                kept = (each for each in datasets.get(key, ()) if each.name != column.name)
                datasets[key] = tuple(kept)
        present = {name: columns for name, columns in datasets.items() if columns}
        try:
            described = describe_select(model.select, present)
        except MetadataError as problem:
            yield Dependent(REFUSES, model, "SELECT", f"reads it: {problem.message}", model.select)
        else:
            lost = model.columns.filter(active=True).count() - len(described.columns)
            if lost:
                yield Dependent(FOLLOWS, model, "columns", "lose it: the SELECT reads all columns")


def of_dataset_retirement(dataset: TargetDataset) -> Iterator[Dependent]:
    for model in models_reading([dataset]):
        yield Dependent(REFUSES, model, "SELECT", "reads it", model.select)


def _rewritten(model: TargetDataset, rewrite: Callable[[str], str], old: str, new: str) -> Dependent:
    if not new:
        return Dependent(FOLLOWS, model, "SELECT", "is rewritten where it names it", model.select)
    try:
        text = rewrite(model.select)
    except MetadataError as problem:
        return Dependent(REFUSES, model, "SELECT", problem.message, model.select)
    if text == model.select:
        return Dependent(FOLLOWS, model, "columns", f"{old} is {new} where * brings it")
    return Dependent(FOLLOWS, model, "SELECT", "is rewritten", model.select, text)


def _with_column(text: str, column: TargetColumn, name: str) -> str:
    datasets: Mapping[str, Sequence[ReadColumn]] = relations(readable_datasets(text))
    for owner in _names(column.dataset):
        if owner.lower() in map(str.lower, reads_of(text)):
            text = rename_in_select(text, owner, column.name, name, datasets)
    return text


def _with_dataset(text: str, dataset: TargetDataset, name: str) -> str:
    text = rename_dataset_in_select(text, str(dataset), f"{dataset.schema.name}.{name}")
    own, history = str(dataset), naming.history_name(f"{dataset.schema.name}.{name}")
    return rename_dataset_in_select(text, naming.history_name(own), history)


def _names(dataset: TargetDataset) -> tuple[str, str]:
    return str(dataset), naming.history_name(str(dataset))
