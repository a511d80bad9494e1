"""Export of metadata to YAML files and import from them."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, QuerySet

from elevata.audit.services.change_log import constraints_left_to_database, snapshot, writing
from elevata.core.errors import MetadataError, raise_all
from elevata.core.strict_fields import Node, Record, collecting
from metadata.domain import exchange as fields
from metadata.domain.exchange import FORMAT, has_model_tests
from metadata.models import (
    ColumnInput,
    Exposure,
    QualityCheck,
    Reference,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.selectors import datasets
from metadata.services.datasets.targets import KEEPING
from metadata.services.exchange.csv_files import csv_exports, csv_nodes
from metadata.services.exchange.faults import Faults, twice
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_import import Importer
from metadata.services.exchange.yaml_files import decoded, dump_yaml, parse_yaml, read_text, read_yaml
from metadata.services.exposures import EXPOSURE_FIELDS

# Target datasets with everything that an export contains, in few queries.


def described_targets() -> QuerySet[TargetDataset]:
    """Return target datasets with their description and columns; ``ends_read`` has the inputs of all."""
    return (
        TargetDataset.objects.filter(history_of__isnull=True)
        .select_related("schema", "generated_from__system", "history")
        .prefetch_related(
            Prefetch("columns", TargetColumn.objects.order_by("ordinal", "id")),
            Prefetch("inputs", datasets.datasets_read()),
            Prefetch("references", datasets.references()),
            "checks",
            "exposures",
        )
    )


@dataclass(frozen=True)
class EndRead:
    """Input of a column. ``dataset`` is the name of the input's dataset, with its system or schema."""

    is_source: bool
    dataset: str
    column: str


def ends_read() -> dict[int, list[EndRead]]:
    """Return the inputs of all target columns, in order, by the column's primary key.

    One query reads values, without model instances.
    """
    source, upstream = "source_column__dataset", "upstream_column__dataset"
    ends: dict[int, list[EndRead]] = defaultdict(list)
    rows = ColumnInput.objects.order_by("column_id", "ordinal", "id").values_list(
        *("column_id", f"{source}__system__short_name", f"{source}__name", "source_column__name"),
        *(f"{upstream}__schema__name", f"{upstream}__name", "upstream_column__name"),
    )
    for column, system, source_name, source_column, schema, name, upstream_column in rows.iterator():
        ends[column].append(
            EndRead(True, f"{system}.{source_name}", source_column)
            if source_column is not None
            else EndRead(False, f"{schema}.{name}", upstream_column)
        )
    return ends


SUFFIXES = (".yaml", ".yml")
CSV_SUFFIX = ".csv"


@dataclass
class ExportReport:
    """Files that an export wrote, and files of an earlier export that it removed."""

    written: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def export_metadata(path: Path | str, *, as_csv: bool = False) -> ExportReport:
    """Write all metadata as files below ``path``; equal metadata gives equal bytes.

    Files of an earlier export whose object was deleted or renamed are removed; other files are not touched. With
    ``as_csv``, the CSV files of datasets and sources are written instead, and nothing is removed.
    """
    folder, files = Path(path), exported_csv() if as_csv else exported_files()
    report = ExportReport()
    try:
        for name, content in files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            pending = target.with_suffix(".new")
            pending.write_text(content, encoding="utf-8", newline="\n")
            pending.replace(target)
            report.written.append(name)
        if as_csv:
            return report
        kept = {(folder / name).resolve() for name in files}
        for old in sorted([*folder.glob("systems/*.yaml"), *folder.glob("targets/*/*.yaml")]):
            if old.resolve() not in kept and _is_ours(old):
                old.unlink()
                report.removed.append(str(old.relative_to(folder)))
    except OSError as error:
        raise MetadataError("unwritable", f"cannot be written: {error.strerror}", place=str(folder)) from None
    return report


def exported_files() -> dict[str, str]:
    """Return all metadata as YAML texts by file name; equal metadata gives equal texts."""
    with snapshot():
        files = list(_files())
    return {name: dump_yaml({"format": FORMAT, **content}) for name, content in files}


def exported_csv() -> dict[str, str]:
    """Return datasets and sources with their columns as CSV texts by file name, for spreadsheets."""
    with snapshot():
        contents = [content for _, content in _files()]
    return csv_exports(contents)


@dataclass
class MetadataFiles:
    """Records of files, with the faults that reading them found. ``is_unread`` tells that a file is not in it."""

    records: list[Record] = field(default_factory=list)
    errors: list[MetadataError] = field(default_factory=list)
    is_unread: bool = False

    def add(self, read: Callable[[], Iterable[Node]]) -> None:
        """Add the records of a file, which ``read`` returns as nodes."""
        try:
            with collecting(self.errors):
                for node in read():
                    known = len(self.errors)
                    stored = fields.stored_file(node)
                    self.is_unread = self.is_unread or len(self.errors) > known
                    self.records.append(fields.read_stored(stored))
        except MetadataError as error:
            self.errors.append(error)
            self.is_unread = True


