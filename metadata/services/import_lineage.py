"""Lineage and references of imported datasets: names in files are resolved to rows."""

from typing import Any

from elevata.core.errors import MetadataError
from metadata.domain import keys
from metadata.domain.exchange import Record
from metadata.models import Reference, SourceColumn, SourceDataset, TargetColumn, TargetDataset
from metadata.services.common import free_key, store
from metadata.services.import_rows import CREATED, UNCHANGED, UPDATED, Report
from metadata.services.references import check_reference, set_pairs
from metadata.services.targets import link_column, link_dataset

Dataset = SourceDataset | TargetDataset


class LineageImporter:
    """Import of lineage and references, after all datasets and columns of the import exist."""

    def __init__(self, report: Report, targets: list[tuple[Record, TargetDataset]]) -> None:
        self.report = report
        self._datasets: dict[tuple[str, str], Dataset] = {}
        self._columns: dict[tuple[type, int], dict[str, Any]] = {}

    def inputs(self, record: Record, dataset: TargetDataset) -> None:
        """Replace the inputs of a dataset and of its columns by those of the file."""
        wanted = [self._end(item) for item in record["inputs"]]
        columns = self._columns_of(dataset)
        reads = []
        for item in record["columns"]:
            read = [self._column_input(given, wanted, dataset) for given in item["inputs"]]
            reads.append((item, columns[item["name"]], read))
        # Column inputs hang on dataset inputs: what goes is taken away first, what comes is added last.
        for _, column, read in reads:
            kept = [row for row in _read_by(column) if row in read]
            if kept != _read_by(column):
                link_column(column, kept)
        changed = link_dataset(dataset, wanted)
        for item, column, read in reads:
            if _read_by(column) != read:
                try:
                    link_column(column, read)
                except MetadataError as problem:
                    raise problem.about(place=item.place_of("inputs")) from None
                changed = True
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
                Reference, lambda attempt: keys.reference_key(child.key, parent.key, role, attempt)
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
                said = f"{dataset} has {len(inputs)} inputs, so a column input says which one it is from"
                raise MetadataError("invalid", said, "inputs", place=item.where)
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
            found = SourceDataset.objects.filter(system__short_name=system, name=dataset).first()
            if found is None:
                raise MetadataError("dangling_reference", f"there is no source dataset {name!r}", "source")
            self._datasets["source", name] = found
        return self._datasets["source", name]

    def _dataset(self, name: str, field: str) -> TargetDataset:
        if ("target", name) not in self._datasets:
            schema, _, dataset = name.partition(".")
            rows = TargetDataset.objects.select_related("schema")
            found = rows.filter(schema__name=schema, name=dataset).first()
            if found is None:
                raise MetadataError("dangling_reference", f"there is no dataset {name!r}", field)
            self._datasets["target", name] = found
        return self._datasets["target", name]

    def _columns_of(self, dataset: Dataset) -> dict[str, Any]:
        known = (type(dataset), dataset.pk)
        if known not in self._columns:
            self._columns[known] = {column.name: column for column in dataset.columns.all()}
        return self._columns[known]

    def _column(self, dataset: Dataset, name: str, field: str) -> Any:
        columns = self._columns_of(dataset)
        if name not in columns:
            raise MetadataError("dangling_reference", f"{dataset} has no column {name!r}", field)
        return columns[name]


def _read_by(column: TargetColumn) -> list[SourceColumn | TargetColumn]:
    rows = column.inputs.select_related("source_column", "upstream_column")
    return [row.source_column or row.upstream_column for row in rows]
