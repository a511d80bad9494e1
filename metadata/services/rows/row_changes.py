"""Writes of metadata rows: transaction, optimistic lock, change-log entries, classification check.

``store``, ``store_all``, ``put_aside`` and ``remove`` are the only functions that write metadata. They check
that the current actor may change the rows, and add the changes to the change log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models.deletion import Collector

from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.change_log import EMPTY, Change, Row, unit_of_work
from elevata.core.registry import Provided, Registered
from metadata.domain.naming import HISTORY_SUFFIX
from metadata.models import (
    SourceColumn,
    SourceDataset,
    TargetColumn,
    TargetDataset,
)
from metadata.permissions import must_be_changeable
from metadata.services.rows.data_reads import check_read_permissions
from metadata.services.rows.lowered_classification import must_stay_classified
from metadata.services.rows.subjects import KINDS, LINKS, Model, Names, Values, linked, read, stable_key, stored_values

# Changed rows of a transaction, and the change-log entries derived from them.
#
# Each row has an entry of its own, with two exceptions: links (inputs, pairs) are a field of their owner, and columns
# created with their dataset are in the dataset's entry.


Action = ChangeLogEntry.Action

# Columns are parts of their dataset, as its field ``columns``.
_PARTS: dict[Model, Model] = {SourceColumn: SourceDataset, TargetColumn: TargetDataset}
# Number of rows compared at a time, and of new rows cached for it: an import writes hundreds of thousands.
_BATCH_SIZE = 200
_MAX_CACHED = 20_000


# Functions that follow changes of metadata, in their transaction; they get the before-images.
FOLLOWERS: Registered[Callable[[Mapping[Model, Mapping[int, Values | None]]], None]] = Registered()


class ChangedRows:
    """Before-images of changed rows, keyed by model and primary key; None for new rows."""

    def __init__(self) -> None:
        self.before: dict[Model, dict[int, Values | None]] = defaultdict(dict)
        # Owners of changed links: model → ids.
        self.relinked: dict[Model, set[int]] = defaultdict(set)
        # Datasets of new columns: model → column id → dataset id.
        self._part_of: dict[Model, dict[int, int]] = defaultdict(dict)
        # Cache of new rows that were not changed since they were inserted.
        self._new_rows: dict[Model, dict[int, Values]] = defaultdict(dict)
        self._cached_count = 0
        # Values that followed a rename: (model, primary key, field) → (old, new), in order.
        self._followed: dict[tuple[Model, int, str], list[tuple[Any, Any]]] = defaultdict(list)

    # --- during the transaction ----------------------------------------------------------

    def about_to_change(self, model: Model, pks: Iterable[int]) -> None:
        """Store the before-images of rows before their first write."""
        pks = list(pks)
        for pk in pks:
            self._new_rows[model].pop(pk, None)
        unrecorded = [pk for pk in pks if pk not in self.before[model]]
        if unrecorded:
            stored = read(model, unrecorded, lock=True)
            self.before[model].update((pk, stored.get(pk)) for pk in unrecorded)
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
                    self._part_of[model][row.pk] = vars(row)["dataset_id"]
                if self._cached_count < _MAX_CACHED:
                    self._cached_count += 1
                    self._new_rows[model][row.pk] = stored_values(row)

    def followed(self, row: models.Model, was: Mapping[str, Any]) -> None:
        """Record fields of a row that were rewritten to follow a rename; ``was`` are their stored values before."""
        for name, value in was.items():
            self._followed[type(row), row.pk, name].append((value, getattr(row, name)))

    def rolled_back(self) -> None:
        """Forget the cached new rows and what followed a rename after part of the work was rolled back."""
        self._new_rows.clear()
        self._followed.clear()

    # --- before commit --------------------------------------------------------------------

    def check(self) -> None:
        must_stay_classified(self.before)
        check_read_permissions(self._as_renamed())
        for follow in FOLLOWERS:
            follow(self.before)

    def _as_renamed(self) -> dict[Model, dict[int, Values | None]]:
        """Return the before-images with the values that followed the renames since."""
        images = {model: dict(rows) for model, rows in self.before.items()}
        for (model, pk, name), steps in self._followed.items():
            image = images[model][pk]
            if image is not None:
                value = image[name]
                for old, new in steps:
                    value = new if value == old else value
                images[model][pk] = {**image, name: value}
        return images

    def changes(self) -> Iterator[list[Change]]:
        """Yield the changes in batches, by kind of object, oldest row first."""
        was_linked, parts = self._links_before(), self._parts_of_new()
        for model in KINDS:
            in_other_entries = {pk for pks in parts.get(model, {}).values() for pk in pks}
            changed = sorted({*self.before.get(model, ()), *self.relinked[model]} - in_other_entries)
            for start in range(0, len(changed), _BATCH_SIZE):
                yield _Comparison(self, was_linked, parts).changes(model, changed[start : start + _BATCH_SIZE])

    def _links_before(self) -> dict[Model, dict[int, list[Values]]]:
        """Return the before-images of link rows, by model and owner."""
        links: dict[Model, dict[int, list[Values]]] = {}
        for model, kind in LINKS.items():
            links[model] = defaultdict(list)
            for row in self.before.get(model, {}).values():
                if row is not None:
                    links[model][row[kind.owned_by]].append(row)
        return links

    def _parts_of_new(self) -> dict[Model, dict[int, list[int]]]:
        """Return the new columns of new datasets, by model and dataset."""
        parts: dict[Model, dict[int, list[int]]] = {}
        for model, whole in _PARTS.items():
            new = {pk for pk, was in self.before.get(whole, {}).items() if was is None}
            parts[model] = defaultdict(list)
            for pk, owner in self._part_of[model].items():
                if owner in new:
                    parts[model][owner].append(pk)
        return parts

    def now(self, model: Model, pks: Iterable[int]) -> dict[int, Values]:
        """Return the current rows by primary key."""
        cached, pks = self._new_rows[model], list(pks)
        return read(model, [pk for pk in pks if pk not in cached]) | {pk: cached[pk] for pk in pks if pk in cached}

    def linked_now(self, link: Model, owners: Iterable[int]) -> dict[int, list[Values]]:
        """Return the current links of these owners, those of new owners from the cache if it is complete."""
        kind, cached = LINKS[link], self._new_rows[link]
        new = {owner for owner in owners if owner in self._new_rows[kind.owner]} if self._is_complete(link) else set()
        known: dict[int, list[Values]] = {owner: [] for owner in new}
        for row in cached.values() if new else ():
            if row[kind.owned_by] in new:
                known[row[kind.owned_by]].append(row)
        return linked(link, [owner for owner in owners if owner not in new]) | known

    def _is_complete(self, model: Model) -> bool:
        return len(self._new_rows[model]) == len(self.before[model])

    def known(self, model: Model, pk: int) -> Values | None:
        """Return the cached row if it is new in this transaction, else None."""
        return self._new_rows[model].get(pk)

    def gone(self, model: Model, pk: int) -> Values:
        """Return the before-image of a deleted row."""
        row = self.before[model][pk]
        if row is None:
            raise LookupError(f"{model.__name__} {pk} was made and removed again, yet something refers to it")
        return row


class _Comparison:
    """Comparison of a batch of rows of one model with their before-images."""

    def __init__(self, tracker: ChangedRows, was_linked: Mapping, parts: Mapping) -> None:
        self._tracker, self._was_linked, self._parts = tracker, was_linked, parts
        self._names = Names(tracker)
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
        before = self._tracker.before.get(model, {})
        self._now[model] = self._tracker.now(model, pks)
        self._names.know(model, [image for pk in pks if (image := before.get(pk)) is not None])
        self._names.know(model, self._now[model].values())
        relinked = [pk for pk in pks if pk in self._tracker.relinked[model]]
        for link, kind in LINKS.items():
            if kind.owner is model and relinked:
                now = self._tracker.linked_now(link, relinked)
                self._links[link] = {owner: now.get(owner, []) for owner in relinked}
                for owner in relinked:
                    self._names.know(link, [*self._was_linked[link].get(owner, ()), *self._links[link][owner]])

    def _change(self, model: Model, pk: int) -> list[Change]:
        now = self._now[model].get(pk)
        was = self._tracker.before.get(model, {}).get(pk, now)
        before, after = self._fields(model, pk, was, now=False), self._fields(model, pk, now, now=True)
        if before == after:
            return []
        row = now if now is not None else was
        assert row is not None  # the two differ
        key, name = stable_key(model, row), self._names.name(model, row)
        action = _action(was, now)
        return [Change(action, KINDS[model], key, name, before, after, self._names.dataset_key(model, row))]

    def _fields(self, model: Model, pk: int, row: Values | None, *, now: bool) -> dict[str, Any]:
        """Return a row's fields, with its links, and its new columns if the row itself is new."""
        if row is None:
            return {}
        fields = self._names.named_values(model, row)
        for link, kind in LINKS.items():
            if kind.owner is model and pk in self._links.get(link, {}):
                fields[kind.field] = self._link_names(link, self._links_of(link, pk, now=now))
        for part, whole in _PARTS.items():
            if whole is model and now and pk in self._parts[part]:
                fields["columns"] = [self._part(part, column) for column in self._parts[part][pk]]
        return fields

    def _part(self, model: Model, pk: int) -> dict[str, Any]:
        fields = self._fields(model, pk, self._now[model].get(pk), now=True)
        return {name: value for name, value in fields.items() if name != "dataset" and value not in EMPTY}

    def _links_of(self, link: Model, owner: int, *, now: bool) -> list[Values]:
        """Return an owner's links, current or before the unit of work; unchanged links are in both."""
        current = self._links[link].get(owner, [])
        if now:
            return current
        unchanged = [row for row in current if row["id"] not in self._tracker.before[link]]
        return unchanged + self._was_linked[link].get(owner, [])

    def _link_names(self, link: Model, rows: list[Values]) -> list[str]:
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


