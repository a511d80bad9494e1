"""Preview of a generation: added, retired and reactivated objects, and users' edits that differ from the source.

Generation itself never changes existing objects. A user may accept the source's values for the differing
columns, dataset by dataset.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import transaction

from elevata.audit.services.transactions import writing
from elevata.core.canonical_json import sha256_hex
from elevata.core.errors import MetadataError, as_sentence
from metadata.domain import stable_keys
from metadata.domain.generation import RAW, GeneratedColumn, GeneratedDataset, generate, raw_type
from metadata.domain.types import DataType
from metadata.models import SourceDataset, System, TargetColumn, TargetDataset, TargetSchema
from metadata.services.datasets.generation import Summary, describe, generate_targets, is_generated, stored_targets
from metadata.services.datasets.targets import change_column, check_keys
from metadata.services.rows.checks import check_dataset_columns
from metadata.services.rows.row_changes import put_aside
from metadata.services.source_contracts import import_source_dataset

# Label of the field of a difference in types.
TYPE = "type"
NEW, CHANGES, SAME, RETIRES, RETURNS = "new", "changes", "same", "retires", "returns"


@dataclass(frozen=True)
class Difference:
    """Difference between a generated column and its source: the current and the proposed value of one field."""

    column: str
    field: str
    stands: str
    proposed: str


@dataclass
class DatasetPreview:
    """Effect of a generation on one dataset: names of columns, with their types if they are new."""

    key: UUID
    name: str
    layer: str
    status: str
    added: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    differences: list[Difference] = field(default_factory=list)

    @property
    def anything(self) -> bool:
        return self.status != SAME or bool(self.differences)


@dataclass(frozen=True)
class GenerationPreview:
    """Preview of all datasets of a source, upstream first; ``fingerprint`` identifies what a user accepts."""

    datasets: tuple[DatasetPreview, ...]
    fingerprint: str

    @property
    def changes(self) -> bool:
        """Return True if generation would change anything."""
        return any(dataset.status != SAME for dataset in self.datasets)

    @property
    def differs(self) -> bool:
        return any(dataset.differences for dataset in self.datasets)


@dataclass(frozen=True)
class SourceGeneration:
    """Effect of a generation on the targets of one source of a system, or the reason why it is left out."""

    source: SourceDataset
    preview: GenerationPreview | None = None
    problem: MetadataError | None = None

    @property
    def reason(self) -> str:
        return as_sentence(self.problem.message) if self.problem is not None else ""

    @property
    def datasets(self) -> tuple[DatasetPreview, ...]:
        return self.preview.datasets if self.preview is not None else ()

    @property
    def anything(self) -> bool:
        return any(dataset.anything for dataset in self.datasets)


def preview_generation(source: SourceDataset) -> GenerationPreview:
    """Return the current effect of ``generate_accepted``. Raise MetadataError if generation would fail.

    The generation is run and rolled back, so that preview and generation cannot differ.
    """
    with transaction.atomic():
        try:
            return _generated(source)
        finally:
            transaction.set_rollback(True)


def generate_accepted(
    *, source_dataset: SourceDataset, fingerprint: str, accept: Collection[UUID] = ()
) -> GenerationPreview:
    """Generate as previewed, and apply the source's values in the datasets with the keys in ``accept``.

    Raises MetadataError ``preview_changed`` if generation would now differ from the preview.
    """
    with writing():
        source = SourceDataset.objects.select_for_update(of=("self",)).get(pk=source_dataset.pk)
        preview = _generated(source)
        if preview.fingerprint != fingerprint:
            raise MetadataError(
                "preview_changed",
                "another user changed the source or its targets; nothing was changed. Reload the page",
                where=str(source),
            )
        wanted = set(accept)
        for dataset, pairs in _pairs(source, _stored(source)) if wanted else ():
            if dataset.key in wanted:
                _take(dataset, pairs)
        return preview


def preview_system(system: System) -> list[SourceGeneration]:
    """Return the current effect of ``generate_system`` on each source; nothing is written."""
    sources = _sources_of(system)
    targets = stored_targets(sources)
    with writing():
        result = [_source_generation(source, targets[source.pk]) for source in sources]
        transaction.set_rollback(True)
    return result


def generate_system(
    *, system: System, fingerprints: Mapping[UUID, str] | None = None, accept: Collection[UUID] = ()
) -> list[SourceGeneration]:
    """Generate the targets of all sources of a system in one transaction; return the effect by source.

    ``fingerprints`` are those of the previewed sources, by key: exactly these are generated as previewed, and the
    source's values applied in the datasets with the keys in ``accept``, or nothing (``preview_changed``). Without them,
    every source is generated that can be.
    """
    with writing():
        sources = _sources_of(system, lock=True)
        if fingerprints is None:
            targets = stored_targets(sources)
            return [_source_generation(source, targets[source.pk]) for source in sources]
        if missing := set(fingerprints) - {source.key for source in sources}:
            raise MetadataError("preview_changed", f"{len(missing)} sources do not exist any more", where=str(system))
        return [
            SourceGeneration(
                source, generate_accepted(source_dataset=source, fingerprint=fingerprints[source.key], accept=accept)
            )
            for source in sources
            if source.key in fingerprints
        ]


def _sources_of(system: System, *, lock: bool = False) -> list[SourceDataset]:
    rows = SourceDataset.objects.filter(system=system).select_related("system").order_by("pk")
    return list(rows.select_for_update(of=("self",)) if lock else rows)


def _source_generation(source: SourceDataset, targets: list[TargetDataset]) -> SourceGeneration:
    """Generate the targets of a source, or return the reason why nothing can be generated."""
    try:
        return SourceGeneration(source, _generated(source, targets))
    except MetadataError as problem:
        return SourceGeneration(source, problem=problem)


def generate_following(*, source_dataset: SourceDataset, retyped: Mapping[UUID, DataType]) -> GenerationPreview:
    """Generate, and let targets follow source columns to new types; return what was changed.

    ``retyped`` has the former types of source columns by stable key. A target column that had another type than its
    source keeps it.
    """
    with writing():
        source = SourceDataset.objects.select_for_update(of=("self",)).get(pk=source_dataset.pk)
        preview = _generated(source)
        followed: dict[UUID, set[str]] = {}
        for dataset, pairs in _pairs(source, _stored(source)):
            layer = dataset.schema.layer
            former = {stable_keys.generated_column_key(layer, key): type_ for key, type_ in retyped.items()}
            following = [
                (column, spec)
                for column, spec in pairs
                if spec.key in former and column.type == _former_type(layer, source.format, former[spec.key])
            ]
            for column, spec in following:
                change_column(column, {"type": spec.type})
            if following:
                check_dataset_columns(TargetDataset.objects.get(pk=dataset.pk))
            followed[dataset.key] = {column.name for column, _ in following}
        for effect in preview.datasets:
            names = followed.get(effect.key, set())
            effect.differences = [item for item in effect.differences if item.field == TYPE and item.column in names]
        return preview


def _former_type(layer: str, source_format: str, declared: DataType) -> DataType:
    return raw_type(source_format, declared) if layer == RAW else declared


def import_and_generate(**described: Any) -> tuple[SourceDataset, GenerationPreview]:
    """Create a source dataset with its columns and its targets, all or nothing; see ``import_source_dataset``."""
    with writing():
        source = import_source_dataset(**described)
        return source, _generated(source)


def import_and_generate_all(sources: Iterable[Mapping[str, Any]]) -> list[SourceDataset]:
    """Create several source datasets with their targets, all or nothing; each as by ``import_and_generate``."""
    with writing():
        return [import_and_generate(**described)[0] for described in sources]


def preview_import(**described: Any) -> GenerationPreview:
    """Return what ``import_and_generate`` would create now; nothing is written. Raise its MetadataError."""
    with transaction.atomic():
        try:
            return import_and_generate(**described)[1]
        finally:
            transaction.set_rollback(True)


def _generated(source: SourceDataset, targets: list[TargetDataset] | None = None) -> GenerationPreview:
    """Run the generation, unless it would write nothing, and return its effect; the caller opens the transaction.

    ``targets`` are the stored ones, if they were read before.
    """
    targets, summary = _stored(source) if targets is None else targets, Summary()
    if not is_generated(source, targets):
        summary = generate_targets(source_dataset=source)
        targets = _stored(source)
    differences = {dataset.key: _differences(pairs) for dataset, pairs in _pairs(source, targets)}
    previews = [_preview(row, summary, differences.get(row.key, [])) for row in targets]
    layers = TargetSchema.Layer.values
    previews.sort(key=lambda preview: (layers.index(preview.layer), preview.name))
    return GenerationPreview(tuple(previews), sha256_hex([_as_json(preview) for preview in previews]))


def _stored(source: SourceDataset) -> list[TargetDataset]:
    return stored_targets([source])[source.pk]


def _preview(row: TargetDataset, summary: Summary, differences: list[Difference]) -> DatasetPreview:
    name = str(row)
    preview = DatasetPreview(row.key, name, row.schema.layer, SAME, differences=differences)
    if not summary:
        return preview
    columns = {str(column): column for column in row.columns.all()}
    labels = {full_name: f"{column.name} {column.type}" for full_name, column in columns.items()}
    preview.retired = [columns[full_name].name for full_name in summary.retired if full_name in columns]
    preview.returned = [columns[full_name].name for full_name in summary.returned if full_name in columns]
    if name in summary.created:
        preview.status = NEW
        preview.added = [labels[full_name] for full_name, column in columns.items() if column.active]
    else:
        preview.added = [labels[full_name] for full_name in summary.created if full_name in columns]
        if name in summary.retired:
            preview.status = RETIRES
        elif name in summary.returned:
            preview.status = RETURNS
        elif preview.added or preview.retired or preview.returned:
            preview.status = CHANGES
    return preview


def _pairs(
    source: SourceDataset, targets: list[TargetDataset]
) -> Iterator[tuple[TargetDataset, list[tuple[TargetColumn, GeneratedColumn]]]]:
    """Yield every active generated dataset with pairs of its columns and the source's proposals."""
    if not (source.active and source.system.active):
        return
    proposed = {spec.key: spec for spec in generate(describe(source)) if spec.history_of is None}
    by_layer = {spec.layer: spec for spec in proposed.values()}
    for row in targets:
        if row.history_of_id is not None or not row.active:
            continue
        spec = proposed.get(row.key) or by_layer.get(row.schema.layer)
        if spec is not None:
            yield row, _matched(row, spec)