def import_metadata(path: Path | str, *, check: bool = False) -> Report:
    """Import the metadata of all files, or none of it on any error.

    With ``check``, the transaction is rolled back, and the report lists the changes it would make.
    """
    return import_records(_read(Path(path)), check=check)


def read_files(contents: Mapping[str, str | bytes]) -> MetadataFiles:
    """Return the records of YAML and CSV files, given by the file name used in errors, as texts or as bytes in UTF-8.

    Parsing is slow, so call it before a transaction takes the database's write lock.
    """
    files = MetadataFiles()
    for name in sorted(contents):
        files.add(partial(_nodes, contents[name], name))
    return files


def import_records(files: MetadataFiles, *, check: bool = False) -> Report:
    """Import the records of files as ``import_metadata`` does. Raise the only fault, or Refusals with all faults."""
    errors = files.errors + twice(files.records)
    try:
        with constraints_left_to_database():
            return _attempt(files, errors, check=check)
    except MetadataError as problem:
        if problem.code != "constraint":
            raise
    return _attempt(files, errors, check=check)  # row by row, to name the row, or to find another key


def _attempt(files: MetadataFiles, errors: list[MetadataError], *, check: bool) -> Report:
    with writing():
        faults = Faults(errors, is_unread=files.is_unread)
        report = Importer(files.records, faults).run()
        raise_all(faults.errors)
        if check:
            transaction.set_rollback(True)
    return report


def _nodes(content: str | bytes, name: str) -> Iterable[Node]:
    text = decoded(content, name) if isinstance(content, bytes) else content
    return csv_nodes(text, name) if name.lower().endswith(CSV_SUFFIX) else [parse_yaml(text, name)]


def _read(path: Path) -> MetadataFiles:
    files = MetadataFiles()
    if not path.exists():
        raise MetadataError("missing", "does not exist", place=str(path))
    if path.is_file():
        files.add(lambda: _nodes(read_text(path, str(path)), str(path)))
        return files
    paths = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    if not paths:
        raise MetadataError("missing", "holds no YAML files (*.yaml, *.yml)", place=str(path))
    for file in paths:
        files.add(partial(_metadata_nodes, file))
    return files


def _metadata_nodes(file: Path) -> list[Node]:
    """Return the node of a YAML file, unless it has tests of models."""
    node = read_yaml(file, str(file))
    return [] if has_model_tests(node) else [node]


def _is_ours(path: Path) -> bool:
    with path.open(encoding="utf-8", errors="replace") as file:
        return file.readline().strip() == f"format: {FORMAT}"


# --- content of the files --------------------------------------------------------------------


