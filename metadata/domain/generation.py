"""Generation of target datasets from a source dataset.

raw stores the delivered data, stage is a view that casts and renames it, rawcore has the current rows. The
history of rawcore is a dataset without columns of its own (they are computed from rawcore). The result is a
proposal: names, types, roles and descriptions of existing objects belong to the users who edit them.
Technical columns (keys, hashes, run ids) are not generated; architecture derives them.
"""

from dataclasses import dataclass, field
from uuid import UUID

from metadata.domain import naming, stable_keys
from metadata.domain.history.history_policy import APPEND, HistoryPolicy
from metadata.domain.sources.clusters import MESSAGE_COLUMNS
from metadata.domain.sources.formats import DELTA, KAFKA, OP, TEXT_FORMATS
from metadata.domain.types import STRING, DataType

RAW, STAGE, RAWCORE = "raw", "stage", "rawcore"

# Formats that carry text only: raw keeps it as text, stage gives it a type.


@dataclass(frozen=True)
class SourceColumnSpec:
    """Source column that is loaded into the warehouse; ``key_ordinal`` is its position in the business key.

    ``target_name`` is the wanted name in stage and rawcore; if empty, the naming rules apply.
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
    """Source dataset as input of generation; ``name`` is the short name used in table names."""

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
    """Proposed target column; ``input`` is the stable key of the one column it reads."""

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
    """Proposed target dataset; ``input`` is the key of a source dataset for raw, else of a target dataset."""

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
    """Return raw, stage, rawcore and history of a source dataset, upstream first.

    Without a business key there is no rawcore, because it has one row per business key; unless rows are only appended.
    """
    raw = _raw(source)
    stage = _refined(source, STAGE, raw)
    if source.history_policy.input != APPEND and not any(column.key_ordinal for column in source.columns):
        return raw, stage
    rawcore = _refined(source, RAWCORE, stage)
    if not source.historize:
        return raw, stage, rawcore
    return raw, stage, rawcore, history_of(rawcore)


def history_of(base: GeneratedDataset) -> GeneratedDataset:
    return GeneratedDataset(
        stable_keys.history_dataset_key(base.key),
        base.layer,
        naming.history_name(base.name),
        (),
        base.key,
        history_of=base.key,
    )


def raw_type(source_format: str, declared: DataType) -> DataType:
    """Return the type of a raw column: text for text formats, so that values of a wrong type can be stored, too."""
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
                stable_keys.generated_column_key(RAW, column.key),
                free,
                raw_type(source.format, column.type),
                column.key,
                description=column.description,
                pii=column.pii,
                sensitivity=column.sensitivity,
            )
        )
    return GeneratedDataset(
        stable_keys.generated_dataset_key(RAW, source.key),
        RAW,
        name,
        tuple(columns),
        source.key,
        description=source.description,
    )


def _refined(source: SourceDatasetSpec, layer: str, upstream: GeneratedDataset) -> GeneratedDataset:
    """Return the stage or rawcore dataset: the source's columns with their types and target names."""
    names, stored = _names(source), layer == RAWCORE
    columns = tuple(
        GeneratedColumn(
            stable_keys.generated_column_key(layer, column.key),
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
        if not (stored and _is_of_message(column, source))
    )
    renamed = {column.name: names[column.key] for column in source.columns}
    return GeneratedDataset(
        stable_keys.generated_dataset_key(layer, source.key),
        layer,
        naming.generated_name(layer, source.system, source.name),
        columns,
        upstream.key,
        materialization="table" if stored else "view",
        historize=stored and source.historize,
        history_policy=source.history_policy.renamed(renamed) if stored else HistoryPolicy(),
        description=source.description,
    )


def _is_of_message(column: SourceColumnSpec, source: SourceDatasetSpec) -> bool:
    """Return True for a column that differs between two messages of one row, and so is no attribute of the row."""
    is_event = source.format == KAFKA or (source.format == DELTA and source.history_policy.op == OP)
    if not is_event or column.name not in MESSAGE_COLUMNS:
        return False
    return not column.key_ordinal and column.name != source.history_policy.time


def _names(source: SourceDatasetSpec) -> dict[UUID, str]:
    """Return the names of stage and rawcore columns by source column key; both layers use the same names."""
    reserved = naming.reserved_column_names(RAWCORE, naming.generated_name(RAWCORE, source.system, source.name))
    names = naming.target_names([(column.name, column.target_name) for column in source.columns], reserved)
    return {column.key: name for column, name in zip(source.columns, names, strict=True)}