def _matched(row: TargetDataset, spec: GeneratedDataset) -> list[tuple[TargetColumn, GeneratedColumn]]:
    wanted = {column.key: column for column in spec.columns}
    active = [column for column in row.columns.all() if column.active]
    return [(column, wanted[column.key]) for column in active if column.key in wanted]


def _differences(pairs: list[tuple[TargetColumn, GeneratedColumn]]) -> list[Difference]:
    """Return the fields of columns that differ from the source, except names, which belong to users."""
    differences = []
    for column, spec in pairs:
        for name, (stands, proposed) in _fields(column, spec).items():
            if stands != proposed:
                differences.append(Difference(column.name, name, stands, proposed))
    return differences


def _fields(column: TargetColumn, spec: GeneratedColumn) -> dict[str, tuple[str, str]]:
    """Return the current and proposed text of each field; fields the source leaves empty are not compared."""
    fields = {
        TYPE: (str(column.type), str(spec.type)),
        "may be empty": (_yes(column.nullable), _yes(spec.nullable)),
        "business key": (str(column.key_ordinal or "no"), str(spec.key_ordinal or "no")),
    }
    if spec.description:
        fields["description"] = (column.description, spec.description)
    if spec.pii:
        fields["personal data"] = (_yes(column.pii), "yes")
    if spec.sensitivity:
        fields["sensitivity"] = (column.sensitivity, spec.sensitivity)
    return fields