def _files() -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the name and content of every file."""
    for system in System.objects.order_by("short_name").prefetch_related("datasets__columns", "datasets__generated"):
        yield f"systems/{system.short_name}.yaml", {"system": _system(system)}
    ordered = sorted(TargetSchema.objects.all(), key=lambda schema: (schema.ordinal, schema.name))
    schemas = [_schema(schema) for schema in ordered]
    if schemas:
        yield "schemas.yaml", {"schemas": schemas}
    read = ends_read()
    for dataset in described_targets():
        yield f"targets/{dataset.schema.name}/{dataset.name}.yaml", {"dataset": _target(dataset, read)}


def _described(row: Any) -> dict[str, Any]:
    return {"description": row.description, "owner": row.owner, "tags": row.tags}


def _retired(row: TargetDataset | TargetColumn) -> dict[str, Any]:
    return {
        "retired_at": row.retired_at.isoformat() if row.retired_at else None,
        "retired_by": row.retired_by,
    }


def _system(row: System) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in ("short_name", "name", "kind", "location", "secret", "active")}
    values["options"] = _sorted(row.options)
    datasets = sorted(row.datasets.all(), key=lambda dataset: dataset.name)
    values |= _described(row) | {"datasets": [_source_dataset(dataset) for dataset in datasets]}
    return fields.without_defaults(values, fields.SYSTEM)


def _source_dataset(row: SourceDataset) -> dict[str, Any]:
    same = ("name", "short_name", "location", "format", "historize", "new_columns", "active")
    values = {name: getattr(row, name) for name in same} | _described(row)
    values |= {
        "key": str(row.key),
        "options": _sorted(row.options),
        "intake": _sorted(row.intake),
        "history_policy": _sorted(row.history_policy),
        # Omitted, it means: generate, unless the files contain the generated datasets.
        "generate": None if row.generated.all() else False,
        "columns": [_source_column(column) for column in row.columns.all()],
    }
    return fields.without_defaults(values, fields.SOURCE_DATASET)


def _source_column(row: SourceColumn) -> dict[str, Any]:
    same = ("name", "target_name", "nullable", "integrate", "pii", "sensitivity", "active")
    values = {name: getattr(row, name) for name in same} | _described(row)
    values |= {"key": str(row.key), "type": str(row.type), "business_key": row.key_ordinal}
    return fields.without_defaults(values, fields.SOURCE_COLUMN)


def _schema(row: TargetSchema) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in ("name", "layer", "ordinal")} | _described(row)
    return fields.without_defaults(values, fields.SCHEMA)


def _target(row: TargetDataset, read: Mapping[int, list[EndRead]]) -> dict[str, Any]:
    same = (
        *("name", "former_names", "materialization", "historize", "hash_version", "filter", "select"),
        *(*KEEPING, "sensitivity", "contract"),
    )
    # Inputs and expressions of a model follow from its SELECT.
    inputs = [] if row.select else list(row.inputs.all())
    values = {name: getattr(row, name) for name in same} | _described(row) | _retired(row)
    values |= {
        "schema": row.schema.name,
        "key": str(row.key),
        "generated_from": str(row.generated_from) if row.generated_from else None,
        "history_policy": _sorted(row.history_policy),
        "increment": _sorted(row.increment),
        "history": _history(row.history) if hasattr(row, "history") else None,
        "inputs": [_end(item.source, item.upstream) for item in inputs],
        "columns": [
            _model_column(column)
            if row.select
            else _target_column(column, read.get(column.pk, ()), single=len(inputs) == 1)
            for column in row.columns.all()
        ],
        "references": [
            _reference(reference)
            for reference in sorted(row.references.all(), key=lambda item: (str(item.parent), item.role_name))
        ],
        "checks": [_check(check) for check in sorted(row.checks.all(), key=lambda item: item.name)],
        "exposures": [_exposure(item) for item in sorted(row.exposures.all(), key=lambda item: item.name)],
    }
    return fields.without_defaults(values, fields.TARGET)


def _history(row: TargetDataset) -> dict[str, Any]:
    values = {"key": str(row.key), "former_names": row.former_names} | _described(row) | _retired(row)
    return fields.without_defaults(values, fields.HISTORY)


def _target_column(row: TargetColumn, read: Iterable[EndRead], *, single: bool) -> dict[str, Any]:
    same = ("name", "former_names", "role", "nullable", "pii", "sensitivity", "expression")
    values = {name: getattr(row, name) for name in same} | _described(row) | _retired(row)
    values |= {
        "key": str(row.key),
        "type": str(row.type),
        "business_key": row.key_ordinal,
        "inputs": [_column_input(end, single=single) for end in read],
    }
    if row.key_ordinal is not None:
        values.pop("role")
    return fields.without_defaults(values, fields.TARGET_COLUMN)


def _model_column(row: TargetColumn) -> dict[str, Any]:
    values = _target_column(row, (), single=True)
    values.pop("expression", None)
    return values


def _column_input(end: EndRead, *, single: bool) -> Any:
    if single:
        return end.column
    return {"source" if end.is_source else "dataset": end.dataset, "column": end.column}


def _end(source: SourceDataset | None, target: TargetDataset | None) -> dict[str, str]:
    return {"source": str(source)} if source else {"dataset": str(target)}


def _reference(row: Reference) -> dict[str, Any]:
    pairs = sorted((pair.parent_column.name, pair.child_column.name) for pair in row.pairs.all())
    values = {
        "parent": str(row.parent),
        "role_name": row.role_name,
        "key": str(row.key),
        "columns": dict(pairs),
        "unknown_parent": row.unknown_parent,
        "active": row.active,
    }
    return fields.without_defaults(values, fields.OWN_REFERENCE)


def _check(row: QualityCheck) -> dict[str, Any]:
    same = ("name", "kind", "severity", "description", "active")
    values = {name: getattr(row, name) for name in same} | {"key": str(row.key), "arguments": _sorted(row.arguments)}
    return fields.without_defaults(values, fields.CHECK)


def _exposure(row: Exposure) -> dict[str, Any]:
    values = {name: getattr(row, name) for name in EXPOSURE_FIELDS} | {"key": str(row.key)}
    return fields.without_defaults(values, fields.EXPOSURE)


def _sorted(value: dict[str, Any]) -> dict[str, Any]:
    """Return the value with sorted keys, because PostgreSQL does not preserve the order of JSON keys."""
    return json.loads(json.dumps(value, sort_keys=True))
