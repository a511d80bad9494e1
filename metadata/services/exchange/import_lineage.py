"""Import of lineage and references: names in files are resolved to rows."""

from collections import defaultdict
from typing import Any

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Record
from metadata.domain import stable_keys
from metadata.models import ColumnInput, Reference, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.services.datasets.inputs import column_inputs, link_dataset
from metadata.services.exchange.faults import SOURCE, TARGET, Faults, readable, target_name
from metadata.services.exchange.import_rows import CREATED, UNCHANGED, UPDATED, Report
from metadata.services.references import check_reference, set_pairs
from metadata.services.rows.row_changes import remove, store, store_all
from metadata.services.rows.row_names import free_key

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
                Reference, lambda attempt: stable_keys.reference_key(child.key, parent.key, role, attempt)
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


def _inputs_by_column(dataset: TargetDataset) -> dict[int, list[ColumnInput]]:
    """Return the input rows of the dataset's columns, by column id and in order."""
    rows = defaultdict(list)
    for row in ColumnInput.objects.filter(column__dataset=dataset):
        rows[row.column_id].append(row)
    return rows


def _ids(column: SourceColumn | TargetColumn) -> tuple[int | None, int | None]:
    """Return the ids of the source column and the target column of a column input; one of them is None."""
    return (column.pk, None) if isinstance(column, SourceColumn) else (None, column.pk)
