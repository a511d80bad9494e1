"""Search over all metadata by names, former names and descriptions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Case, IntegerField, Model, Q, QuerySet, Value, When

from metadata.filtersets import called
from metadata.models import SourceColumn, SourceDataset, System, TargetColumn, TargetDataset, TargetSchema


@dataclass(frozen=True)
class Found:
    """Search result. ``key`` is the end of its address; ``within`` is the object it belongs to.

    ``rank`` is the quality of the match: 0 whole name, 1 beginning of the name, 2 part of the name, 3 otherwise.
    """

    kind: str
    key: str
    name: str
    within: str
    description: str
    active: bool
    rank: int


@dataclass(frozen=True)
class Kind:
    """Kind of object: its rows, the match of a text, and its text. ``name`` is the field for ranking."""

    name: str
    rows: Callable[[], QuerySet]
    fits: Callable[[str], Q]
    key: Callable[[Any], str]
    within: Callable[[Any], str] = lambda row: ""
    called: str = "name"

    def find(self, text: str, most: int) -> list[Found]:
        """Return the best ``most`` matches, the best first."""
        rows = self.rows().filter(self.fits(text)).annotate(rank=_rank(self.called, text))
        return [self._result(row) for row in rows.order_by("rank", self.called, "pk")[:most]]

    def _result(self, row: Model) -> Found:
        return Found(
            kind=self.name,
            key=self.key(row),
            name=str(getattr(row, self.called)),
            within=self.within(row),
            description=getattr(row, "description", ""),
            active=getattr(row, "active", True),
            rank=row.rank,
        )


def search(text: str, kinds: Iterable[Kind], most: int) -> tuple[list[Found], bool]:
    """Return the best matches of all kinds, the best first, and whether there are more."""
    found = [one for kind in kinds for one in kind.find(text, most + 1)]
    found.sort(key=lambda one: (one.rank, one.name.lower(), one.kind, one.within, one.key))
    return found[:most], len(found) > most


def _rank(field: str, text: str) -> Case:
    fits = ("iexact", "istartswith", "icontains")
    whens = [When(**{f"{field}__{how}": text}, then=Value(rank)) for rank, how in enumerate(fits)]
    return Case(*whens, default=Value(len(fits)), output_field=IntegerField())


def _described(text: str) -> Q:
    return Q(name__icontains=text) | Q(description__icontains=text)


def _short(text: str) -> Q:
    return _described(text) | Q(short_name__icontains=text)


def _former(text: str) -> Q:
    return called(text) | Q(description__icontains=text)


KINDS = (
    Kind("system", System.objects.all, _short, lambda row: row.short_name),
    Kind(
        "source_dataset",
        lambda: SourceDataset.objects.select_related("system"),
        _short,
        lambda row: str(row.key),
        lambda row: str(row.system),
    ),
    Kind(
        "source_column",
        lambda: SourceColumn.objects.select_related("dataset__system"),
        _described,
        lambda row: str(row.key),
        lambda row: str(row.dataset),
    ),
    Kind("schema", TargetSchema.objects.all, _described, lambda row: row.name),
    Kind(
        "dataset",
        lambda: TargetDataset.objects.select_related("schema"),
        _former,
        lambda row: str(row.key),
        lambda row: row.schema.name,
    ),
    Kind(
        "column",
        lambda: TargetColumn.objects.select_related("dataset__schema"),
        _former,
        lambda row: str(row.key),
        lambda row: str(row.dataset),
    ),
)
