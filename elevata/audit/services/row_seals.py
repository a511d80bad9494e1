"""Seals of logged rows: signed digests that show changes outside of the product.

A transaction that writes logged rows seals them at its end. A seal covers the values of the row and the rows that
belong to it (a dataset's inputs, and the ids of its columns), so that rows inserted or removed by SQL show, too. A row
that did not match its seal before the transaction keeps its seal: an edit neither covers a change by SQL up nor makes
the editor its author. ``adopt_metadata`` seals it anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from django.db.models import Max, Model, QuerySet

from elevata.audit.models import ChangeLogEntry, RowSeal
from elevata.audit.row_digests import Fields, canonical_row, id_of, parts_digest, row_digest
from elevata.audit.services.signing import keyring
from elevata.audit.signatures import Signature
from elevata.core.registry import Registered

Kind = type[Model]
Values = dict[str, Any]

# Problem of a seal whose key the settings do not list: nobody knows whether its row was changed.
UNKNOWN_KEY = "key_unknown"
_PURPOSE = "row-seal"
_BATCH = 500
_CHUNK = 2000
# Counters and times of the row itself.
_UNSEALED = frozenset({"id", "version", "created_at", "updated_at"})


@dataclass(frozen=True)
class Part:
    """Rows that belong to a sealed row by the foreign key ``owner``; ``whole`` covers their values, else their ids."""

    model: Kind
    owner: str
    whole: bool = False


@dataclass(frozen=True)
class Sealed:
    """Rules for the seals of one model; the fields ``unsealed`` are written without an entry in the change log."""

    parts: tuple[Part, ...] = ()
    unsealed: frozenset[str] = frozenset()


SEALED_MODELS: Registered[tuple[Kind, Sealed]] = Registered()


@cache
def sealed_models() -> dict[Kind, Sealed]:
    """Return the models whose rows are sealed, owners before the rows that belong to them."""
    return dict(SEALED_MODELS)


@cache
def _owners() -> dict[Kind, tuple[tuple[Kind, Part], ...]]:
    """Return the owners of the rows of each model."""
    owners: dict[Kind, list[tuple[Kind, Part]]] = defaultdict(list)
    for owner, rules in sealed_models().items():
        for part in rules.parts:
            owners[part.model].append((owner, part))
    return {model: tuple(pairs) for model, pairs in owners.items()}


def seal(before: Mapping[Kind, Mapping[int, Values | None]], entry: int | None) -> None:
    """Seal the rows that a transaction wrote, at its end; ``before`` are their before-images, None for new rows.

    ``entry`` is the last change-log entry of the transaction; without one, seals keep theirs.
    """
    owners: dict[Kind, set[int]] = defaultdict(set)
    for changed, own_images in before.items():
        for owner, part in _owners().get(changed, ()):
            owners[owner].update(_touched_owners(part, own_images))
    images = _Images(before)
    for model in sealed_models():
        new = {pk for pk, image in images.of(model).items() if image is None}
        pks = sorted({*images.of(model), *owners[model]})
        for start in range(0, len(pks), _BATCH):
            _Batch(model, pks[start : start + _BATCH], images, owners[model] | new).seal(entry)


def _touched_owners(part: Part, images: Mapping[int, Values | None]) -> Iterator[int]:
    """Yield the owners of rows that were created, moved or removed, and of changed rows that count as a whole."""
    current = _values(part.model, images, part.owner)
    for pk, image in images.items():
        owners = {row[part.owner] for row in (image, current.get(pk)) if row is not None}
        if part.whole or image is None or pk not in current or len(owners) > 1:
            yield from owners


class _Images:
    """Before-images of a transaction, also by the owners of their rows."""

    def __init__(self, before: Mapping[Kind, Mapping[int, Values | None]]) -> None:
        self._before = before
        self._by_owner: dict[Part, dict[int, list[Values]]] = {}

    def of(self, model: Kind) -> Mapping[int, Values | None]:
        return self._before.get(model, {})

    def owned(self, part: Part, owner: int) -> list[Values]:
        """Return the images of rows that belonged to an owner."""
        if part not in self._by_owner:
            self._by_owner[part] = defaultdict(list)
            for image in self.of(part.model).values():
                if image is not None:
                    self._by_owner[part][image[part.owner]].append(image)
        return self._by_owner[part].get(owner, [])


class _Batch:
    """Rows of one model, their seals and the rows that belong to them, before and after a transaction."""

    def __init__(self, model: Kind, pks: list[int], images: _Images, owners: Collection[int]) -> None:
        self._model, self._rules, self._pks, self._images = model, sealed_models()[model], pks, images
        self._owners = frozenset(owners).intersection(pks)
        # Locked first: two transactions that add rows to one owner seal it one after the other.
        rows = RowSeal.objects.select_for_update().filter(table=table_of(model), row_id__among=pks).order_by("pk")
        self._seals = {seal.row_id: seal for seal in map(Seal._make, rows.values_list(*Seal._fields))}
        self._now = _values(model, pks)
        self._parts = parts_of(self._rules, self._owners) if self._owners else {}

    def seal(self, entry: int | None) -> None:
        images = self._images.of(self._model)
        written = []
        for pk, row in self._now.items():
            stored, is_new = self._seals.get(pk), pk in images and images[pk] is None
            if not is_new and not self._was_intact(pk, images.get(pk) or row, stored):
                continue
            # A transaction that added a row to the same owner may have ended later with earlier entries.
            at = max(entry or 0, stored.entry_id if stored is not None else 0)
            if pk in self._owners:
                parts = parts_digest(self._parts.get(pk, {}))
            else:
                assert stored is not None  # new rows are owners, and others were intact
                parts = stored.parts
            written.append(_signed(self._model, pk, _digest(self._model, self._rules, row), parts, at))
        _store(written)
        gone = [pk for pk in self._pks if pk not in self._now]
        if gone:
            RowSeal.objects.filter(table=table_of(self._model), row_id__among=gone).delete()

    def _was_intact(self, pk: int, row: Values, stored: Seal | None) -> bool:
        """Return True if the row, and the touched rows that belong to it, matched the seal before the transaction."""
        if stored is None:
            return False
        parts = self._parts_before(pk) if pk in self._owners else stored.parts
        return not seal_problem(stored, _digest(self._model, self._rules, row), parts)

    def _parts_before(self, pk: int) -> str:
        parts: dict[str, list[Any]] = {}
        for part in self._rules.parts:
            kind, images = part.model.__name__, self._images.of(part.model)
            unchanged = [item for item in self._parts.get(pk, {}).get(kind, ()) if id_of(item) not in images]
            parts[kind] = unchanged + [_part(part, image) for image in self._images.owned(part, pk)]
        return parts_digest(parts)


def image(row: Model) -> Values | None:
    """Return the stored values of a row; None if it is not stored."""
    return _values(type(row), [row.pk]).get(row.pk)


def seal_all(model: Kind, rules: Sealed) -> None:
    """Seal all rows of a model as they are.

    For migrations, which have models of their own: each one that changes values of sealed rows seals them anew. The
    seals are of the newest change-log entry, since the rows are as all entries left them.
    """
    newest = ChangeLogEntry.objects.aggregate(newest=Max("pk"))["newest"] or 0
    pks = list(model._base_manager.order_by("pk").values_list("pk", flat=True))
    for start in range(0, len(pks), _BATCH):
        batch = pks[start : start + _BATCH]
        parts = parts_of(rules, batch)
        rows = _values(model, batch).items()
        _store([_signed(model, pk, _digest(model, rules, row), parts_digest(parts[pk]), newest) for pk, row in rows])


def forget(model: Kind, pk: int) -> None:
    """Remove the seal of a row that was removed outside of the product."""
    RowSeal.objects.filter(table=table_of(model), row_id=pk).delete()


def _store(seals: Collection[RowSeal]) -> None:
    RowSeal.objects.bulk_create(
        seals,
        update_conflicts=True,
        unique_fields=["table", "row_id"],
        update_fields=["digest", "parts", "entry_id", "signature"],
    )


class Seal(NamedTuple):
    """Columns of a stored seal."""

    table: str
    row_id: int
    digest: str
    parts: str
    entry_id: int
    signature: str = ""

    def message(self) -> bytes:
        return f"{self.table} {self.row_id} {self.digest} {self.parts} {self.entry_id}".encode()


def seal_problem(seal: Seal, digest: str, parts: str) -> str:
    """Return the difference between a seal and the digests of its row; empty if there is none."""
    problem = keyring().problem(Signature.parse(seal.signature), _PURPOSE, seal.message())
    if seal.digest != digest or problem:
        return UNKNOWN_KEY if seal.digest == digest and problem == UNKNOWN_KEY else "changed"
    return "" if seal.parts == parts else "parts"


def _signed(model: Kind, pk: int, digest: str, parts: str, entry: int) -> RowSeal:
    seal = Seal(table_of(model), pk, digest, parts, entry)
    return RowSeal(**seal._replace(signature=str(keyring().sign(_PURPOSE, seal.message())))._asdict())


def table_of(model: Kind) -> str:
    return model._meta.db_table


def _digest(model: Kind, rules: Sealed, row: Values) -> str:
    fields = sealed_fields(model, rules)
    return row_digest(fields, (row[name] for name in fields.names))


@cache
def sealed_fields(model: Kind, rules: Sealed) -> Fields:
    """Return the sealed fields of a model."""
    unsealed = _UNSEALED | rules.unsealed
    fields = [field for field in model._meta.concrete_fields if field.attname not in unsealed]
    return Fields(tuple(field.attname for field in fields), tuple(map(_default, fields)))


def _default(field: Any) -> Any:
    # Keys have random defaults, which no row has in common with another.
    is_random = callable(field.default) and field.default not in (list, dict)
    return None if is_random else field.get_default()


def _values(model: Kind, pks: Collection[int], *fields: str) -> dict[int, Values]:
    """Return the stored rows, or these fields of them, by primary key; missing rows are left out."""
    names = fields or tuple(field.attname for field in model._meta.concrete_fields)
    rows = stored_rows(model, rows_among(model, list(pks)), names)
    return {pk: dict(zip(names, row, strict=True)) for pk, row in rows}


def stored_rows(model: Kind, rows: QuerySet | None, names: tuple[str, ...]) -> Iterator[tuple[int, tuple]]:
    """Yield the primary keys and these fields of the rows of a model, or of these rows."""
    selected = model._base_manager.all() if rows is None else rows
    for pk, *values in selected.order_by().values_list("pk", *names).iterator(chunk_size=_CHUNK):
        yield pk, values


def rows_among(model: Kind, pks: Collection[int]) -> QuerySet:
    """Return the rows with these primary keys."""
    key = model._meta.pk
    return model._base_manager.filter(**{f"{key.name}__pk__among" if key.is_relation else "pk__among": pks})


def parts_of(rules: Sealed, owners: Collection[int] | None) -> dict[int, dict[str, list[Any]]]:
    """Return the rows that belong to these owners, or to all, by owner and model."""
    parts: dict[int, dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for part in rules.parts:
        rows = part.model._base_manager.order_by()
        if owners is not None:
            rows = rows.filter(**{f"{part.owner.removesuffix('_id')}__pk__among": owners})
        kind = part.model.__name__
        if not part.whole:
            for pk, owner in rows.values_list("pk", part.owner):
                parts[owner][kind].append(pk)
            continue
        fields = sealed_fields(part.model, _AS_PART)
        place = fields.names.index(part.owner)
        for pk, values in stored_rows(part.model, rows, fields.names):
            parts[values[place]][kind].append({"id": pk} | canonical_row(fields, values))
    return parts


_AS_PART = Sealed()


def _part(part: Part, row: Values) -> Any:
    """Return a row as a part of its owner: its id, or its canonical form with the id."""
    if not part.whole:
        return row["id"]
    fields = sealed_fields(part.model, _AS_PART)
    return {"id": row["id"]} | canonical_row(fields, (row[name] for name in fields.names))
