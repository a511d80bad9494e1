"""Import of rows, lineage, references, quality checks and exposures."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Record
from metadata.domain import naming
from metadata.models import (
    ColumnInput,
    Exposure,
    QualityCheck,
    Reference,
    SourceColumn,
    SourceDataset,
    TargetColumn,
    TargetDataset,
)
from metadata.services.datasets.inputs import column_inputs, link_dataset
from metadata.services.exchange.faults import SOURCE, TARGET, Faults, readable, target_name
from metadata.services.exposures import EXPOSURE_FIELDS, check_exposure
from metadata.services.quality import check_quality_check
from metadata.services.references import check_reference, set_pairs
from metadata.services.rows.quoted_names import quoted_name_finding, refuse_quoted_name
from metadata.services.rows.row_changes import (
    are_constraints_left_to_database,
    free_key,
    remove,
    store,
    store_all,
)

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


# Lineage and references of imported datasets: names in files are resolved to rows.


Dataset = SourceDataset | TargetDataset


class LineageImporter:
    """Import of lineage and references, after all datasets and columns of the import exist."""

    def __init__(self, report: Report, faults: Faults) -> None:
        self.report, self.faults = report, faults
        self._datasets: dict[tuple[str, str], Dataset] = {}
        self._columns: dict[tuple[type, int], dict[str, Any]] = {}

    def inputs(self, record: Record, dataset: TargetDataset) -> None:
        """Replace the inputs of a dataset and of its columns by those of the file."""
        wanted: list[Dataset] = []
        for item in record["inputs"]:
            with self.faults.collected(item, str(dataset), target_name(record)):
                wanted.append(self._end(item))
        if len(wanted) < len(record["inputs"]):
            return
        columns = self._columns_of(dataset)
        reads = []
        for item in readable(record["columns"]):
            if item["name"] in columns:
                with self.faults.collected(item, f"{dataset}.{item['name']}", target_name(record)):
                    read = [self._column_input(given, wanted, dataset) for given in readable(item["inputs"])]
                    reads.append((item, columns[item["name"]], read))
        # Column inputs depend on dataset inputs, so removals come first and additions last.
        existing = _inputs_by_column(dataset)
        differing = [
            (item, column, read)
            for item, column, read in reads
            if [(row.source_column_id, row.upstream_column_id) for row in existing[column.pk]]
            != [_ids(upstream) for upstream in dict.fromkeys(read)]
        ]
        remove(row for _, column, _ in differing for row in existing[column.pk])
        changed = link_dataset(dataset, wanted) or bool(differing)
        inputs, rows = list(dataset.inputs.all()), []
        for item, column, read in differing:
            with self.faults.collected(item, str(column), target_name(record)):
                rows += column_inputs(column, read, inputs)
        store_all(rows)
        if changed and (CREATED, "dataset", str(dataset)) not in self.report.changes:
            self.report.note(UPDATED, "lineage", str(dataset))

    def reference(self, record: Record, child: TargetDataset | None) -> None:
        child = child or self._dataset(record["child"], "child")
        parent = self._dataset(record["parent"], "parent")
        pairs = [
            (self._column(child, own, "columns"), self._column(parent, other, "columns"))
            for other, own in record["columns"].items()
        ]
        pairs.sort(key=lambda pair: (pair[1].key_ordinal or 0, pair[1].name))
        row = self._find_reference(record, child, parent)
        fresh = row.pk is None
        values = {
            "child": child,
            "parent": parent,
            "role_name": record["role_name"],
            "unknown_parent": record["unknown_parent"],
            "active": record["active"],
        }
        differs = fresh or any(getattr(row, name) != value for name, value in values.items())
        for name, value in values.items():
            setattr(row, name, value)
        if differs or [(p.child_column, p.parent_column) for p in row.pairs.all()] != pairs:
            if row.active:
                check_reference(row, pairs)
            store(row)
            set_pairs(row, pairs)
            differs = True
        self.report.note(CREATED if fresh else UPDATED if differs else UNCHANGED, "reference", str(row))

    def _find_reference(self, record: Record, child: TargetDataset, parent: TargetDataset) -> Reference:
        role = record["role_name"]
        row = Reference.objects.filter(key=record["key"]).first() if record["key"] else None
        row = row or Reference.objects.filter(child=child, parent=parent, role_name=role).first()
        if row is None:
            key = record["key"] or free_key(
                Reference, lambda attempt: naming.reference_key(child.key, parent.key, role, attempt)
            )
            return Reference(key=key, child=child, parent=parent, role_name=role)
        if record["key"] is not None and row.key != record["key"]:
            raise MetadataError("key_differs", f"{row} exists with another key, {row.key}", "key")
        return row

    def _end(self, item: Record) -> Dataset:
        """Return the dataset that ``source`` or ``dataset`` names; exactly one of them must be given."""
        given = [name for name in ("source", "dataset") if item[name] is not None]
        if len(given) != 1:
            raise MetadataError("invalid", "an input names a source or a dataset", "inputs", place=item.where)
        (kind,) = given
        try:
            return self._source(item[kind]) if kind == "source" else self._dataset(item[kind], kind)
        except MetadataError as problem:
            raise problem.about(place=item.place_of(kind)) from None

    def _column_input(self, item: Record, inputs: list[Dataset], dataset: TargetDataset) -> SourceColumn | TargetColumn:
        if item["source"] is None and item["dataset"] is None:
            if len(inputs) != 1:
                message = f"{dataset} has {len(inputs)} inputs, so a column input says which one it is from"
                raise MetadataError("invalid", message, "inputs", place=item.where)
            upstream = inputs[0]
        else:
            upstream = self._end(item)
        try:
            return self._column(upstream, item["column"], "inputs")
        except MetadataError as problem:
            raise problem.about(place=item.where) from None

    def _source(self, name: str) -> SourceDataset:
        if ("source", name) not in self._datasets:
            system, _, dataset = name.partition(".")
            row = SourceDataset.objects.filter(system__short_name=system, name=dataset).first()
            if row is None:
                missing = MetadataError("dangling_reference", f"there is no source dataset {name!r}", "source")
                raise self.faults.missing(missing, (SOURCE, name))
            self._datasets["source", name] = row
        source = self._datasets["source", name]
        assert isinstance(source, SourceDataset)
        return source

    def _dataset(self, name: str, field: str) -> TargetDataset:
        if ("target", name) not in self._datasets:
            schema, _, dataset = name.partition(".")
            rows = TargetDataset.objects.select_related("schema")
            row = rows.filter(schema__name=schema, name=dataset).first()
            if row is None:
                missing = MetadataError("dangling_reference", f"there is no dataset {name!r}", field)
                raise self.faults.missing(missing, (TARGET, name))
            self._datasets["target", name] = row
        target = self._datasets["target", name]
        assert isinstance(target, TargetDataset)
        return target

    def _columns_of(self, dataset: Dataset) -> dict[str, Any]:
        known = (type(dataset), dataset.pk)
        if known not in self._columns:
            self._columns[known] = {column.name: column for column in dataset.columns.all()}
        return self._columns[known]

    def _column(self, dataset: Dataset, name: str, field: str) -> Any:
        columns = self._columns_of(dataset)
        if name not in columns:
            missing = MetadataError("dangling_reference", f"{dataset} has no column {name!r}", field)
            kind = SOURCE if isinstance(dataset, SourceDataset) else TARGET
            raise self.faults.missing(missing, (kind, str(dataset)))
        return columns[name]


def import_check(report: Report, record: Record, dataset: TargetDataset) -> None:
    """Create or update a quality check of a dataset, matched by its key, else by its name."""
    row = _part_of(QualityCheck, dataset, record, naming.quality_check_key)
    values = record.picked("name", "kind", "arguments", "severity", "description", "active")
    report.note(upsert(row, values, check_quality_check), "check", str(row))


def import_exposure(report: Report, record: Record, dataset: TargetDataset) -> None:
    """Create or update an exposure of a dataset, matched by its key, else by its name."""
    row = _part_of(Exposure, dataset, record, naming.exposure_key)
    report.note(upsert(row, record.picked(*EXPOSURE_FIELDS), check_exposure), "exposure", str(row))


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


def _inputs_by_column(dataset: TargetDataset) -> dict[int, list[ColumnInput]]:
    """Return the input rows of the dataset's columns, by column id and in order."""
    rows = defaultdict(list)
    for row in ColumnInput.objects.filter(column__dataset=dataset):
        rows[row.column_id].append(row)
    return rows


def _ids(column: SourceColumn | TargetColumn) -> tuple[int | None, int | None]:
    """Return the ids of the source column and the target column of a column input; one of them is None."""
    return (column.pk, None) if isinstance(column, SourceColumn) else (None, column.pk)
