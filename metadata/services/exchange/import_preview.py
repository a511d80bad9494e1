"""Preview of an import, and the import of exactly what was previewed.

Both make the import in a transaction and compare its rows with their before-images, as the change log does. A preview
is rolled back, as is an import whose changes differ from the previewed ones: the files or the metadata changed since.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from django.db import transaction

from elevata.audit.models import ChangeLogEntry
from elevata.audit.selectors import FieldChange, changed_fields
from elevata.audit.services.change_log import Change, differences
from elevata.audit.services.transactions import writing
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError
from metadata.services.exchange.import_rows import Report
from metadata.services.exchange.metadata_files import MetadataFiles
from metadata.services.rows.subjects import KINDS

MOST_SHOWN = 200
# The time of a retirement is that of the import, so it differs from that of the preview.
_OWN_TIME = "retired_at"
# Fields of a new object that its name or others of its fields tell.
_IMPLIED = frozenset({"key", "name", "ordinal", "dataset", "schema", "system", "child", "parent", "role"})
Action = ChangeLogEntry.Action
ImportFiles = Callable[[MetadataFiles], Report]


@dataclass(frozen=True)
class ImportChange:
    """Change that an import makes to one object."""

    action: str
    kind: str
    name: str
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True)
class ImportPreview:
    """Changes of an import: counts by kind and action, and the first ``MOST_SHOWN`` of them.

    ``digest`` identifies all changes. ``findings`` are names, each with what a user would be asked about. ``entry`` is
    the first entry of an import in the change log.
    """

    counts: dict[str, Counter[str]]
    changes: tuple[ImportChange, ...]
    total: int
    unchanged: int
    findings: tuple[tuple[str, str], ...]
    digest: str
    entry: ChangeLogEntry | None = None

    @property
    def by_action(self) -> Counter[str]:
        """Return the number of changes by action."""
        return sum(self.counts.values(), Counter())


class PreviewOutdated(MetadataError):
    """Error of an import whose changes are not the previewed ones; ``preview`` has those it would make now."""

    def __init__(self, preview: ImportPreview) -> None:
        super().__init__("changed_since", "the files or the metadata changed since the check; nothing was imported")
        self.preview = preview


def preview_import(files: MetadataFiles, import_files: ImportFiles) -> ImportPreview:
    """Return the changes that an import would make; nothing is written. Raise its fault, or Refusals with all."""
    with writing() as unit:
        report = import_files(files)
        unit.check()
        preview = _preview(report, unit.changes())
        transaction.set_rollback(True)
    return preview


def apply_import(files: MetadataFiles, import_files: ImportFiles, *, seen: str, reason: str = "") -> ImportPreview:
    """Import files if that makes the changes of the preview with the digest ``seen``; else raise PreviewOutdated."""
    with writing(reason) as unit:
        preview = _preview(import_files(files), unit.changes())
        if preview.digest != seen:
            raise PreviewOutdated(preview)
    return replace(preview, entry=unit.entry)


def _preview(report: Report, batches: Iterable[list[Change]]) -> ImportPreview:
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS.values()}
    shown: list[ImportChange] = []
    identity: list[Any] = [report.unchanged]
    for change in (change for batch in batches for change in batch):
        identity.append([str(change.action), change.subject_kind, change.subject_key, _timeless(change)])
        for each in _with_parts(change):
            counts.setdefault(each.subject_kind, Counter())[str(each.action)] += 1
            if len(shown) < MOST_SHOWN:
                shown.append(_shown(each))
    return ImportPreview(
        counts={kind: count for kind, count in counts.items() if count},
        changes=tuple(shown),
        total=sum(count.total() for count in counts.values()),
        unchanged=report.unchanged,
        findings=tuple(report.findings),
        digest=sha256_hex(identity),
    )


def _timeless(change: Change) -> str:
    sides = ({name: value for name, value in side.items() if name != _OWN_TIME} for side in _sides(change))
    return differences(*sides)


def _sides(change: Change) -> tuple[dict[str, Any], dict[str, Any]]:
    return dict(change.before), dict(change.after)


def _with_parts(change: Change) -> Iterator[Change]:
    """Yield a change, and one for each column of a new dataset, which is a part of the dataset's entry in the log."""
    before, after = _sides(change)
    columns = after.pop("columns", ())
    yield replace(change, before=before, after=after)
    kind = "source_column" if change.subject_kind == "source_dataset" else "column"
    for column in columns:
        yield Change(change.action, kind, column["key"], f"{change.subject_name}.{column['name']}", {}, column)


def _shown(change: Change) -> ImportChange:
    before, after = _sides(change)
    if change.action == Action.CREATED:
        usual = _defaults(change.subject_kind)
        after = {name: value for name, value in after.items() if name not in _IMPLIED and value != usual.get(name)}
    fields = changed_fields(differences(before, after))
    return ImportChange(str(change.action), change.subject_kind, change.subject_name, fields)


@cache
def _defaults(kind: str) -> dict[str, Any]:
    """Return the defaults of a kind of object by field."""
    model = next(model for model, name in KINDS.items() if name == kind)
    return {field.name: field.get_default() for field in model._meta.concrete_fields if field.has_default()}