@contextmanager
def changed_rows() -> Iterator[ChangedRows]:
    """Yield the tracker of changed rows of the open unit of work, or of a new one if none is open."""
    with unit_of_work() as unit:
        yield unit.tracker(ChangedRows)


def store(row: Row, followed: Mapping[str, Any] | None = None) -> Row:
    """Write a checked row; the version of an existing row is incremented.

    ``followed`` are the stored values of fields that follow a rename and mean the same as before.
    """
    must_be_changeable([row])
    with changed_rows() as tracker:
        if row.pk is not None:
            tracker.about_to_change(type(row), [row.pk])
            row.version += 1
        row.save()
        tracker.written([row])
        tracker.followed(row, followed or {})
    return row


def store_all(rows: Iterable[Row]) -> list[Row]:
    """Insert new, checked rows of one model in one statement."""
    new = list(rows)
    must_be_changeable(new)
    if new:
        with changed_rows() as tracker:
            type(new[0])._default_manager.bulk_create(new)
            tracker.written(new)
    return new


def store_batch(rows: Iterable[Row]) -> None:
    """Write new and changed, checked rows of one model; the before-images are read in one statement."""
    written = list(rows)
    changed = [row for row in written if row.pk is not None]
    store_all([row for row in written if row.pk is None])
    if changed:
        with changed_rows() as tracker:
            tracker.about_to_change(type(changed[0]), [row.pk for row in changed])
            for row in changed:
                store(row)


