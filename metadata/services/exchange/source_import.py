"""Import of systems with their source datasets and columns, and generation of their targets."""

from collections.abc import Iterable

from elevata.core.errors import MetadataError
from elevata.core.strict_fields import Record
from metadata.domain import naming, stable_keys
from metadata.models import SourceColumn, SourceDataset, System
from metadata.services.datasets.generation import generate_targets
from metadata.services.exchange.faults import SOURCE, SYSTEM, Faults, located, readable
from metadata.services.exchange.import_rows import (
    CREATED,
    UPDATED,
    Report,
    arrange,
    given,
    key_place,
    match,
    refuse_other_key,
    upsert,
)
from metadata.services.rows.row_changes import clear_the_way, store_batch
from metadata.services.rows.row_names import free_key
from metadata.services.rows.source_checks import (
    check_source_column,
    check_source_dataset,
    check_source_policy,
    check_system,
)
from metadata.services.sources import DESCRIBED, plain_fields


class SourceImporter:
    """Import of sources; changes are noted in ``report``, faults in ``faults``."""

    def __init__(self, report: Report, faults: Faults) -> None:
        self.report, self.faults = report, faults
        self._created: set[str] = set()

    def system(self, record: Record) -> list[tuple[Record, SourceDataset]]:
        """Import a system with its datasets; return those without a fault of their own."""
        try:
            row = self._system(record)
        except MetadataError:
            for item in record["datasets"]:
                self.faults.refuse_source(record["short_name"], item)
            raise
        made: list[tuple[Record, SourceDataset]] = []
        for item in readable(record["datasets"]):
            known = len(self.faults.errors)
            with self.faults.collected(item, f"{row}.{item['name']}"):
                made.append((item, self._source_dataset(item, row)))
            if len(self.faults.errors) > known:
                self.faults.refuse_source(record["short_name"], item)
        return made

    def _system(self, record: Record) -> System:
        name = record["short_name"]
        row = System.objects.filter(short_name=name).first()
        if record.kept:
            if row is None:
                message = f"there is no system {name!r}; create it before its datasets, or import it as YAML"
                raise self.faults.missing(MetadataError("dangling_reference", message, "system"), (SYSTEM, name))
            return row
        row = row or System()
        values = record.picked("short_name", "name", "kind", "location", "secret", "options", "active", *DESCRIBED)
        with located(record, name):
            self.report.note(upsert(row, values, check_system), "system", str(row))
        return row

    def _source_dataset(self, record: Record, system: System) -> SourceDataset:
        name = record["name"]
        with located(record, f"{system}.{name}"):
            row = SourceDataset.objects.filter(key=record["key"]).first() if record["key"] else None
            if row is not None and row.system_id != system.pk:
                raise MetadataError("key_taken", f"this key is {row}'s", "key")
            row = row or SourceDataset.objects.filter(system=system, name=name).first()
            if row is None:
                row = SourceDataset(system=system)
                row.key = record["key"] or free_key(
                    SourceDataset, lambda attempt: stable_keys.source_dataset_key(system.short_name, name, attempt)
                )
            refuse_other_key(row, record)
            _refuse_missing(record, row, "location")
            same = ("location", "format", "options", "intake", "history_policy", "historize", "new_columns", "active")
            values = record.picked("name", *same, *DESCRIBED)
            values["short_name"] = record["short_name"] or row.short_name or naming.safe_table_part(name)
            did = upsert(row, plain_fields(row, given(record, row, values)), check_source_dataset)
        self.report.note(did, "source dataset", str(row))
        if did == CREATED:
            self._created.add(str(row))
        self._source_columns(record, row)
        return row

    def _source_columns(self, record: Record, dataset: SourceDataset) -> None:
        known = list(dataset.columns.all())
        pairs = match(self.faults, record["columns"], known, str(dataset))
        clear_the_way([(row, item["name"], key_place(item, row)) for item, row in pairs if row is not None])
        batch: list[SourceColumn] = []
        rows: list[SourceColumn] = []
        place = max((row.ordinal for row in known), default=0) + 1
        for at, (item, row) in enumerate(pairs):
            with self.faults.collected(item, f"{dataset}.{item['name']}"):
                rows.append(self._source_column(item, row, dataset, place + at, batch))
        store_batch(batch)
        # A file that keeps fields may name a few columns only.
        if not record.kept or len(rows) >= len(known):
            arrange(rows, known)

    def _source_column(
        self,
        record: Record,
        known: SourceColumn | None,
        dataset: SourceDataset,
        ordinal: int,
        batch: list[SourceColumn],
    ) -> SourceColumn:
        name = record["name"]
        row = known or SourceColumn(dataset=dataset, ordinal=ordinal)
        if known is None:
            row.key = record["key"] or free_key(
                SourceColumn, lambda attempt: stable_keys.source_column_key(dataset.key, name, attempt)
            )
        _refuse_missing(record, row, "type")
        same = ("type", "target_name", "nullable", "integrate", "pii", "sensitivity", "active")
        values = record.picked("name", *same, *DESCRIBED)
        values["key_ordinal"] = record["business_key"]
        did = upsert(row, given(record, row, values), check_source_column, batch)
        self.report.note(did, "source column", str(row))
        return row

    def generate(self, record: Record, dataset: SourceDataset, targets: Iterable[Record]) -> None:
        """Generate targets if the file has ``generate: true``, and not if it has ``false``.

        By default, targets are generated unless the files contain them, or a file that keeps fields has a stored
        dataset without targets.
        """
        if self.faults.is_refused((SOURCE, str(dataset))):
            return
        brought = any(item["generated_from"] == str(dataset) for item in targets)
        wanted = record["generate"]
        if wanted is None:
            is_left = "generate" in record.kept and not dataset.generated.exists() and str(dataset) not in self._created
            wanted = not brought and not is_left and dataset.columns.filter(active=True, integrate=True).exists()
        known = len(self.faults.errors)
        with self.faults.collected(record, str(dataset)):
            check_source_policy(dataset)
            if wanted:
                summary = generate_targets(source_dataset=dataset)
                for did, names in ((CREATED, summary.created), (UPDATED, summary.retired + summary.returned)):
                    for name in names:
                        self.report.note(did, "generated", name)
        if len(self.faults.errors) > known:
            self.faults.refuse_source(dataset.system.short_name, record)


def _refuse_missing(record: Record, row: SourceDataset | SourceColumn, name: str) -> None:
    """Refuse a new row without a required field, which a file that keeps fields may lack."""
    if row.pk is None and record[name] is None:
        raise MetadataError("missing_field", "is missing; new objects need it", name)
