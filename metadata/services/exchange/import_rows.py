"""Import of rows, quality checks, exposures and copies."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from elevata.audit.services.transactions import are_constraints_left_to_database
from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Record
from metadata.domain import stable_keys
from metadata.models import (
    DatasetCopy,
    Exposure,
    QualityCheck,
    SourceColumn,
    System,
    TargetColumn,
    TargetDataset,
)
from metadata.services.copies import COPY_FIELDS, check_copy
from metadata.services.exchange.faults import SYSTEM, TARGET, Faults, readable
from metadata.services.exposures import EXPOSURE_FIELDS, check_exposure
from metadata.services.quality import check_quality_check
from metadata.services.rows.quoted_names import quoted_name_finding, refuse_quoted_name
from metadata.services.rows.row_changes import put_aside, store
from metadata.services.rows.row_names import free_key

Part = TypeVar("Part", QualityCheck, Exposure)

CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"


@dataclass
class Report:
    """Result of an import or of its check: (created | updated, kind, name) per object.

    ``findings`` are names of objects, each with what a user would be asked about.
    """

    changes: list[tuple[str, str, str]] = field(default_factory=list)
    unchanged: int = 0
    findings: list[tuple[str, str]] = field(default_factory=list)

    def note(self, did: str, kind: str, name: str) -> None:
        if did == UNCHANGED:
            self.unchanged += 1
        else:
            self.changes.append((did, kind, name))

    def note_name(self, row: TargetDataset | TargetColumn) -> None:
        """Refuse a new name that needs quotes, or add it to the findings, as the environment's rule says."""
        refuse_quoted_name(row, accepted=True)
        finding = quoted_name_finding(row)
        if finding:
            self.findings.append((str(row), finding))

    def count(self, did: str) -> int:
        return self.unchanged if did == UNCHANGED else sum(change[0] == did for change in self.changes)

    def as_json(self) -> dict[str, Any]:
        named = [{"change": did, "kind": kind, "name": name} for did, kind, name in self.changes]
        findings = [{"name": name, "message": message} for name, message in self.findings]
        counts = {did: self.count(did) for did in (CREATED, UPDATED, UNCHANGED)}
        return {**counts, "changes": named, "findings": findings}


def upsert(row: Any, values: dict[str, Any], check: Callable[[Any], None], batch: list[Any] | None = None) -> str:
    """Set the values, check the row and write it if it differs.

    Returns ``created``, ``updated`` or ``unchanged``. Where constraints are left to the database, the row is added to
    ``batch`` instead, for the caller to write it with others.
    """
    fresh = row.pk is None
    differs = fresh
    for name, value in values.items():
        if fresh or getattr(row, name) != value:
            setattr(row, name, value)
            differs = True
    if not differs:
        return UNCHANGED
    check(row)
    if batch is not None and are_constraints_left_to_database():
        batch.append(row)
    else:
        store(row)
    return CREATED if fresh else UPDATED


def match(faults: Faults, items: list[Record], rows: list[Any], dataset: str) -> list[tuple[Record, Any]]:
    """Return each readable record with its row: by key, else by the name of a row whose key is in no record."""
    by_key = {row.key: row for row in rows}
    claimed = {item["key"] for item in items}
    by_name = {row.name: row for row in rows}
    matches = []
    for item in readable(items):
        row = by_key.get(item["key"]) or by_name.get(item["name"])
        if row is not None and row.key in claimed and row.key != item["key"]:
            row = None
        with faults.collected(item, f"{dataset}.{item['name']}", (TARGET, dataset)):
            if row is not None:
                refuse_other_key(row, item)
            matches.append((item, row))
    return matches


