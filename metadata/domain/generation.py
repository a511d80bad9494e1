"""Generation of target datasets from a source dataset.

raw holds what was delivered, stage is a view that types and renames it, rawcore is current truth,
and rawcore's history has a row of its own but no columns (they are computed from rawcore). All of
it is a proposal: once a thing exists, people own its names, types, roles and descriptions.
Technical columns (keys, hashes, run ids) are not described anywhere; architecture derives them.
"""

from dataclasses import dataclass, field
from uuid import UUID

from metadata.domain import keys, naming
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.types import STRING, DataType

RAW, STAGE, RAWCORE = "raw", "stage", "rawcore"
LAYERS = (RAW, STAGE, RAWCORE)

# Formats that carry text only: raw keeps it as text, stage gives it a type.
TEXT_FORMATS = ("csv", "jsonl")


@dataclass(frozen=True)
class SourceColumnSpec:
    """A column of the contract that goes into the warehouse. ``key_ordinal``: place in the business key.

    ``target_name`` is the name a person wants it to have in stage and rawcore; empty: by the naming rules.
    """

    key: UUID
    name: str
    type: DataType
    nullable: bool = True
    key_ordinal: int | None = None
    description: str = ""
    pii: bool = False
    target_name: str = ""
    sensitivity: str = ""


@dataclass(frozen=True)
class SourceDatasetSpec:
    """A source dataset as generation sees it; ``name`` is the short name that table names take."""

    key: UUID
    system: str
    name: str
    format: str
    columns: tuple[SourceColumnSpec, ...]
    historize: bool = True
    history_policy: HistoryPolicy = field(default_factory=HistoryPolicy)
    description: str = ""


@dataclass(frozen=True)
class GeneratedColumn:
    """A proposed target column; ``input`` is the stable key of the one column it reads."""

    key: UUID
    name: str
    type: DataType
    input: UUID
    nullable: bool = True
    role: str = "attribute"
    key_ordinal: int | None = None
    description: str = ""
    pii: bool = False
    sensitivity: str = ""


@dataclass(frozen=True)
class GeneratedDataset:
    """A proposed target dataset. ``input`` is a source dataset's key for raw, else a target's."""

    key: UUID
    layer: str
    name: str
    columns: tuple[GeneratedColumn, ...]
    input: UUID
    materialization: str = "table"
    historize: bool = False
    history_policy: HistoryPolicy = field(default_factory=HistoryPolicy)
    history_of: UUID | None = None
    description: str = ""


def generate(source: SourceDatasetSpec) -> tuple[GeneratedDataset, ...]:
    """Raw, stage, rawcore and history, upstream first.

    Without a business key there is no rawcore: it holds one row per business key.
    """
    raw = _raw(source)
    stage = _refined(source, STAGE, raw)
    if not any(column.key_ordinal for column in source.columns):
        return raw, stage
    rawcore = _refined(source, RAWCORE, stage)
    if not source.historize:
        return raw, stage, rawcore
    return raw, stage, rawcore, history_of(rawcore)


def history_of(base: GeneratedDataset) -> GeneratedDataset:
    return GeneratedDataset(
        keys.history_dataset_key(base.key),
        base.layer,
        naming.history_name(base.name),
        (),
        base.key,
        history_of=base.key,
    )


def raw_type(source_format: str, declared: DataType) -> DataType:
    """Text formats land as text, so that a value that fits no type is still there to be looked at."""
    return DataType(STRING) if source_format in TEXT_FORMATS else declared


def _raw(source: SourceDatasetSpec) -> GeneratedDataset:
    name = naming.generated_name(RAW, source.system, source.name)
    taken = set(naming.reserved_column_names(RAW, name))
    columns = []
    for column in source.columns:
        free = naming.free_name(column.name, taken)
        taken.add(free)
        columns.append(
            GeneratedColumn(
                keys.generated_column_key(RAW, column.key),
                free,
                raw_type(source.format, column.type),
                column.key,
                description=column.description,
                pii=column.pii,
                sensitivity=column.sensitivity,
            )
        )
    return GeneratedDataset(
        keys.generated_dataset_key(RAW, source.key),
        RAW,
        name,
        tuple(columns),
        source.key,
        description=source.description,
    )


def _refined(source: SourceDatasetSpec, layer: str, upstream: GeneratedDataset) -> GeneratedDataset:
    """Stage and rawcore: the same columns, typed and named for reading."""
    names = _names(source)
    columns = tuple(
        GeneratedColumn(
            keys.generated_column_key(layer, column.key),
            names[column.key],
            column.type,
            read.key,
            nullable=column.nullable and column.key_ordinal is None,
            role="business_key" if column.key_ordinal else "attribute",
            key_ordinal=column.key_ordinal,
            description=column.description,
            pii=column.pii,
            sensitivity=column.sensitivity,
        )
        for column, read in zip(source.columns, upstream.columns, strict=True)
    )
    stored = layer == RAWCORE
    renamed = {column.name: names[column.key] for column in source.columns}
    return GeneratedDataset(
        keys.generated_dataset_key(layer, source.key),
        layer,
        naming.generated_name(layer, source.system, source.name),
        columns,
        upstream.key,
        materialization="table" if stored else "view",
        historize=stored and source.historize,
        history_policy=source.history_policy.renamed(renamed) if stored else HistoryPolicy(),
        description=source.description,
    )


def _names(source: SourceDatasetSpec) -> dict[UUID, str]:
    """Names of stage and rawcore columns by source column: one list for both, so that they agree."""
    reserved = naming.reserved_column_names(RAWCORE, naming.generated_name(RAWCORE, source.system, source.name))
    names = naming.target_names([(column.name, column.target_name) for column in source.columns], reserved)
    return {column.key: name for column, name in zip(source.columns, names, strict=True)}
