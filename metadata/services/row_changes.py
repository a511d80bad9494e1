"""Row writes of services: transaction, optimistic lock, change-log entries, classification check.

``store``, ``store_all``, ``put_aside`` and ``remove`` are the only functions that write metadata. They check
that the current actor may change the rows, and add the changes to the change log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.db import DEFAULT_DB_ALIAS, models
from django.db.models.deletion import Collector

from elevata.accounts.permissions import current_actor, may
from elevata.accounts.roles import Permission, Place
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services.change_log import EMPTY, Change, Row, are_constraints_left_to_database, unit_of_work
from elevata.core.errors import MetadataError
from metadata.domain.sensitivity import is_sensitive
from metadata.models import ColumnInput, DatasetInput, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.permissions import must_be_changeable
from metadata.selectors.classification import classifications
from metadata.services.subjects import KINDS, LINKS, Model, Names, Values, held, linked, read, stable_key

# Check that a metadata change does not make sensitive values readable for an actor who may not read them.
#
# Raising a classification is always allowed. Lowering one, deleting a classified object, and disconnecting a
# column from the sensitive column that it reads need ``read_sensitive`` there, because the tables still contain
# the values.


_OF_A_COLUMN = ("pii", "sensitivity", "expression", "name", "former_names", "dataset_id")


def must_stay_classified(before: Mapping[Any, Mapping[int, Any]]) -> None:
    """Raise MetadataError ``not_permitted`` if the work makes values readable that its actor may not read.

    ``before`` maps models to the before-images of changed rows, None for new ones. Called at the end of the work,
    in its transaction. The system is always allowed.
    """
    user = current_actor().user
    if user is None or may(user, Permission.READ_SENSITIVE):
        return
    before = {model: rows for model, rows in before.items() if any(row is not None for row in rows.values())}
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


# Changed rows of a transaction, and the change-log entries derived from them.
#
# Each row has an entry of its own, except links (inputs, pairs), which appear as a field of their owner, and
# columns created with their dataset, which appear in the dataset's entry.


Action = ChangeLogEntry.Action

# Columns are parts of their dataset, as its field ``columns``.
_PARTS: dict[Model, Model] = {SourceColumn: SourceDataset, TargetColumn: TargetDataset}
# Rows compared at a time, and new rows cached for it: an import touches hundreds of thousands.
_AT_ONCE = 200
_KEPT = 20_000


class ChangedRows:
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

    # --- during the transaction ----------------------------------------------------------

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

    def rolled_back(self) -> None:
        """Drop the cached new rows after part of the work was rolled back."""
        self._made.clear()

    # --- before commit --------------------------------------------------------------------

    def check(self) -> None:
        must_stay_classified(self.before)

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

    def __init__(self, touched: ChangedRows, was_linked: Mapping, parts: Mapping) -> None:
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


@contextmanager
def changed_rows() -> Iterator[ChangedRows]:
    """Yield the tracker of changed rows of the open unit of work, or of a new one."""
    with unit_of_work() as unit:
        yield unit.tracker(ChangedRows)


def store(row: Row) -> Row:
    """Write a checked row; the version of an existing row is incremented."""
    must_be_changeable([row])
    with changed_rows() as tracker:
        if row.pk is not None:
            tracker.about_to_change(type(row), [row.pk])
            row.version += 1
        row.save()
        tracker.written([row])
    return row


def store_all(rows: Iterable[Row]) -> list[Row]:
    """Insert new, checked rows of one model in one statement."""
    made = list(rows)
    must_be_changeable(made)
    if made:
        with changed_rows() as tracker:
            type(made[0]).objects.bulk_create(made)
            tracker.written(made)
    return made


def put_aside(row: Row, **between: Any) -> None:
    """Write temporary values to a stored row, to free its own for other rows; ``row`` is unchanged."""
    must_be_changeable([row])
    with changed_rows() as tracker:
        tracker.about_to_change(type(row), [row.pk])
        type(row).objects.filter(pk=row.pk).update(**between)


def remove(rows: Iterable[Row]) -> None:
    """Delete rows of one model and the rows that cascade from them."""
    gone = list(rows)
    if not gone:
        return
    must_be_changeable(gone)
    collector = Collector(using=DEFAULT_DB_ALIAS)
    collector.can_fast_delete = lambda *_, **__: False  # every row is loaded, and so can be logged
    with changed_rows() as tracker:
        collector.collect(gone)
        for model, found in collector.data.items():
            tracker.about_to_change(model, [row.pk for row in found])
        for (changed, _), groups in collector.field_updates.items():
            for found in groups:
                tracker.about_to_change(changed.model, [row.pk for row in found])
        collector.delete()


def check_word_list(value: Any, field: str, where: str) -> None:
    """Check that tags or former names are a list of texts without duplicates."""
    fits = isinstance(value, list) and all(isinstance(item, str) and item.strip() for item in value)
    if not fits or len(set(value)) != len(value):
        raise MetadataError("invalid", f"must be a list of words, none twice, not {value!r}", field, where)


def free_key(model: type[models.Model], derive: Callable[[int], UUID]) -> UUID:
    """Return the first derived stable key that is not taken, because a later object may reuse a name."""
    attempt = 0
    while not are_constraints_left_to_database() and model.objects.filter(key=derive(attempt)).exists():
        attempt += 1
    return derive(attempt)


def former_names(current: list[str], old: str, new: str) -> list[str]:
    """Return the former names after a rename, newest last, without the new name."""
    return [name for name in current if name not in (old, new)] + ([old] if old != new else [])
