"""Changed rows of a transaction, and the change-log entries derived from them.

Each row has an entry of its own, except links (inputs, pairs), which appear as a field of their owner, and
columns created with their dataset, which appear in the dataset's entry.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import models

from metadata.models import ChangeLogEntry, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.services.subjects import KINDS, LINKS, Model, Names, Values, held, linked, read, stable_key

Action = ChangeLogEntry.Action
EMPTY = (None, "", [], {})

# Columns are parts of their dataset, as its field ``columns``.
_PARTS: dict[Model, Model] = {SourceColumn: SourceDataset, TargetColumn: TargetDataset}
# How many rows are compared at a time, and how many new ones are kept in memory for it: an import
# touches hundreds of thousands.
_AT_ONCE = 200
_KEPT = 20_000


@dataclass(frozen=True)
class Change:
    """Change of one subject, to be written as an entry; ``before`` and ``after`` map fields to plain values."""

    action: str
    subject_kind: str
    subject_key: str
    subject_name: str
    before: Mapping[str, Any] = field(default_factory=dict)
    after: Mapping[str, Any] = field(default_factory=dict)
    dataset_key: UUID | None = None


class Touched:
    """Before-images of changed rows, keyed by model and primary key; None for new rows."""

    def __init__(self) -> None:
        self.before: dict[Model, dict[int, Values | None]] = defaultdict(dict)
        # Whose links were touched: owner's model → owner's id.
        self.relinked: dict[Model, set[int]] = defaultdict(set)
        # New columns, and whose they are.
        self._part_of: dict[Model, dict[int, int]] = defaultdict(dict)
        # Rows that were made here and not touched since need not be read again.
        self._made: dict[Model, dict[int, Values]] = defaultdict(dict)
        self._kept = 0

    # --- while the work is done ----------------------------------------------------------

    def about_to_change(self, model: Model, pks: Iterable[int]) -> None:
        """Store the before-images of rows before their first write."""
        pks = list(pks)
        for pk in pks:
            self._made[model].pop(pk, None)
        fresh = [pk for pk in pks if pk not in self.before[model]]
        if fresh:
            stored = read(model, fresh, lock=True)
            self.before[model].update((pk, stored.get(pk)) for pk in fresh)
            if model in LINKS:
                self.relinked[LINKS[model].owner].update(row[LINKS[model].owned_by] for row in stored.values())

    def written(self, rows: Iterable[models.Model]) -> None:
        """Record written rows; rows without a before-image are inserts."""
        for row in rows:
            model = type(row)
            if model in LINKS:
                self.relinked[LINKS[model].owner].add(getattr(row, LINKS[model].owned_by))
            if row.pk not in self.before[model]:
                self.before[model][row.pk] = None
                if model in _PARTS:
                    self._part_of[model][row.pk] = row.dataset_id
                if self._kept < _KEPT:
                    self._kept += 1
                    self._made[model][row.pk] = held(row)

    def taken_back(self) -> None:
        """Drop the cached new rows after part of the work was rolled back."""
        self._made.clear()

    # --- when it is done -----------------------------------------------------------------

    def changes(self) -> Iterator[list[Change]]:
        """Yield the changes in batches: by kind of object, oldest row first."""
        was_linked, parts = self._links_before(), self._parts_of_new()
        for model in KINDS:
            told_elsewhere = {pk for pks in parts.get(model, {}).values() for pk in pks}
            touched = sorted({*self.before.get(model, ()), *self.relinked[model]} - told_elsewhere)
            for start in range(0, len(touched), _AT_ONCE):
                yield _Comparison(self, was_linked, parts).changes(model, touched[start : start + _AT_ONCE])

    def _links_before(self) -> dict[Model, dict[int, list[Values]]]:
        """Return the before-images of link rows, by model and owner."""
        found: dict[Model, dict[int, list[Values]]] = {}
        for model, kind in LINKS.items():
            found[model] = defaultdict(list)
            for row in self.before.get(model, {}).values():
                if row is not None:
                    found[model][row[kind.owned_by]].append(row)
        return found

    def _parts_of_new(self) -> dict[Model, dict[int, list[int]]]:
        """Return the new columns of new datasets, by model and dataset."""
        found: dict[Model, dict[int, list[int]]] = {}
        for model, whole in _PARTS.items():
            new = {pk for pk, was in self.before.get(whole, {}).items() if was is None}
            found[model] = defaultdict(list)
            for pk, owner in self._part_of[model].items():
                if owner in new:
                    found[model][owner].append(pk)
        return found

    def now(self, model: Model, pks: Iterable[int]) -> dict[int, Values]:
        """Return the rows as they are stored now, by primary key."""
        made, wanted = self._made[model], list(pks)
        return read(model, [pk for pk in wanted if pk not in made]) | {pk: made[pk] for pk in wanted if pk in made}

    def linked_now(self, link: Model, owners: Iterable[int]) -> dict[int, list[Values]]:
        """Return the current links of these owners; those of a new owner come from the cache if it is complete."""
        kind, made = LINKS[link], self._made[link]
        new = {owner for owner in owners if owner in self._made[kind.owner]} if self._knows_all(link) else set()
        known: dict[int, list[Values]] = {owner: [] for owner in new}
        for row in made.values() if new else ():
            if row[kind.owned_by] in new:
                known[row[kind.owned_by]].append(row)
        return linked(link, [owner for owner in owners if owner not in new]) | known

    def _knows_all(self, model: Model) -> bool:
        return len(self._made[model]) == len(self.before[model])

    def known(self, model: Model, pk: int) -> Values | None:
        """Return the cached row if it is new in this transaction; None if it must be read from the database."""
        return self._made[model].get(pk)

    def gone(self, model: Model, pk: int) -> Values:
        """Return the before-image of a deleted row."""
        row = self.before[model][pk]
        if row is None:
            raise LookupError(f"{model.__name__} {pk} was made and removed again, yet something refers to it")
        return row


class _Comparison:
    """Comparison of a batch of rows of one model with their before-images."""

    def __init__(self, touched: Touched, was_linked: Mapping, parts: Mapping) -> None:
        self._touched, self._was_linked, self._parts = touched, was_linked, parts
        self._names = Names(touched)
        self._now: dict[Model, dict[int, Values]] = {}
        self._links: dict[Model, dict[int, list[Values]]] = {}

    def changes(self, model: Model, pks: list[int]) -> list[Change]:
        self._load(model, pks)
        for part, whole in _PARTS.items():
            if whole is model:
                self._load(part, [pk for owner in pks for pk in self._parts[part].get(owner, ())])
        self._names.reach()
        return [change for pk in pks for change in self._change(model, pk)]

    def _load(self, model: Model, pks: list[int]) -> None:
        before = self._touched.before.get(model, {})
        self._now[model] = self._touched.now(model, pks)
        self._names.know(model, [before[pk] for pk in pks if before.get(pk) is not None])
        self._names.know(model, self._now[model].values())
        relinked = [pk for pk in pks if pk in self._touched.relinked[model]]
        for link, kind in LINKS.items():
            if kind.owner is model and relinked:
                now = self._touched.linked_now(link, relinked)
                self._links[link] = {owner: now.get(owner, []) for owner in relinked}
                for owner in relinked:
                    self._names.know(link, [*self._was_linked[link].get(owner, ()), *self._links[link][owner]])

    def _change(self, model: Model, pk: int) -> list[Change]:
        now = self._now[model].get(pk)
        was = self._touched.before.get(model, {}).get(pk, now)
        before, after = self._told(model, pk, was, now=False), self._told(model, pk, now, now=True)
        if before == after:
            return []
        row = now if now is not None else was
        key, name = stable_key(model, row), self._names.name(model, row)
        action = _action(was, now)
        return [Change(action, KINDS[model], key, name, before, after, self._names.dataset_key(model, row))]

    def _told(self, model: Model, pk: int, row: Values | None, *, now: bool) -> dict[str, Any]:
        """Return a row's fields, with its links, and with its columns if they are new, too."""
        if row is None:
            return {}
        told = self._names.told(model, row)
        for link, kind in LINKS.items():
            if kind.owner is model and pk in self._links.get(link, {}):
                told[kind.field] = self._listed(link, self._links_of(link, pk, now=now))
        for part, whole in _PARTS.items():
            if whole is model and now and pk in self._parts[part]:
                told["columns"] = [self._part(part, column) for column in self._parts[part][pk]]
        return told

    def _part(self, model: Model, pk: int) -> dict[str, Any]:
        told = self._told(model, pk, self._now[model].get(pk), now=True)
        return {name: value for name, value in told.items() if name != "dataset" and value not in EMPTY}

    def _links_of(self, link: Model, owner: int, *, now: bool) -> list[Values]:
        """Return an owner's links, current or before the work; unchanged links are in both."""
        current = self._links[link].get(owner, [])
        if now:
            return current
        untouched = [row for row in current if row["id"] not in self._touched.before[link]]
        return untouched + self._was_linked[link].get(owner, [])

    def _listed(self, link: Model, rows: list[Values]) -> list[str]:
        ordered = sorted(rows, key=lambda row: (row.get("ordinal", 0), row["id"]))
        return [self._names.name(link, row) for row in ordered]


def _action(was: Values | None, now: Values | None) -> Action:
    if was is None:
        return Action.CREATED
    if now is None:
        return Action.DELETED
    if was.get("active") != now.get("active"):
        return Action.RESTORED if now["active"] else Action.RETIRED
    return Action.RENAMED if was.get("name") != now.get("name") else Action.CHANGED
