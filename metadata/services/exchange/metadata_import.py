"""Import of metadata records into the database, in the caller's transaction.

Objects are matched by their key, or by name if a file has no key. Objects that a file does not mention are
not changed; a field that it omits gets its default. Order: sources, schemas, generated objects, target
datasets, their columns, lineage, references, quality checks, exposures, and then the checks that need all objects.

Faults are collected: an object with a fault is left out, and what depends on it is not checked.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Record
from metadata.domain import naming, stable_keys
from metadata.domain.models import reads_of
from metadata.domain.types import STRING, DataType
from metadata.models import SourceDataset, TargetColumn, TargetDataset, TargetSchema
from metadata.services.columns_around_changes import keeping_meaning
from metadata.services.datasets.generation import create_layer_schema, ensure_history
from metadata.services.datasets.inputs import cycle_of, datasets_read, refuse_cycle
from metadata.services.datasets.targets import KEEPING
from metadata.services.exchange.faults import (
    SCHEMA,
    SOURCE,
    SYSTEM,
    TARGET,
    Consequence,
    Faults,
    located,
    readable,
    target_name,
)
from metadata.services.exchange.import_lineage import LineageImporter
from metadata.services.exchange.import_rows import (
    CREATED,
    UPDATED,
    Report,
    arrange,
    given,
    import_check,
    import_copy,
    import_exposure,
    key_place,
    match,
    put_copies_aside,
    refuse_other_key,
    upsert,
)
from metadata.services.exchange.source_import import SourceImporter
from metadata.services.models import derive, following, in_order, leaving
from metadata.services.quality import check_dataset_checks
from metadata.services.references import check_references
from metadata.services.rows.checks import check_dataset_columns, check_schema, check_target_column, check_target_dataset
from metadata.services.rows.row_changes import clear_the_way, store_batch
from metadata.services.rows.row_names import former_names, free_key, set_retired
from metadata.services.sources import DESCRIBED, plain_fields


class Importer:
    """Import of ``files``, which are records of ``metadata.domain.exchange.FILE``. Faults are in ``faults``."""

    def __init__(self, files: list[Record], faults: Faults) -> None:
        self.systems = [file["system"] for file in files if file["system"]]
        self.schemas = [schema for file in files for schema in file["schemas"]]
        self.targets = [file["dataset"] for file in files if file["dataset"]]
        self.references: list[tuple[TargetDataset | None, Record]] = [
            (None, item) for file in files for item in file["references"]
        ]
        self.report = Report()
        self.faults = faults
        self._refuse_unread()

    def run(self) -> Report:
        sources = SourceImporter(self.report, self.faults)
        made: list[tuple[Record, SourceDataset]] = []
        for record in readable(self.systems):
            with self.faults.collected(record, record["short_name"], (SYSTEM, record["short_name"])):
                made += sources.system(record)
        for record in readable(self.schemas):
            with self.faults.collected(record, record["name"], (SCHEMA, record["name"])):
                self._schema(record)
        named = self.targets_named()
        with keeping_meaning(named) as changed:
            with leaving(named):
                for record, dataset in made:
                    sources.generate(record, dataset, self.targets)
            targets, lineage = self._datasets()
        for model, problem in changed:
            for record in (each for each, dataset in targets if dataset.pk == model.pk):
                with self._collected_target(record):
                    raise problem
        self.references += [(dataset, item) for record, dataset in targets for item in record["references"]]
        for child, record in self.references:
            if not record.refused:
                with self.faults.collected(record, str(child or record["child"])):
                    lineage.reference(record, child)
        for record, target in self._whole(targets):
            self._parts(record, target)
        edges = datasets_read()
        for record, target in self._whole(targets):
            self._check_dataset(record, target, edges)
        return self.report

    def _datasets(self) -> tuple[list[tuple[Record, TargetDataset]], LineageImporter]:
        """Import target datasets with columns, inputs and models; return those without a fault of their own."""
        targets: list[tuple[Record, TargetDataset]] = []
        lineage = LineageImporter(self.report, self.faults)
        rows = TargetDataset.objects.filter(
            history_of__isnull=True, schema__name__in={r["schema"] for r in self.targets}
        )
        with (
            self.faults.collected_unless_refused(),
            following(list(rows) if self.targets else [], without=self.targets_named()),
        ):
            targets += self._targets()
            for record, dataset in targets:
                if not dataset.select and "inputs" not in record.kept:
                    with self.faults.collected(record, str(dataset), target_name(record)):
                        lineage.inputs(record, dataset)
            self._models(targets)
        return targets, lineage

    def targets_named(self) -> set[str]:
        """Return the qualified names of the files' datasets in lower case."""
        return {f"{record['schema']}.{record['name']}".lower() for record in self.targets}

    def _whole(self, targets: list[tuple[Record, TargetDataset]]) -> list[tuple[Record, TargetDataset]]:
        """Return the datasets that lack nothing of what the files describe."""
        return [each for each in targets if not self._is_refused(each[1])]

    def _is_refused(self, dataset: TargetDataset) -> bool:
        return self.faults.is_refused((TARGET, str(dataset)))

    def _refuse_unread(self) -> None:
        """Regard objects as refused that could not be read completely."""
        for system in self.systems:
            if system.refused:
                self.faults.refuse((SYSTEM, system["short_name"] or ""))
            for item in system["datasets"]:
                if system.refused or item.is_incomplete:
                    self.faults.refuse_source(system["short_name"] or "", item)
        self.faults.refuse(*((SCHEMA, record["name"] or "") for record in self.schemas if record.refused))
        self.faults.refuse(*(target_name(record) for record in self.targets if record.is_incomplete))

    def _parts(self, record: Record, dataset: TargetDataset) -> None:
        """Import the quality checks, exposures and copies of a dataset."""
        for item in readable(record["checks"]):
            with self.faults.collected(item, f"{dataset}.{item['name']}"):
                import_check(self.report, item, dataset)
        for item in readable(record["exposures"]):
            with self.faults.collected(item, f"{dataset}.{item['name']}"):
                import_exposure(self.report, item, dataset)
        for item in readable(record["copies"]):
            with self.faults.collected(item, f"{dataset} in {item['to']}"):
                import_copy(self.report, item, dataset, self.faults)

    def _check_dataset(self, record: Record, dataset: TargetDataset, edges: Mapping[int, list[int]]) -> None:
        """Check a dataset with all of its objects; a cycle is reported once, for its first dataset."""
        with self.faults.collected(record, str(dataset), target_name(record)):
            circle = TargetDataset.objects.filter(pk__in=cycle_of(dataset.pk, edges)).select_related("schema")
            if not any(self._is_refused(row) for row in circle):
                refuse_cycle(dataset, edges)
            stored = TargetDataset.objects.get(pk=dataset.pk)
            check_dataset_columns(stored)
            check_references(stored, "references", with_rules=True)
            check_dataset_checks(stored, "checks")

    # --- targets -------------------------------------------------------------------------

    def _schema(self, record: Record) -> None:
        row = TargetSchema.objects.filter(name=record["name"]).first() or TargetSchema()
        if row.pk is not None and row.layer != record["layer"] and row.datasets.exists():
            raise MetadataError("invalid", "a schema with datasets stays in its layer", "layer")
        values = record.picked("name", "layer", "ordinal", *DESCRIBED)
        self.report.note(upsert(row, values, check_schema), "schema", str(row))

    def _targets(self) -> list[tuple[Record, TargetDataset]]:
        """Import target datasets and their columns; return the datasets without a fault of their own."""
        pairs: list[tuple[Record, TargetDataset]] = []
        for record in readable(self.targets):
            with self._collected_target(record):
                pairs.append((record, self._find_target(record)))
        moving = [row for record, row in pairs if row.pk and row.name != record["name"]]
        moving += [row.history for row in moving if hasattr(row, "history")]
        clear_the_way([(row, None, None) for row in moving])
        put_copies_aside(item for record, _ in pairs for item in readable(record["copies"]))
        stored: list[tuple[Record, TargetDataset]] = []
        for record, row in pairs:
            with self._collected_target(record):
                self._target(record, row)
                self._history(record, row)
                stored.append((record, row))
        for record, row in stored:
            with self._collected_target(record):
                self._target_columns(record, row)
        return stored

    def _collected_target(self, record: Record) -> AbstractContextManager[None]:
        kind, name = target_name(record)
        return self.faults.collected(record, name, (kind, name))

    def _models(self, targets: list[tuple[Record, TargetDataset]]) -> None:
        """Derive the columns of models, each after those that it reads. Refuse columns that differ from the file's."""
        records = {dataset.pk: record for record, dataset in targets if dataset.select}
        for dataset in in_order([dataset for _, dataset in targets if dataset.select], by_text=True):
            record = records[dataset.pk]
            if self._is_refused(dataset):
                continue
            with self._collected_target(record):
                if self.faults.is_refused(*((TARGET, name) for name in reads_of(dataset.select))):
                    raise Consequence
                for change in derive(dataset):
                    self.report.note(UPDATED, "model", change)
                rows = {row.name: row for row in TargetColumn.objects.filter(dataset=dataset)}
                for item in record["columns"]:
                    with self.faults.collected(item, f"{dataset}.{item['name']}"):
                        _refuse_difference(item, rows[item["name"]])

    def _find_target(self, record: Record) -> TargetDataset:
        """Return the row by its key, else by its name, else a new unsaved one."""
        schema = TargetSchema.objects.filter(name=record["schema"]).first()
        if schema is None and record["schema"] in TargetSchema.Layer.values:
            schema = create_layer_schema(record["schema"])
            self.report.note(CREATED, "schema", schema.name)
        if schema is None:
            missing = MetadataError("dangling_reference", f"there is no schema {record['schema']!r}", "schema")
            raise self.faults.missing(missing, (SCHEMA, record["schema"]))
        row = TargetDataset.objects.filter(key=record["key"]).first() if record["key"] else None
        claimed = [item["key"] for item in self.targets if item["key"]]
        named = TargetDataset.objects.filter(schema=schema, name=record["name"]).exclude(
            key__in=[key for key in claimed if key != record["key"]]
        )
        row = row or named.first()
        if row is None:
            row = TargetDataset(schema=schema)
            row.key = record["key"] or free_key(
                TargetDataset,
                lambda attempt: stable_keys.target_dataset_key(schema.name, record["name"], attempt),
            )
        refuse_other_key(row, record)
        if row.history_of_id is not None:
            raise MetadataError("invalid", "is a history dataset; describe it with its base", "name")
        row.schema = schema
        return row

    def _target(self, record: Record, row: TargetDataset) -> None:
        same = (
            *("materialization", "historize", "history_policy", "filter", "select", "increment", "hash_version"),
            *(*KEEPING, "contract"),
        )
        if record["select"] and record["inputs"]:
            raise MetadataError("invalid", "follow from the SELECT of the model; leave them out", "inputs")
        values = record.picked("name", *same, *DESCRIBED) | _retirement(record)
        values["generated_from"] = self._source_named(record["generated_from"])
        values = given(record, row, values) | {"schema": row.schema}
        values["former_names"] = _former_names(row, record, record["name"])
        is_renamed = row.name != record["name"]
        did = upsert(row, plain_fields(row, values), check_target_dataset)
        self.report.note(did, "dataset", str(row))
        if is_renamed:
            self.report.note_name(row)

    def _source_named(self, name: str | None) -> SourceDataset | None:
        if name is None:
            return None
        system, _, dataset = name.partition(".")
        row = SourceDataset.objects.filter(system__short_name=system, name=dataset).first()
        if row is None:
            missing = MetadataError("dangling_reference", f"there is no source dataset {name!r}", "generated_from")
            raise self.faults.missing(missing, (SOURCE, name))
        return row

    def _history(self, record: Record, base: TargetDataset) -> None:
        described, row = record["history"], getattr(base, "history", None)
        name = naming.history_name(base.name)
        values = {"schema": base.schema, "name": name, "generated_from": base.generated_from}
        if described is None:
            if base.historize:
                row = ensure_history(base)
            elif row is not None:
                set_retired(row, by=TargetDataset.RetiredBy.GENERATION)
            if row is not None and row.name != name:
                values["former_names"] = former_names(row.former_names, row.name, name)
                upsert(row, values, check_target_dataset)
            return
        if row is None:
            row = TargetDataset(history_of=base, key=described["key"] or stable_keys.history_dataset_key(base.key))
        with located(described, f"{base.schema}.{name}"):
            refuse_other_key(row, described)
            values |= described.picked(*DESCRIBED) | _retirement(described)
            values["former_names"] = _former_names(row, described, name)
            self.report.note(upsert(row, values, check_target_dataset), "history", str(row))

    def _target_columns(self, record: Record, dataset: TargetDataset) -> None:
        known = list(dataset.columns.all())
        pairs = match(self.faults, record["columns"], known, str(dataset))
        clear_the_way([(row, item["name"], key_place(item, row)) for item, row in pairs if row is not None])
        batch: list[TargetColumn] = []
        rows: list[TargetColumn] = []
        place = max((row.ordinal for row in known), default=0) + 1
        for at, (item, row) in enumerate(pairs):
            with self.faults.collected(item, f"{dataset}.{item['name']}", target_name(record)):
                rows.append(self._target_column(item, row, dataset, place + at, batch))
        store_batch(batch)
        # A file that keeps fields may name a few columns only.
        if not record.kept or len(rows) >= len(known):
            arrange(rows, known)

    def _target_column(
        self,
        record: Record,
        known: TargetColumn | None,
        dataset: TargetDataset,
        ordinal: int,
        batch: list[TargetColumn],
    ) -> TargetColumn:
        name = record["name"]
        row = known or TargetColumn(dataset=dataset, ordinal=ordinal)
        if known is None:
            row.key = record["key"] or free_key(
                TargetColumn, lambda attempt: stable_keys.target_column_key(dataset.key, name, attempt)
            )
        values = record.picked("name", "type", "nullable", "pii", "sensitivity", "expression", *DESCRIBED)
        if dataset.select:
            _leave_to_select(record, row, values)
        elif record["type"] is None and (known is None or "type" not in record.kept):
            raise MetadataError("missing_field", "is missing", "type")
        values |= _retirement(record) | {"key_ordinal": record["business_key"]}
        values["role"] = record["role"] if record["business_key"] is None else "business_key"
        values = given(record, row, values)
        values["former_names"] = _former_names(row, record, name)
        is_renamed = row.name != name
        self.report.note(upsert(row, values, check_target_column, batch), "column", str(row))
        if is_renamed:
            self.report.note_name(row)
        return row