def _yes(flag: bool) -> str:
    return "yes" if flag else "no"


def _take(dataset: TargetDataset, pairs: list[tuple[TargetColumn, GeneratedColumn]]) -> None:
    """Set differing fields to the source's values; columns added by users are not changed."""
    changed: set[str] = set()
    given = [(column, _changes(column, spec)) for column, spec in pairs]
    for column, changes in given:
        if "key_ordinal" in changes and column.key_ordinal is not None:
            # Two columns that swap positions in the key would have the same position between the writes.
            put_aside(column, key_ordinal=None, role=TargetColumn.Role.ATTRIBUTE)
    for column, changes in given:
        if changes:
            change_column(column, changes)
            changed |= set(changes)
    if changed:
        fresh = TargetDataset.objects.get(pk=dataset.pk)
        check_dataset_columns(fresh)
        check_keys(fresh, changed)


def _changes(column: TargetColumn, spec: GeneratedColumn) -> dict[str, Any]:
    """Return the fields of the column to set, with the source's values, if they differ."""
    wanted: dict[str, Any] = {
        "type": spec.type,
        "nullable": spec.nullable,
        "role": spec.role,
        "key_ordinal": spec.key_ordinal,
    }
    if spec.description:
        wanted["description"] = spec.description
    if spec.pii:
        wanted["pii"] = True
    if spec.sensitivity:
        wanted["sensitivity"] = spec.sensitivity
    return {name: value for name, value in wanted.items() if getattr(column, name) != value}


def _as_json(effect: DatasetPreview) -> dict[str, Any]:
    return {
        "key": str(effect.key),
        "status": effect.status,
        "added": effect.added,
        "retired": effect.retired,
        "returned": effect.returned,
        "differences": [
            [difference.column, difference.field, difference.stands, difference.proposed]
            for difference in effect.differences
        ],
    }
