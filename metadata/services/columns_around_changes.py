"""Columns that models read before and after a change, and models that a change would give another meaning."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace

from elevata.core.errors import MetadataError
from metadata.domain.models import ReadColumn, check_meaning
from metadata.models import TargetDataset
from metadata.selectors.models import Readable, readable_datasets, relations

Columns = dict[str, tuple[ReadColumn, ...]]


def renames(was: Readable, now: Readable) -> list[tuple[str, str]]:
    """Return the old and new names of columns: described ones by their row, technical ones by their purpose."""
    return [
        (name, now.identities[identity])
        for identity, name in was.identities.items()
        if now.identities.get(identity, name) != name
    ]


def columns_around(text: str, before: Mapping[int, Readable], after: Mapping[int, Readable]) -> tuple[Columns, Columns]:
    """Return the columns that a SELECT reads before and after a change, both with the names after it.

    ``before`` and ``after`` are the datasets that change, by primary key.
    """
    now = readable_datasets(text)
    was = dict(now)
    for pk, each in before.items():
        if pk in after and after[pk].name.lower() in was:
            was[after[pk].name.lower()] = _with_names(each, after[pk])
    return relations(was), relations(now)


def _with_names(was: Readable, now: Readable) -> Readable:
    names = dict(renames(was, now))
    columns, versions = (
        tuple(replace(column, name=names.get(column.name, column.name)) for column in each)
        for each in (was.columns, was.versions)
    )
    return replace(was, name=now.name, columns=columns, versions=versions)


@contextmanager
def keeping_meaning(names: Iterable[str]) -> Iterator[list[tuple[TargetDataset, MetadataError]]]:
    """Yield a list that gets the models whose SELECT stays, but means something else at the end, with the error.

    ``names`` are qualified names of models in lower case.
    """
    wanted = set(names)
    rows = TargetDataset.objects.filter(active=True).exclude(select="").select_related("schema")
    before: dict[int, tuple[str, Columns]] = {}
    for model in rows:
        if str(model).lower() in wanted:
            with suppress(MetadataError):  # it reads what is gone, so it has no meaning to keep
                before[model.pk] = (model.select, relations(readable_datasets(model.select)))
    changed: list[tuple[TargetDataset, MetadataError]] = []
    yield changed
    for model in rows.filter(pk__in=before):
        text, columns = before[model.pk]
        if model.select == text:
            try:
                check_meaning(text, columns, relations(readable_datasets(text)))
            except MetadataError as problem:
                changed.append((model, problem))
