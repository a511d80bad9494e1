"""Change log for pages: entries with their differences by field, and search by current and former names."""

import json
from collections.abc import Iterable

from django.db.models import Q

from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import ShownEntry, fields_of, of_keys
from metadata.domain.bulk_edits import can_undo
from metadata.models import SourceDataset, TargetDataset
from metadata.services.rows.subjects import KINDS

# Models with entries; other apps add theirs.
SUBJECT_KINDS = frozenset(KINDS.values()) | {
    "baseline",
    "delivery",
    "environment",
    "execution",
    "lease",
    "load_run",
    "maintenance",
    "message",
    "notice",
    "policy",
    "report",
    "schedule",
    "token",
    "user",
    "webhook",
}


def shown_entries(entries: Iterable[ChangeLogEntry]) -> list[ShownEntry]:
    """Return entries with all values that pages show, in order and in a constant number of queries."""
    rows = list(entries)
    keys = {entry.dataset_key for entry in rows if entry.dataset_key}
    targets = set(TargetDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    sources = set(SourceDataset.objects.filter(key__in=keys).values_list("key", flat=True))
    return [
        ShownEntry(
            entry,
            fields_of(entry),
            entry.dataset_key if entry.dataset_key in targets else None,
            entry.dataset_key if entry.dataset_key in sources else None,
            can_undo(entry.subject_kind, entry.action, json.loads(entry.changes)),
        )
        for entry in rows
    ]


# --- search ------------------------------------------------------------------------------------


def about_dataset(text: str) -> Q:
    """Return the entries of datasets with this current or former name: ``schema.name``, or part of a name."""
    schema, dot, name = text.strip().rpartition(".")
    named = Q(name__iexact=name) | Q(former_names__icontains=f'"{name}"') if dot else _named(text.strip())
    targets = TargetDataset.objects.filter(named)
    sources = SourceDataset.objects.filter(Q(name__iexact=name) if dot else Q(name__icontains=text.strip()))
    if dot:
        targets = targets.filter(schema__name__iexact=schema)
        sources = sources.filter(system__short_name__iexact=schema)
    keys = [*targets.values_list("key", flat=True), *sources.values_list("key", flat=True)]
    return of_keys(keys) | Q(subject_name__iexact=text.strip())


def _named(text: str) -> Q:
    return Q(name__icontains=text) | Q(former_names__icontains=text)