def _former_names(row: TargetDataset | TargetColumn, record: Record, name: str) -> list[str]:
    """Return the file's former names, plus the current name if the file renames the row without listing it."""
    names = row.former_names if row.pk and "former_names" in record.kept else record["former_names"]
    if row.pk is None or row.name == name or row.name in names:
        return names
    return former_names(names, row.name, name)


def _leave_to_select(record: Record, row: TargetColumn, values: dict[str, Any]) -> None:
    """Take the fields that follow from the SELECT of a model from the row, until it is derived."""
    for name in ("expression", "inputs"):
        if record[name]:
            raise MetadataError("invalid", "follows from the SELECT of the model; leave it out", name)
    if row.pk is not None:
        values |= {"type": row.type, "nullable": row.nullable, "expression": row.expression}
    elif record["type"] is None:
        values["type"] = DataType(STRING)


def _refuse_difference(record: Record, row: TargetColumn) -> None:
    """Refuse a column of a file that is not as the SELECT of its model makes it."""
    if not row.active:
        if record["retired_at"] is None:
            raise MetadataError("unknown_column", "is no column of the SELECT", "name")
        return
    if record["type"] is not None and record["type"] != row.type:
        message = f"is {record['type']} here and {row.type} in the SELECT; leave it out"
        raise MetadataError("type_mismatch", message, "type")
    if "nullable" in record.places and record["nullable"] != row.nullable:
        message = (
            f"is {str(record['nullable']).lower()} here and {str(row.nullable).lower()} in the SELECT; leave it out"
        )
        raise MetadataError("invalid", message, "nullable")


def _retirement(record: Record) -> dict[str, Any]:
    """Return the fields of retirement; ``retired_at`` without ``retired_by`` stands for a user."""
    if record["retired_at"] is None:
        if record["retired_by"]:
            raise MetadataError("missing_field", "is missing beside retired_by", "retired_at", place=record.where)
        return {"active": True, "retired_at": None, "retired_by": ""}
    return {
        "active": False,
        "retired_at": record["retired_at"],
        "retired_by": record["retired_by"] or TargetDataset.RetiredBy.PERSON,
    }