def put_aside(row: Row, **between: Any) -> None:
    """Write temporary values to a stored row, so that other rows can take its values; ``row`` is not changed."""
    must_be_changeable([row])
    with changed_rows() as tracker:
        tracker.about_to_change(type(row), [row.pk])
        type(row)._default_manager.filter(pk=row.pk).update(**between)


def clear_the_way(changes: list[tuple[Any, str | None, int | None]]) -> None:
    """Write temporary names and key positions to rows that will get new ones, so that rows can swap them.

    ``changes`` are (row, new name, new position in the key). The given row objects are not changed, so that
    their differences are still detected.
    """
    for row, name, place in changes:
        between: dict[str, Any] = {}
        if row.name != name:
            between["name"] = _name_between(row)
        if getattr(row, "key_ordinal", None) not in (None, place):
            between["key_ordinal"] = None
            if isinstance(row, TargetColumn):
                between["role"] = TargetColumn.Role.ATTRIBUTE
        if between:
            put_aside(row, **between)


def _name_between(row: Any) -> str:
    history = isinstance(row, TargetDataset) and row.history_of_id is not None
    return f"moving_{row.key.hex}{HISTORY_SUFFIX if history else ''}"


def remove(rows: Iterable[Row]) -> None:
    """Delete rows of one model and the rows that cascade from them."""
    deleted = list(rows)
    if not deleted:
        return
    must_be_changeable(deleted)
    collector = Collector(using=DEFAULT_DB_ALIAS)
    vars(collector)["can_fast_delete"] = lambda *_, **__: False  # load every row, so that it can be logged
    with changed_rows() as tracker:
        collector.collect(deleted)
        for model, instances in collector.data.items():
            tracker.about_to_change(model, [row.pk for row in instances])
        for (field, _), groups in collector.field_updates.items():
            stored_groups: Iterable[Any] = groups  # query sets and sets of rows
            for group in stored_groups:
                tracker.about_to_change(field.model, [row.pk for row in group])
        collector.delete()


# Function that returns True if an environment has the name of a dataset or column.
IS_NAME_APPLIED: Provided[Callable[[TargetDataset | TargetColumn], bool]] = Provided("IS_NAME_APPLIED")
