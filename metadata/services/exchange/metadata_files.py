"""Export of metadata to YAML files and import from them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from django.db import transaction

from elevata.audit.services.transactions import constraints_left_to_database, snapshot, writing
from elevata.core.errors import MetadataError, raise_all
from elevata.core.strict_fields import Node, Record, collecting
from metadata.domain import exchange as fields
from metadata.domain.exchange import FORMAT, has_model_tests
from metadata.services.exchange.csv_export import csv_exports
from metadata.services.exchange.csv_files import csv_nodes
from metadata.services.exchange.faults import Faults, twice
from metadata.services.exchange.file_contents import exported_contents
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_import import Importer
from metadata.services.exchange.yaml_files import decoded, dump_yaml, parse_yaml, read_text, read_yaml

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
        files = list(exported_contents())
    return {name: dump_yaml({"format": FORMAT, **content}) for name, content in files}


def exported_csv() -> dict[str, str]:
    """Return datasets and sources with their columns as CSV texts by file name, for spreadsheets."""
    with snapshot():
        contents = [content for _, content in exported_contents()]
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
