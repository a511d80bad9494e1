"""Names, owners and field values of metadata rows, for the change log.

Works on rows as the database returns them (``.values()``), before and after a change, so that the log shows
the stored values. Link rows (inputs, pairs) appear as a field of their owner.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from uuid import UUID

from django.db import models

from elevata.audit.models import Versioned
from elevata.audit.services.change_log import plain
from elevata.audit.services.row_seals import Part, Sealed
from metadata.domain.types import DataType
from metadata.models import (
    ColumnInput,
    DatasetCopy,
    DatasetInput,
    Exposure,
    QualityCheck,
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

# Names of the models' rows in the log, in the order of entries within one change.
KINDS: dict[Model, str] = {
    model: model.LOG_KIND or str(model._meta.model_name)
    for model in (
        System,
        SourceDataset,
        SourceColumn,
        TargetSchema,
        TargetDataset,
        TargetColumn,
        Reference,
        QualityCheck,
        Exposure,
        DatasetCopy,
    )
}


@dataclass(frozen=True)
class LinkKind:
    """Kind of link rows, logged as ``field`` of their ``owner``, to which the column ``owned_by`` refers."""

    owner: Model
    owned_by: str
    field: str


LINKS: dict[Model, LinkKind] = {
    DatasetInput: LinkKind(TargetDataset, "dataset_id", "inputs"),
    ColumnInput: LinkKind(TargetColumn, "column_id", "inputs"),
    ReferencePair: LinkKind(Reference, "reference_id", "pairs"),
}

SEALED: dict[Model, Sealed] = {
    System: Sealed((Part(SourceDataset, "system_id"),)),
    SourceDataset: Sealed((Part(SourceColumn, "dataset_id"),)),
    SourceColumn: Sealed(),
    TargetSchema: Sealed((Part(TargetDataset, "schema_id"),)),
    TargetDataset: Sealed(
        (
            Part(DatasetInput, "dataset_id", whole=True),
            Part(TargetColumn, "dataset_id"),
            Part(Reference, "child_id"),
            Part(QualityCheck, "dataset_id"),
            Part(Exposure, "dataset_id"),
            Part(DatasetCopy, "dataset_id"),
        )
    ),
    TargetColumn: Sealed((Part(ColumnInput, "column_id", whole=True),)),
    Reference: Sealed((Part(ReferencePair, "reference_id", whole=True),)),
    QualityCheck: Sealed(),
    Exposure: Sealed(),
    DatasetCopy: Sealed(),
}

# Counters and times of the row itself; the entry has its own time.
UNLOGGED = frozenset({"id", "version", "created_at", "updated_at"})
_TYPE_PARTS = {field.name for field in TypedColumn._meta.fields} - {"nullable"}
_BATCH = 500


def read(model: Model, pks: Iterable[int], *fields: str, lock: bool = False) -> dict[int, Values]:
    """Return the stored rows (all fields, or these) by primary key; missing rows are left out."""
    by_pk: dict[int, Values] = {}
    wanted = list(pks)
    for start in range(0, len(wanted), _BATCH):
        # The models' own order would join, and lock, other tables.
        rows = model._base_manager.filter(pk__in=wanted[start : start + _BATCH]).order_by("pk")
        by_pk.update((row["id"], row) for row in (rows.select_for_update() if lock else rows).values(*fields))
    return by_pk


def stored_values(row: models.Model) -> Values:
    """Return the fields of a model instance, in the form that ``read`` returns."""
    return {name: getattr(row, name) for name in _columns(type(row))}


def linked(link: Model, owners: Iterable[int]) -> dict[int, list[Values]]:
    """Return the stored link rows of these owners, by owner."""
    owned_by, by_owner, wanted = LINKS[link].owned_by, defaultdict(list), list(owners)
    for start in range(0, len(wanted), _BATCH):
        for row in link._base_manager.filter(**{f"{owned_by}__in": wanted[start : start + _BATCH]}).values():
            by_owner[row[owned_by]].append(row)
    return by_owner


class Remembered(Protocol):
    """Protocol for rows that a transaction has in memory."""

    def known(self, model: Model, pk: int) -> Values | None: ...

    def gone(self, model: Model, pk: int) -> Values: ...


class Names:
    """Names of rows and of the rows they refer to, resolved with few queries.

    Rows that the unit of work inserted or deleted are not queried.
    """

    def __init__(self, work: Remembered) -> None:
        self._rows: dict[Model, dict[int, Values]] = defaultdict(dict)
        self._unread: list[tuple[Model, Values]] = []
        self._names: dict[tuple[Model, int], str] = {}
        self._work = work

    def know(self, model: Model, rows: Iterable[Values]) -> None:
        """Add rows to be named; if a row is added twice, the last version gives the name."""
        for row in rows:
            self._rows[model][row["id"]] = row
            self._unread.append((model, row))

    def reach(self) -> None:
        """Load the rows that the known rows refer to, directly or indirectly, one model at a time."""
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
                    made = {pk: image for pk in unknown if (image := self._work.known(model, pk)) is not None}
                    rows = made | read(model, unknown - made.keys(), *_naming(model))
                    self.know(model, rows.values())
                    self.know(model, [self._work.gone(model, pk) for pk in unknown - rows.keys()])

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
        if model is DatasetCopy:
            return f"{self.named(TargetDataset, row['dataset_id'])} in {self.named(System, row['system_id'])}"
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
        """Return the stable key of the row's dataset: its own, its history's base, or a reference's child."""
        if model is TargetDataset:
            return row["key"] if row["history_of_id"] is None else self.row(TargetDataset, row["history_of_id"])["key"]
        if model is SourceDataset:
            return row["key"]
        if model is Reference:
            return self.dataset_key(TargetDataset, self.row(TargetDataset, row["child_id"]))
        if model in (TargetColumn, SourceColumn, QualityCheck, Exposure, DatasetCopy):
            upstream = _upstream(model)[0][1]
            return self.dataset_key(upstream, self.row(upstream, row["dataset_id"]))
        return None

    def named_values(self, model: Model, row: Values) -> dict[str, Any]:
        """Return the row's fields as values for canonical JSON, with referenced rows by name."""
        values: dict[str, Any] = {}
        references = dict(_upstream(model))
        typed = issubclass(model, TypedColumn)
        for name, value in row.items():
            if name in UNLOGGED or (typed and name in _TYPE_PARTS):
                continue
            if name in references:
                values[name.removesuffix("_id")] = None if value is None else self.named(references[name], value)
            else:
                values[name] = plain(value)
        if typed:
            parts = (row["data_type"], row["length"], row["precision"], row["scale"])
            values["type"] = str(DataType(*parts))
        return values


def stable_key(model: Model, row: Values) -> str:
    """Return the stable key of a row, or its short name or name if it has none."""
    assert issubclass(model, Versioned)
    return str(row[model.LOG_KEY])


@cache
def _columns(model: Model) -> tuple[str, ...]:
    return tuple(field.attname for field in model._meta.concrete_fields)


@cache
def _naming(model: Model) -> tuple[str, ...]:
    """Return the columns of a model from which a row's name, key and dataset are derived."""
    wanted = {"id", "key", "name", "short_name", "role_name", *(name for name, _ in _upstream(model))}
    return tuple(name for name in _columns(model) if name in wanted)


@cache
def _upstream(model: Model) -> tuple[tuple[str, Model], ...]:
    """Return the foreign-key columns of a model with their target models, in the model's order."""
    fields = ((field.attname, field.related_model) for field in model._meta.concrete_fields if field.is_relation)
    return tuple((name, related) for name, related in fields if related is not None)
