"""Change log of a generated installation: one entry for each description, then edits by several users."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from random import Random
from typing import Any

from django.db import transaction

from bench.web.described import Described
from bench.web.size import Size
from elevata.audit.models import ChangeLogEntry
from elevata.audit.services import chain
from elevata.core.canonical_json import canonical_json
from metadata.models import TargetColumn, TargetDataset

_AT_ONCE = 1000
_REASONS = ("", "", "asked for by the business", "as agreed with the source's team", "the source changed")


def log(made: Described, people: list[Any], size: Size, *, now: datetime) -> None:
    """Write chained entries of two years; datasets edited in the last day are ``pending``."""
    entries = _entries(made, people, size, now)
    while batch := list(islice(entries, _AT_ONCE)):
        with transaction.atomic():
            chain.append(*ChangeLogEntry.objects.bulk_create(batch))


def _entries(made: Described, people: list[Any], size: Size, now: datetime) -> Iterator[ChangeLogEntry]:
    random = Random(size.seed + 1)
    first = now - timedelta(days=730)
    for number, dataset in enumerate(made.targets):
        person = people[number % len(people)]
        yield _entry(first + timedelta(seconds=number), person, "created", dataset, _described(made, dataset))
    bases = [row for row in made.targets if row.history_of_id is None]
    step = timedelta(days=728) / max(1, size.edits)
    for number in range(size.edits):
        dataset = random.choice(bases)
        column = random.choice(made.columns[dataset.pk])
        changes, action = _edit(random, column)
        at = first + timedelta(days=1) + number * step
        person = random.choice(people)
        yield _entry(at, person, action, dataset, changes, column=column, reason=random.choice(_REASONS))


def _edit(random: Random, column: TargetColumn) -> tuple[dict[str, Any], str]:
    kind = random.random()
    if kind < 0.1:
        return {"name": {"before": f"{column.name}_old", "after": column.name}}, "renamed"
    if kind < 0.6:
        message = f"{column.name.replace('_', ' ')}, as the source's team describes it ({random.randrange(1000)})"
        return {"description": {"before": column.description or "unclear", "after": message}}, "changed"
    if kind < 0.8:
        return {"owner": {"before": "sales", "after": random.choice(("finance", "logistics"))}}, "changed"
    return {"nullable": {"before": True, "after": False}}, "changed"


def _described(made: Described, dataset: TargetDataset) -> dict[str, Any]:
    columns = [
        {"name": row.name, "type": str(row.type), "role": str(row.role), "nullable": row.nullable, "key": str(row.key)}
        for row in made.columns.get(dataset.pk, ())
    ]
    after = {"name": dataset.name, "schema": dataset.schema.name, "materialization": str(dataset.materialization)}
    return {name: {"after": value} for name, value in (after | ({"columns": columns} if columns else {})).items()}


def _entry(
    at: datetime,
    person: Any,
    action: str,
    dataset: TargetDataset,
    changes: dict[str, Any],
    *,
    column: TargetColumn | None = None,
    reason: str = "",
) -> ChangeLogEntry:
    base = dataset.history_of or dataset
    name = f"{dataset.schema.name}.{dataset.name}"
    return ChangeLogEntry(
        at=at,
        actor=person.get_username(),
        actor_kind=ChangeLogEntry.ActorKind.PERSON,
        user_id=person.pk,
        action=action,
        subject_kind="column" if column else "dataset",
        subject_key=str((column or dataset).key),
        subject_name=f"{name}.{column.name}" if column else name,
        dataset_key=base.key,
        changes=canonical_json(changes).decode(),
        reason=reason,
    )


def note_pending(rows: Iterable[tuple[TargetDataset, TargetColumn]], people: list[Any], *, now: datetime) -> None:
    """Write entries of the last hour for descriptions that are not yet executed."""
    with transaction.atomic():
        entries = [
            _entry(
                now - timedelta(minutes=30),
                people[number % len(people)],
                "changed",
                dataset,
                {"type": {"before": "string(10)", "after": str(column.type)}},
                column=column,
                reason="asked for by the business",
            )
            for number, (dataset, column) in enumerate(rows)
        ]
        chain.append(*ChangeLogEntry.objects.bulk_create(entries))
