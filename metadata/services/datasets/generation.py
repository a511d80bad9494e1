"""Generation of the target datasets of a source dataset, preserving users' edits.

Existing objects keep their name, type, role, expression, description and order. New objects are added;
objects whose source was removed are retired, never deleted; objects that generation retired become active
again with their source.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db.models import prefetch_related_objects
from django.utils import timezone

from elevata.audit.services.transactions import writing
from elevata.core.errors import MetadataError
from metadata.domain import naming, stable_keys
from metadata.domain.generation import GeneratedColumn, GeneratedDataset, SourceColumnSpec, SourceDatasetSpec, generate
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.models import (
    ColumnInput,
    DatasetInput,
    SourceColumn,
    SourceDataset,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)
from metadata.services.models import following
from metadata.services.references import check_references
from metadata.services.rows.checks import check_history
from metadata.services.rows.row_changes import store, store_all
from metadata.services.rows.source_checks import check_source_policy

BY_GENERATION = TargetDataset.RetiredBy.GENERATION


@dataclass
class Summary:
    """Result of a generation: qualified names of created, retired and reactivated objects."""

    created: list[str] = field(default_factory=list)
    retired: list[str] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.created or self.retired or self.returned)

    def as_json(self) -> dict[str, list[str]]:
        return {name: sorted(value) for name, value in vars(self).items()}


def generate_targets(*, source_dataset: SourceDataset) -> Summary:
    """Generate raw, stage, rawcore and history of a source dataset; a repeated call changes no row."""
    summary = Summary()
    with writing():
        source = (
            SourceDataset.objects.select_for_update(of=("self",)).select_related("system").get(pk=source_dataset.pk)
        )
        proposed = generate(describe(source)) if source.active and source.system.active else ()
        prefetch_related_objects([source], "columns")
        existing = _existing(source, _targets([source]))
        with following(list(existing.values())):
            _generate(source, proposed, existing, summary)
    return summary


def stored_targets(sources: Collection[SourceDataset]) -> dict[int, list[TargetDataset]]:
    """Return the targets of sources with their columns and inputs, by source; the sources get their columns, too.

    The number of queries does not depend on the number of sources.
    """
    prefetch_related_objects(list(sources), "columns")
    rows = _targets(sources)
    prefetch_related_objects(rows, "columns", "inputs")
    targets: dict[int, list[TargetDataset]] = {source.pk: [] for source in sources}
    for row in rows:
        targets[_source_of(row).pk].append(row)
    columns = [column for some in targets.values() for row in some for column in _matched_by_input(row)]
    prefetch_related_objects(columns, "inputs__source_column", "inputs__upstream_column")
    return targets


def _targets(sources: Collection[SourceDataset]) -> list[TargetDataset]:
    rows = TargetDataset.objects.filter(generated_from__in=sources).select_related("schema", "history__schema")
    targets, by_pk = list(rows.order_by("pk")), {source.pk: source for source in sources}
    for row in targets:
        row.generated_from = by_pk[row.generated_from_id or 0]
    return targets


def _source_of(row: TargetDataset) -> SourceDataset:
    """Return the source of a generated dataset."""
    assert row.generated_from is not None
    return row.generated_from


def _matched_by_input(dataset: TargetDataset) -> list[TargetColumn]:
    """Return the columns whose inputs are compared: those of users, and all if a key of generation is missing."""
    generated, columns = _generated_keys(dataset), list(dataset.columns.all())
    is_complete = generated.issubset(column.key for column in columns)
    return [column for column in columns if not is_complete or column.key not in generated]


def is_generated(source: SourceDataset, targets: Iterable[TargetDataset]) -> bool:
    """Return True if a generation would write nothing. ``targets`` are from ``stored_targets``.

    Raise the MetadataError of a source that cannot be generated from.
    """
    existing = _existing(source, targets)
    known: dict[UUID, SourceColumn | TargetColumn] = {column.key: column for column in source.columns.all()}
    made: dict[UUID, TargetDataset | None] = {}
    for spec in generate(describe(source)) if source.active and source.system.active else ():
        dataset = made[spec.key] = existing.get(spec.key)
        if spec.history_of is not None:
            base = made[spec.history_of]
            if base is not None and base.historize and (dataset is None or (base.active and not dataset.active)):
                return False
            continue
        if dataset is None or _may_return(dataset) or not dataset.inputs.all():
            return False
        rows = {row.key: row for row in dataset.columns.all()}
        matched = {proposal.key: _match(proposal, rows, known) for proposal in spec.columns}
        used = [row for row in matched.values() if row is not None]
        if len(used) < len(matched) or any(map(_may_return, used)) or _to_retire(dataset, rows.values(), used):
            return False
        known |= {key: row for key, row in matched.items() if row is not None}
    unmade = [row for key, row in existing.items() if key not in made and not _historized_by_user(row, made)]
    return not any(row.active for row in unmade)


def _generate(
    source: SourceDataset,
    proposed: Sequence[GeneratedDataset],
    existing: Mapping[UUID, TargetDataset],
    summary: Summary,
) -> None:
    columns: dict[UUID, SourceColumn | TargetColumn] = {c.key: c for c in source.columns.all()}
    made: dict[UUID, Any] = {source.key: source}  # Any: a history that is not needed is None, and nothing reads it
    for spec in proposed:
        dataset = existing.get(spec.key)
        if spec.history_of is not None:
            made[spec.key] = _history(spec, made[spec.history_of], dataset, summary)
            continue
        dataset = _dataset(spec, source, dataset, made[spec.input], summary)
        made[spec.key] = dataset
        has_more = _columns(spec, dataset, made[spec.input], columns, summary)
        check_history(dataset)
        if has_more:
            check_references(dataset, "columns", with_rules=True)
    for key, dataset in existing.items():
        if key not in made and not _historized_by_user(dataset, made):
            _retire(dataset, summary)


def describe(source: SourceDataset) -> SourceDatasetSpec:
    """Return a source dataset as input of generation: its active columns that are to be integrated."""
    columns = tuple(
        SourceColumnSpec(
            column.key,
            column.name,
            column.type,
            column.nullable,
            column.key_ordinal,
            column.description,
            column.pii,
            column.target_name,
            column.sensitivity,
        )
        for column in source.columns.all()
        if column.active and column.integrate
    )
    if not columns:
        raise MetadataError("no_columns", "has no column to generate from", "columns", str(source))
    check_source_policy(source)
    return SourceDatasetSpec(
        source.key,
        source.system.short_name,
        source.short_name,
        source.format,
        columns,
        source.historize,
        HistoryPolicy.from_dict(source.history_policy),
        source.description,
    )


def ensure_schema(layer: str) -> TargetSchema:
    """Return the layer's schema: the one with the layer's name, else its first, else a new one."""
    schemas = list(TargetSchema.objects.filter(layer=layer))
    named = [schema for schema in schemas if schema.name == layer]
    return (named or schemas)[0] if schemas else create_layer_schema(layer)


def create_layer_schema(layer: str) -> TargetSchema:
    """Create the schema that has the name of its layer."""
    ordinal = TargetSchema.Layer.values.index(layer) + 1
    return store(TargetSchema(name=layer, layer=layer, ordinal=ordinal))


def ensure_history(base: TargetDataset, summary: Summary | None = None) -> TargetDataset:
    """Return the history dataset of a historized dataset, created or reactivated if needed."""
    summary = Summary() if summary is None else summary
    spec = GeneratedDataset(stable_keys.history_dataset_key(base.key), "", naming.history_name(base.name), (), base.key)
    history = _history(spec, base, getattr(base, "history", None), summary)
    assert history is not None  # the base is historized
    return history


def _existing(source: SourceDataset, rows: Iterable[TargetDataset]) -> dict[UUID, TargetDataset]:
    """Return the datasets that were generated from the source, by the key that generation derives for them.

    A dataset with another key (from a file, for example) is matched by its layer.
    """
    known: dict[UUID, TargetDataset] = {}
    for row in sorted(rows, key=lambda row: row.pk):
        key = stable_keys.generated_dataset_key(row.schema.layer, source.key)
        if row.history_of_id is None and (key not in known or row.key == key):
            known[key] = row
    for key, row in list(known.items()):
        if hasattr(row, "history"):
            known[stable_keys.history_dataset_key(key)] = row.history
    return known


def _historized_by_user(dataset: TargetDataset, made: dict) -> bool:
    """Return True for the history of a dataset that a user historized although the source does not ask for it."""
    base = dataset.history_of
    return base is not None and base.historize and any(row == base for row in made.values())


def _dataset(
    spec: GeneratedDataset,
    source: SourceDataset,
    dataset: TargetDataset | None,
    upstream: SourceDataset | TargetDataset,
    summary: Summary,
) -> TargetDataset:
    if dataset is None:
        dataset = _new_dataset(spec, source)
        summary.created.append(str(dataset))
    elif _may_return(dataset):
        _return(dataset, summary)
    if not dataset.inputs.exists():
        reads = {"source": upstream} if isinstance(upstream, SourceDataset) else {"upstream": upstream}
        store(DatasetInput(dataset=dataset, **reads))
    return dataset


def _new_dataset(spec: GeneratedDataset, source: SourceDataset) -> TargetDataset:
    schema = ensure_schema(spec.layer)
    naming.check_table_name(spec.name)
    other = TargetDataset.objects.filter(schema=schema, name__iexact=spec.name).first()
    if other is not None:
        raise MetadataError(
            "name_taken",
            f"generation needs the name {spec.name!r}, which another dataset has",
            "name",
            str(other),
        )
    return store(
        TargetDataset(
            schema=schema,
            key=spec.key,
            name=spec.name,
            materialization=spec.materialization,
            historize=spec.historize,
            history_policy=spec.history_policy.to_dict(),
            description=spec.description,
            generated_from=source,
        )
    )


def _history(
    spec: GeneratedDataset, base: TargetDataset, history: TargetDataset | None, summary: Summary
) -> TargetDataset | None:
    """Return the history of a base dataset, created or reactivated if the base is historized, else unchanged."""
    if history is None and base.historize:
        naming.check_table_name(naming.history_name(base.name), history=True)
        history = store(
            TargetDataset(
                schema=base.schema,
                key=spec.key,
                name=naming.history_name(base.name),
                history_of=base,
                generated_from=base.generated_from,
            )
        )
        summary.created.append(str(history))
    elif history is not None and base.historize and base.active and not history.active:
        _return(history, summary)
    return history


def _columns(
    spec: GeneratedDataset,
    dataset: TargetDataset,
    upstream: SourceDataset | TargetDataset,
    known: dict[UUID, SourceColumn | TargetColumn],
    summary: Summary,
) -> bool:
    """Add, retire and reactivate columns; the rows are added to ``known`` by generated key.

    Return True if there are columns that were not in use before.
    """
    rows = list(dataset.columns.prefetch_related("inputs__source_column", "inputs__upstream_column"))
    dataset_input = _input_from(dataset, upstream)
    by_key = {row.key: row for row in rows}
    taken = _taken_names(dataset, rows)
    ordinal = max((row.ordinal for row in rows), default=0)
    fresh: list[tuple[TargetColumn, SourceColumn | TargetColumn]] = []
    used, unused = [], {row.pk for row in rows if not row.active}
    for proposal in spec.columns:
        reads = known[proposal.input]
        row = _match(proposal, by_key, known)
        if row is None:
            ordinal += 1
            row = _new_column(proposal, dataset, naming.free_name(proposal.name, taken), ordinal)
            row.key_ordinal = _free_key_ordinal(row, [*rows, *(column for column, _ in fresh)])
            taken.add(row.name)
            fresh.append((row, reads))
        else:
            used.append(row)
            if _may_return(row):
                row.key_ordinal = _free_key_ordinal(row, rows)
                _return(row, summary)
        known[proposal.key] = row
    store_all(column for column, _ in fresh)
    if dataset_input is not None:
        store_all(_column_input(dataset_input, *pair) for pair in fresh)
    if str(dataset) not in summary.created:
        summary.created.extend(str(column) for column, _ in fresh)
    for row in _to_retire(dataset, rows, used):
        _retire(row, summary)
    return bool(fresh) or any(row.active and row.pk in unused for row in rows)


def _input_from(dataset: TargetDataset, upstream: SourceDataset | TargetDataset) -> DatasetInput | None:
    reads = {"source": upstream} if isinstance(upstream, SourceDataset) else {"upstream": upstream}
    return dataset.inputs.filter(**reads).first()


def _match(
    proposal: GeneratedColumn, rows: Mapping[UUID, TargetColumn], known: Mapping[UUID, SourceColumn | TargetColumn]
) -> TargetColumn | None:
    """Return the stored column of a proposed one: the one with its key, or one that reads only the same column."""
    return rows.get(proposal.key) or _same_lineage(rows.values(), known[proposal.input])


def _may_return(row: TargetDataset | TargetColumn) -> bool:
    return not row.active and row.retired_by == BY_GENERATION


def _to_retire(
    dataset: TargetDataset, rows: Iterable[TargetColumn], used: Iterable[TargetColumn]
) -> list[TargetColumn]:
    """Return the active columns that are not used any more, except those of users."""
    kept, generated = {row.pk for row in used}, _generated_keys(dataset)
    left = (row for row in rows if row.active and row.pk not in kept)
    return [row for row in left if row.key in generated or _reads_retired(row)]


def _same_lineage(rows: Iterable[TargetColumn], reads: SourceColumn | TargetColumn) -> TargetColumn | None:
    """Return the column that reads only ``reads``: it may have another key, from a file for example."""
    for row in rows:
        inputs = list(row.inputs.all())
        if len(inputs) == 1 and _reads(inputs[0], reads):
            return row
    return None


def _reads(column_input: ColumnInput, column: SourceColumn | TargetColumn) -> bool:
    if isinstance(column, SourceColumn):
        return column_input.source_column_id == column.pk
    return column_input.upstream_column_id == column.pk


def _taken_names(dataset: TargetDataset, rows: list[TargetColumn]) -> set[str]:
    """Return the names that a new column cannot have: of other columns, technical columns and foreign keys."""
    foreign_keys = {
        naming.foreign_key_name(reference.role_name, reference.parent.name)
        for reference in dataset.references.select_related("parent")
    }
    reserved = naming.reserved_column_names(dataset.schema.layer, dataset.name)
    return {row.name for row in rows} | foreign_keys | reserved


def _new_column(spec: GeneratedColumn, dataset: TargetDataset, name: str, ordinal: int) -> TargetColumn:
    return TargetColumn(
        dataset=dataset,
        key=spec.key,
        name=name,
        ordinal=ordinal,
        type=spec.type,  # type: ignore[misc]  # a property, which sets the fields of the type
        nullable=spec.nullable,
        role=spec.role,
        key_ordinal=spec.key_ordinal,
        description=spec.description,
        pii=spec.pii,
        sensitivity=spec.sensitivity,
    )


def _free_key_ordinal(row: TargetColumn, others: list[TargetColumn]) -> int | None:
    """Return the column's position in the business key, or the next free one if a user assigned it to another."""
    if row.key_ordinal is None:
        return None
    taken = {other.key_ordinal for other in others if other.active and other is not row}
    ordinal = row.key_ordinal
    while ordinal in taken:
        ordinal += 1
    return ordinal


