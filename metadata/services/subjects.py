"""Names, owners and field values of metadata rows, as the change log shows them.

Works on rows as the database gives them (``.values()``), before and after, so that what is told is
what was stored. Rows that only link others (inputs, pairs) are told as a field of what they belong to.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from django.db import models

from metadata.domain.types import DataType
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.models.base import TypedColumn

Values = dict[str, Any]
Model = type[models.Model]

# What each model's rows are called in the log, in the order of an entry's place within one change.
KINDS: dict[Model, str] = {
    System: "system",
    SourceDataset: "source_dataset",
    SourceColumn: "source_column",
    TargetSchema: "schema",
    TargetDataset: "dataset",
    TargetColumn: "column",
    Reference: "reference",
}


@dataclass(frozen=True)
class LinkKind:
    """Rows that are told as ``field`` of the ``owner`` row that ``owned_by`` names."""

    owner: Model
    owned_by: str
    field: str


LINKS: dict[Model, LinkKind] = {
    DatasetInput: LinkKind(TargetDataset, "dataset_id", "inputs"),
    ColumnInput: LinkKind(TargetColumn, "column_id", "inputs"),
    ReferencePair: LinkKind(Reference, "reference_id", "pairs"),
}

# Counters and clocks of the row itself; when it was changed, the entry says.
UNTOLD = frozenset({"id", "version", "created_at", "updated_at"})
_TYPE_PARTS = {field.name for field in TypedColumn._meta.fields} - {"nullable"}
_BATCH = 500


def read(model: Model, pks: Iterable[int], *fields: str, lock: bool = False) -> dict[int, Values]:
    """The rows as they are stored now (all fields, or these), by primary key; what is not there is left out."""
    found: dict[int, Values] = {}
    wanted = list(pks)
    for start in range(0, len(wanted), _BATCH):
        rows = model._base_manager.filter(pk__in=wanted[start : start + _BATCH])
        found.update((row["id"], row) for row in (rows.select_for_update() if lock else rows).values(*fields))
    return found


def held(row: models.Model) -> Values:
    """The fields of a row in hand, as ``read`` gives those of a stored one."""
    return {name: getattr(row, name) for name in _columns(type(row))}


def linked(link: Model, owners: Iterable[int]) -> dict[int, list[Values]]:
    """The link rows of these owners as they are stored now, by owner."""
    owned_by, found, wanted = LINKS[link].owned_by, defaultdict(list), list(owners)
    for start in range(0, len(wanted), _BATCH):
        for row in link._base_manager.filter(**{f"{owned_by}__in": wanted[start : start + _BATCH]}).values():
            found[row[owned_by]].append(row)
    return found


class Remembered(Protocol):
    """Rows that a transaction knows without asking the database."""

    def known(self, model: Model, pk: int) -> Values | None: ...

    def gone(self, model: Model, pk: int) -> Values: ...


class Names:
    """Finds what rows refer to, in few queries: what a unit of work made or removed, it knows itself."""

    def __init__(self, work: Remembered) -> None:
        self._rows: dict[Model, dict[int, Values]] = defaultdict(dict)
        self._unread: list[tuple[Model, Values]] = []
        self._names: dict[tuple[Model, int], str] = {}
        self._work = work

    def know(self, model: Model, rows: Iterable[Values]) -> None:
        """Rows to be told. Of one row as it was and as it is, the latter comes last: it gives the name."""
        for row in rows:
            self._rows[model][row["id"]] = row
            self._unread.append((model, row))

    def reach(self) -> None:
        """Load whatever the known rows refer to, and what that refers to, a model at a time."""
        while self._unread:
            wanted: dict[Model, set[int]] = defaultdict(set)
            for model, row in self._unread:
                for name, upstream in _upstream(model):
                    if row[name] is not None:
                        wanted[upstream].add(row[name])
            self._unread = []
            for model, pks in wanted.items():
                unknown = pks - self._rows[model].keys()
                if unknown:
                    made = {pk: row for pk in unknown if (row := self._work.known(model, pk)) is not None}
                    found = made | read(model, unknown - made.keys(), *_naming(model))
                    self.know(model, found.values())
                    self.know(model, [self._work.gone(model, pk) for pk in unknown - found.keys()])

    def row(self, model: Model, pk: int) -> Values:
        return self._rows[model][pk]

    def name(self, model: Model, row: Values) -> str:
        """Return the row's qualified name: ``rawcore.rc_air_airport.lid``."""
        if model is System:
            return row["short_name"]
        if model is TargetSchema:
            return row["name"]
        if model is Reference:
            ends = [self.named(TargetDataset, row[end]) for end in ("child_id", "parent_id")]
            return " → ".join(ends) + (f" ({row['role_name']})" if row["role_name"] else "")
        if model is DatasetInput:
            return self._either(row, source=SourceDataset, upstream=TargetDataset)
        if model is ColumnInput:
            return self._either(row, source_column=SourceColumn, upstream_column=TargetColumn)
        if model is ReferencePair:
            ends = [self.named(TargetColumn, row[end]) for end in ("child_column_id", "parent_column_id")]
            return " = ".join(ends)
        name, upstream = _upstream(model)[0]
        return f"{self.named(upstream, row[name])}.{row['name']}"

    def named(self, model: Model, pk: int) -> str:
        known = self._names.get((model, pk))
        if known is None:
            known = self._names[model, pk] = self.name(model, self.row(model, pk))
        return known

    def _either(self, row: Values, **sides: Model) -> str:
        for side, model in sides.items():
            if row[f"{side}_id"] is not None:
                return self.named(model, row[f"{side}_id"])
        raise ValueError(f"a link to nothing: {row}")

    def dataset_key(self, model: Model, row: Values) -> UUID | None:
        """The dataset that a row belongs to: its own key, a history's base, a reference's child."""
        if model is TargetDataset:
            return row["key"] if row["history_of_id"] is None else self.row(TargetDataset, row["history_of_id"])["key"]
        if model is SourceDataset:
            return row["key"]
        if model is Reference:
            return self.dataset_key(TargetDataset, self.row(TargetDataset, row["child_id"]))
        if model in (TargetColumn, SourceColumn):
            upstream = _upstream(model)[0][1]
            return self.dataset_key(upstream, self.row(upstream, row["dataset_id"]))
        return None

    def told(self, model: Model, row: Values) -> dict[str, Any]:
        """The row's fields as canonical JSON can hold them; what is referred to, by name."""
        told: dict[str, Any] = {}
        references = dict(_upstream(model))
        typed = issubclass(model, TypedColumn)
        for name, value in row.items():
            if name in UNTOLD or (typed and name in _TYPE_PARTS):
                continue
            if name in references:
                told[name.removesuffix("_id")] = None if value is None else self.named(references[name], value)
            else:
                told[name] = plain(value)
        if typed:
            parts = (row["data_type"], row["length"], row["precision"], row["scale"])
            told["type"] = str(DataType(*parts))
        return told


def stable_key(model: Model, row: Values) -> str:
    """The stable key, or the short name of what has none."""
    if "key" in row:
        return str(row["key"])
    return row["short_name"] if model is System else row["name"]


def plain(value: Any) -> Any:
    """A field's value as canonical JSON can hold it: keys and moments as text, a float as Python writes it."""
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds")
    # Choices are texts of a class of their own.
    return str(value) if isinstance(value, UUID | float | str) else value


@cache
def _columns(model: Model) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields)


@cache
def _naming(model: Model) -> tuple[str, ...]:
    """The columns that a row's name, key and dataset follow from."""
    wanted = {"id", "key", "name", "short_name", "role_name", *(name for name, _ in _upstream(model))}
    return tuple(name for name in _columns(model) if name in wanted)


@cache
def _upstream(model: Model) -> tuple[tuple[str, Model], ...]:
    """The columns of a model that refer to other rows, and to which, in the order of the model."""
    return tuple((field.attname, field.related_model) for field in model._meta.concrete_fields if field.is_relation)