def given(record: Record, row: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values without those of fields that the file leaves as they are stored."""
    if row.pk is None or not record.kept:
        return values
    kept = set(record.kept)
    if "business_key" in kept:
        kept.add("key_ordinal")
    elif "role" in kept and "key_ordinal" in values:
        kept.discard("role")
    if "retired_at" in kept:
        kept |= {"active", "retired_by"}
    return {name: value for name, value in values.items() if name not in kept}


def key_place(record: Record, row: SourceColumn | TargetColumn) -> int | None:
    """Return the position in the business key that the row will have."""
    return row.key_ordinal if "business_key" in record.kept else record["business_key"]


def refuse_other_key(row: Any, record: Record) -> None:
    """Refuse a record whose name belongs to a row with another key."""
    if row.pk is not None and record["key"] is not None and row.key != record["key"]:
        message = f"{row} exists with another key, {row.key}; leave the key out to mean that one"
        raise MetadataError("key_differs", message, "key", place=record.place_of("key"))


def arrange(rows: list[Any], known: list[Any]) -> None:
    """Reorder columns as in the file, followed by existing (``known``) ones that are not in it."""
    mentioned = {row.pk for row in rows}
    order = rows + [row for row in known if row.pk not in mentioned]
    ordinals = [row.ordinal for row in order]
    if ordinals == sorted(set(ordinals)):
        return
    for ordinal, row in enumerate(order, start=1):
        if row.ordinal != ordinal:
            row.ordinal = ordinal
            store(row)


def import_check(report: Report, record: Record, dataset: TargetDataset) -> None:
    """Create or update a quality check of a dataset, matched by its key, else by its name."""
    row = _part_of(QualityCheck, dataset, record, stable_keys.quality_check_key)
    values = record.picked("name", "kind", "arguments", "severity", "description", "active")
    report.note(upsert(row, values, check_quality_check), "check", str(row))


def import_exposure(report: Report, record: Record, dataset: TargetDataset) -> None:
    """Create or update an exposure of a dataset, matched by its key, else by its name."""
    row = _part_of(Exposure, dataset, record, stable_keys.exposure_key)
    report.note(upsert(row, record.picked(*EXPOSURE_FIELDS), check_exposure), "exposure", str(row))


def import_copy(report: Report, record: Record, dataset: TargetDataset, faults: Faults) -> None:
    """Create or update a copy of a dataset, matched by its key, else by its system and table."""
    system = System.objects.filter(short_name=record["to"]).first()
    if system is None:
        missing = MetadataError("dangling_reference", f"there is no system {record['to']!r}", "to")
        raise faults.missing(missing, (SYSTEM, record["to"]))
    table, key = record["table"], record["key"]
    row = DatasetCopy.objects.filter(key=key).first() if key else None
    if row is not None and row.dataset_id != dataset.pk:
        raise MetadataError("key_taken", f"this key is that of {row}", "key")
    row = row or DatasetCopy.objects.filter(dataset=dataset, system=system, table__iexact=table).first()
    if row is None:
        name = f"{system.short_name} {table}".strip()
        derived = free_key(DatasetCopy, lambda attempt: stable_keys.copy_key(dataset.key, name, attempt))
        row = DatasetCopy(dataset=dataset, key=key or derived)
    refuse_other_key(row, record)
    report.note(upsert(row, record.picked(*COPY_FIELDS) | {"system": system}, check_copy), "copy", str(row))


def put_copies_aside(records: Iterable[Record]) -> None:
    """Write temporary tables to copies that get another table or system, so that other copies can take theirs."""
    described = {item["key"]: item for item in records if item["key"]}
    for row in DatasetCopy.objects.filter(key__in=list(described)).select_related("system"):
        item = described[row.key]
        if (row.table, row.system.short_name) != (item["table"], item["to"]):
            put_aside(row, table=f"moving.moving_{row.key.hex}")


def _part_of(
    model: type[Part], dataset: TargetDataset, record: Record, derive: Callable[[UUID, str, int], UUID]
) -> Part:
    """Return the dataset's row that a record describes, or a new one. Raise MetadataError if the keys differ."""
    name, key = record["name"], record["key"]
    row = model.objects.filter(key=key).first() if key else None
    if row is not None and row.dataset_id != dataset.pk:
        raise MetadataError("key_taken", f"this key is {row}'s", "key")
    row = row or model.objects.filter(dataset=dataset, name__iexact=name).first()
    if row is None:
        return model(dataset=dataset, key=key or free_key(model, lambda attempt: derive(dataset.key, name, attempt)))
    if key is not None and row.key != key:
        raise MetadataError("key_differs", f"{row} exists with another key, {row.key}", "key")
    return row