def _column_input(dataset_input: DatasetInput, column: TargetColumn, reads: SourceColumn | TargetColumn) -> ColumnInput:
    side = {"source_column": reads} if isinstance(reads, SourceColumn) else {"upstream_column": reads}
    return ColumnInput(column=column, dataset_input=dataset_input, **side)


def _generated_keys(dataset: TargetDataset) -> set[UUID]:
    """Return the keys that generation derives for the dataset's columns; columns with other keys belong to users."""
    layer = dataset.schema.layer
    return {stable_keys.generated_column_key(layer, column.key) for column in _source_of(dataset).columns.all()}


def _reads_retired(row: TargetColumn) -> bool:
    """Return True for a column that reads exactly one column, and that one is retired or not integrated."""
    inputs = list(row.inputs.all())
    if len(inputs) != 1:
        return False
    column = inputs[0].read_column
    return not column.active or not getattr(column, "integrate", True)


def _retire(row: TargetDataset | TargetColumn, summary: Summary) -> None:
    if row.active:
        row.active, row.retired_at, row.retired_by = False, timezone.now(), BY_GENERATION
        store(row)
        summary.retired.append(str(row))


def _return(row: TargetDataset | TargetColumn, summary: Summary) -> None:
    row.active, row.retired_at, row.retired_by = True, None, ""
    store(row)
    summary.returned.append(str(row))
