"""Rows that do not match their seals: they were changed outside of the product."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from django.db.models import Max, Model, QuerySet

from elevata.audit.models import ChangeLogEntry, RowSeal, Versioned
from elevata.audit.row_digests import parts_digest, row_digest
from elevata.audit.services.row_seals import (
    UNKNOWN_KEY,
    Kind,
    Seal,
    parts_of,
    rows_among,
    seal_problem,
    sealed_fields,
    sealed_models,
    stored_rows,
    table_of,
)

# Action of entries by which an administrator becomes the author of rows that were changed outside of the product.
ADOPTED = "adopted"
_COMPARISONS = 3


@dataclass(frozen=True)
class AlteredRow:
    """Row that does not match its seal. ``problem`` is a key of ``PROBLEMS``.

    ``row`` is None for a removed row; ``entry`` is the last change-log entry of one that was removed with its seal.
    """

    model: Kind
    pk: int
    problem: str
    row: Model | None = None
    entry: ChangeLogEntry | None = None

    @property
    def key(self) -> str:
        """Return the row's stable key, its name, or else its id."""
        if self.entry is not None:
            return self.entry.subject_key
        field = getattr(self.model, "LOG_KEY", "")
        return str(getattr(self.row, field)) if self.row is not None and field else str(self.pk)

    @property
    def name(self) -> str:
        described = self.entry.subject_name if self.entry is not None else self.row or self.pk
        return f"{self.model._meta.verbose_name} {described}"

    def describe(self) -> str:
        """Return the table, the key and the difference in words."""
        return f"{self.model._meta.db_table} {self.key} ({self.name}): {PROBLEMS[self.problem]}"

    def as_json(self) -> dict[str, str]:
        return {
            "table": self.model._meta.db_table,
            "key": self.key,
            "name": self.name,
            "problem": self.problem,
            "message": PROBLEMS[self.problem],
        }


PROBLEMS = {
    UNKNOWN_KEY: "it is sealed with a key that is not among ELEVATA_AUDIT_KEYS_FORMER",
    "changed": "its values were changed outside of the product",
    "parts": "rows that belong to it were added, changed or removed outside of the product",
    "unsealed": "it was added outside of the product",
    "removed": "it was removed outside of the product",
    "older": "it was put back to an older state outside of the product",
}


def all_altered_rows() -> list[AlteredRow]:
    """Return the rows that do not match their seals, and those whose seals are not of their newest entries."""
    altered = list(altered_rows())
    named = {(row.model, row.pk) for row in altered}
    return altered + [row for row in outdated_rows() if (row.model, row.pk) not in named]


def altered_rows(within: Mapping[Kind, QuerySet | None] | None = None) -> Iterator[AlteredRow]:
    """Yield the rows that do not match their seals, of all models or of these.

    ``within`` maps models to the rows to compare; None for all rows, and then seals without a row are found, too.
    """
    wanted = dict.fromkeys(sealed_models()) if within is None else within
    seals = _seals_of([model for model, rows in wanted.items() if rows is None])
    for model, rows in wanted.items():
        yield from _altered(model, rows, seals.get(model))


def _seals_of(models: Collection[Kind]) -> dict[Kind, dict[int, Seal]]:
    """Return all seals of these models by the ids of their rows, by one query."""
    seals: dict[Kind, dict[int, Seal]] = {model: {} for model in models}
    by_table = {table_of(model): seals[model] for model in models}
    rows = RowSeal.objects.filter(table__in=list(by_table)).order_by()
    for seal in map(Seal._make, rows.values_list(*Seal._fields).iterator()):
        by_table[seal.table][seal.row_id] = seal
    return seals


def _altered(model: Kind, rows: QuerySet | None, seals: Mapping[int, Seal] | None) -> Iterator[AlteredRow]:
    problems = _differences(model, rows, seals=seals)
    for _ in range(_COMPARISONS - 1):
        # Rows, parts and seals are read one after the other: a transaction may have ended in between.
        problems = problems and _differences(model, rows_among(model, list(problems)), list(problems))
    for pk, problem in problems.items():
        yield AlteredRow(model, pk, problem, model._base_manager.filter(pk=pk).first())


def _differences(
    model: Kind,
    rows: QuerySet | None,
    pks: Collection[int] | None = None,
    seals: Mapping[int, Seal] | None = None,
) -> dict[int, str]:
    """Return the problems of these rows, or of all, by primary key. ``seals`` are those of all rows.

    With ``pks``, and for all rows, seals without a row are a problem, too.
    """
    rules = sealed_models()[model]
    fields = sealed_fields(model, rules)
    values = dict(stored_rows(model, rows, fields.names))
    if seals is None:
        own = RowSeal.objects.filter(table=table_of(model), row_id__among=list(values) if pks is None else pks)
        seals = {seal.row_id: seal for seal in map(Seal._make, own.order_by().values_list(*Seal._fields).iterator())}
    parts = parts_of(rules, None if rows is None else list(values))
    problems = {}
    for pk, row in values.items():
        seal = seals.get(pk)
        problem = "unsealed" if seal is None else seal_problem(seal, row_digest(fields, row), parts_digest(parts[pk]))
        if problem:
            problems[pk] = problem
    return problems | dict.fromkeys(sorted(seals.keys() - values.keys()), "removed")


def outdated_rows() -> Iterator[AlteredRow]:
    """Yield the rows whose newest change-log entry is not the one of their seals.

    They were put back with their seals to a former state, or removed with them. Only objects with entries of their own
    are compared; a column that was created with its dataset has none before its first change.
    """
    for model in sealed_models():
        if issubclass(model, Versioned):
            yield from _outdated(model)


def _outdated(model: type[Versioned]) -> Iterator[AlteredRow]:
    kind = model.LOG_KIND or model._meta.model_name
    changes = ChangeLogEntry.objects.filter(subject_kind=kind, action__in=(*ChangeLogEntry.Action.values, ADOPTED))
    newest = dict(changes.order_by().values_list("subject_key").annotate(Max("pk")))
    entries = dict(RowSeal.objects.filter(table=table_of(model)).order_by().values_list("row_id", "entry_id"))
    rows = {str(key): pk for pk, key in model._base_manager.order_by().values_list("pk", model.LOG_KEY)}
    for key, pk in rows.items():
        if pk in entries and entries[pk] < newest.get(key, 0):
            yield AlteredRow(model, pk, "older", model._base_manager.get(pk=pk))
    # A name without a row may be a former one; stable keys never change.
    missing = [newest[key] for key in newest.keys() - rows.keys()] if model.LOG_KEY == "key" else []
    for entry in ChangeLogEntry.objects.filter(pk__among=missing).exclude(action=ChangeLogEntry.Action.DELETED):
        yield AlteredRow(model, 0, "removed", entry=entry)
