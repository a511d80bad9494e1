"""Described metadata: systems, source datasets, generated targets, marts, references.

Rows are inserted in bulk without the services, so that thousands take seconds; names, keys and layers come
from the same rules as in the services.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from django.db import models

from bench.web.size import Size
from bench.web.words import SYSTEMS, attributes, entities
from metadata.domain import stable_keys
from metadata.domain.generation import GeneratedDataset, SourceColumnSpec, SourceDatasetSpec, generate
from metadata.domain.types import parse
from metadata.models import (
    ColumnInput,
    DatasetInput,
    Exposure,
    Reference,
    ReferencePair,
    SourceColumn,
    SourceDataset,
    System,
    TargetColumn,
    TargetDataset,
    TargetSchema,
)

Row = TypeVar("Row", bound=models.Model)
_BATCH = 2000
# Every so many datasets refer to the first one, as most refer to a calendar or a country.
_TO_THE_HUB = 3
_FED_BY = 3


def stored(rows: Iterable[Row]) -> list[Row]:
    """Insert new rows of one model and return them."""
    made = list(rows)
    return type(made[0]).objects.bulk_create(made, batch_size=_BATCH) if made else []


@dataclass
class Described:
    """Generated datasets; ``rawcore`` is in the order of the sources, and its first dataset is the hub."""

    sources: list[SourceDataset] = field(default_factory=list)
    targets: list[TargetDataset] = field(default_factory=list)
    columns: dict[int, list[TargetColumn]] = field(default_factory=dict)

    def of_layer(self, layer: str) -> list[TargetDataset]:
        return [row for row in self.targets if row.schema.layer == layer and row.history_of_id is None]


def describe(size: Size) -> Described:
    """Write all metadata."""
    random = Random(size.seed)
    made = Described()
    schemas = _schemas()
    specs = _sources(size, random, made)
    for layer in ("raw", "stage", "rawcore"):
        _generated(layer, schemas[layer], specs, made)
    _histories(specs, made)
    _references(made)
    _marts(schemas["bizcore"], made.of_layer("rawcore"), size.marts - size.marts // 2, size.columns, made)
    _marts(schemas["serving"], made.of_layer("bizcore"), size.marts // 2, size.columns, made)
    return made


def _schemas() -> dict[str, TargetSchema]:
    layers = enumerate(TargetSchema.Layer.values, start=1)
    rows = stored(TargetSchema(name=layer, layer=layer, ordinal=ordinal) for ordinal, layer in layers)
    return {row.name: row for row in rows}


# --- sources -----------------------------------------------------------------------------------


def _sources(size: Size, random: Random, made: Described) -> list[SourceDatasetSpec]:
    shorts = SYSTEMS[: max(1, min(len(SYSTEMS), size.sources // 3))]
    systems = stored(
        System(short_name=short, name=f"{short.upper()} system", location=f"{{{{ data_dir }}}}/landing/{short}")
        for short in shorts
    )
    names = entities(size.sources)
    made.sources = stored(
        SourceDataset(
            system=systems[number % len(systems)],
            key=stable_keys.source_dataset_key(systems[number % len(systems)].short_name, name),
            name=name,
            short_name=name,
            location=f"{name}.parquet",
            format="parquet" if number % 4 else "csv",
            description=f"Every {name.replace('_', ' ')} as {systems[number % len(systems)].name} delivers it.",
            owner=random.choice(("sales", "finance", "logistics", "")),
        )
        for number, name in enumerate(names)
    )
    columns = stored(column for number in range(size.sources) for column in _delivered(number, made, size, random))
    of: dict[int, list[SourceColumn]] = {}
    for column in columns:
        of.setdefault(column.dataset_id, []).append(column)
    return [_spec(source, of[source.pk]) for source in made.sources]


def _delivered(number: int, made: Described, size: Size, random: Random) -> Iterator[SourceColumn]:
    """Yield a source's columns: key, references, attributes."""
    source = made.sources[number]
    parents = [made.sources[parent].name for parent in _parents(number)]
    described = [(f"{source.name}_id", "string(20)"), *((f"{parent}_id", "string(20)") for parent in parents)]
    described += attributes(size.columns - len(described))
    for ordinal, (name, type_) in enumerate(described, start=1):
        column = SourceColumn(
            dataset=source,
            key=stable_keys.source_column_key(source.key, name),
            name=name,
            ordinal=ordinal,
            key_ordinal=1 if ordinal == 1 else None,
            nullable=ordinal > 1,
            pii=name == "name" and number % 5 == 0,
            description=f"{name.replace('_', ' ').capitalize()}." if random.random() < 0.3 else "",
        )
        column.type = parse(type_)
        yield column


def _parents(number: int) -> tuple[int, ...]:
    """Return the datasets that one refers to: the previous one in its group, and sometimes the hub."""
    near = (number - 1,) if number % 6 > 1 else ()
    hub = (0,) if number > 1 and number % _TO_THE_HUB == 1 and 0 not in near else ()
    return near + hub


def _spec(source: SourceDataset, columns: list[SourceColumn]) -> SourceDatasetSpec:
    described = tuple(
        SourceColumnSpec(
            column.key, column.name, column.type, column.nullable, column.key_ordinal, column.description, column.pii
        )
        for column in columns
    )
    system = source.system.short_name
    return SourceDatasetSpec(source.key, system, source.short_name, source.format, described)


# --- what generation makes ---------------------------------------------------------------------


def _generated(layer: str, schema: TargetSchema, specs: list[SourceDatasetSpec], made: Described) -> None:
    """Write one layer of every source, with the lineage of its datasets and columns."""
    wanted = [next(dataset for dataset in generate(spec) if dataset.layer == layer) for spec in specs]
    below: dict[UUID, Any] = {row.key: row for row in (*made.sources, *made.targets)}
    rows = stored(
        TargetDataset(
            schema=schema,
            key=dataset.key,
            name=dataset.name,
            materialization=dataset.materialization,
            historize=dataset.historize,
            history_policy=dataset.history_policy.to_dict(),
            description=source.description,
            owner=source.owner,
            tags=["core"] if number % 7 == 0 else [],
            generated_from=source,
        )
        for number, (dataset, source) in enumerate(zip(wanted, made.sources, strict=True))
    )
    inputs = stored(_input(row, below[dataset.input]) for row, dataset in zip(rows, wanted, strict=True))
    _columns(list(zip(rows, wanted, inputs, strict=True)), made)


def _input(dataset: TargetDataset, read: SourceDataset | TargetDataset, ordinal: int = 1) -> DatasetInput:
    reads = {"source": read} if isinstance(read, SourceDataset) else {"upstream": read}
    return DatasetInput(dataset=dataset, ordinal=ordinal, **reads)


def _columns(generated: list[tuple[TargetDataset, GeneratedDataset, DatasetInput]], made: Described) -> None:
    rows = stored(
        _column(dataset, ordinal, column)
        for dataset, wanted, _ in generated
        for ordinal, column in enumerate(wanted.columns, start=1)
    )
    known: dict[UUID, Any] = {column.key: column for columns in made.columns.values() for column in columns}
    if not known:
        known = {column.key: column for column in SourceColumn.objects.all()}
    read = iter(rows)
    stored(
        _column_input(next(read), one_input, known[column.input])
        for _, wanted, one_input in generated
        for column in wanted.columns
    )
    _remember(made, (dataset for dataset, *_ in generated), rows)


def _column(dataset: TargetDataset, ordinal: int, column: Any) -> TargetColumn:
    row = TargetColumn(
        dataset=dataset,
        key=column.key,
        name=column.name,
        ordinal=ordinal,
        nullable=column.nullable,
        role=column.role,
        key_ordinal=column.key_ordinal,
        description=column.description,
        pii=column.pii,
    )
    row.type = column.type
    return row


def _column_input(column: TargetColumn, one_input: DatasetInput, read: SourceColumn | TargetColumn) -> ColumnInput:
    reads = {"source_column": read} if isinstance(read, SourceColumn) else {"upstream_column": read}
    return ColumnInput(column=column, dataset_input=one_input, **reads)


def _remember(made: Described, datasets: Iterable[TargetDataset], columns: Iterable[TargetColumn]) -> None:
    for dataset in datasets:
        made.targets.append(dataset)
        made.columns[dataset.pk] = []
    for column in columns:
        made.columns[column.dataset_id].append(column)


def _histories(specs: list[SourceDatasetSpec], made: Described) -> None:
    bases = {row.key: row for row in made.of_layer("rawcore")}
    histories = [dataset for spec in specs for dataset in generate(spec) if dataset.history_of is not None]
    made.targets += stored(
        TargetDataset(
            schema=bases[history.history_of].schema,
            key=history.key,
            name=history.name,
            history_of=bases[history.history_of],
            generated_from=bases[history.history_of].generated_from,
        )
        for history in histories
    )


# --- references --------------------------------------------------------------------------------


def _references(made: Described) -> None:
    rawcore = made.of_layer("rawcore")
    wanted = [(rawcore[number], rawcore[parent]) for number in range(len(rawcore)) for parent in _parents(number)]
    rows = stored(
        Reference(child=child, parent=parent, key=stable_keys.reference_key(child.key, parent.key, ""))
        for child, parent in wanted
    )
    stored(
        ReferencePair(reference=row, child_column=_named(made, child, parent), parent_column=made.columns[parent.pk][0])
        for row, (child, parent) in zip(rows, wanted, strict=True)
    )


def _named(made: Described, child: TargetDataset, parent: TargetDataset) -> TargetColumn:
    """Return the column of the child that holds the parent's key."""
    wanted = made.columns[parent.pk][0].name
    return next(column for column in made.columns[child.pk] if column.name == wanted)


# --- marts -------------------------------------------------------------------------------------


def _marts(schema: TargetSchema, below: list[TargetDataset], count: int, columns: int, made: Described) -> None:
    """Write views over some datasets of the layer below, with columns of each; those of serving are contracts."""
    prefix = {"bizcore": "biz", "serving": "srv"}[schema.layer]
    names = [f"{prefix}_{name}_{'profile' if number % 2 else 'facts'}" for number, name in enumerate(entities(count))]
    rows = stored(
        TargetDataset(
            schema=schema,
            key=stable_keys.target_dataset_key(schema.name, name),
            name=name,
            materialization="view",
            description=f"{name.replace('_', ' ')} for reports",
            owner="finance",
            contract=schema.layer == TargetSchema.Layer.SERVING,
        )
        for name in names
    )
    stored(_dashboard(row) for row in rows if row.contract)
    fed = [[below[(number * _FED_BY + step * 2) % len(below)] for step in range(_FED_BY)] for number in range(count)]
    fed = [list(dict.fromkeys(some)) for some in fed]
    inputs = stored(
        _input(row, upstream, ordinal)
        for row, some in zip(rows, fed, strict=True)
        for ordinal, upstream in enumerate(some, start=1)
    )
    by_row: dict[int, list[DatasetInput]] = {}
    for item in inputs:
        by_row.setdefault(item.dataset_id, []).append(item)
    read = [pair for row in rows for pair in _read(by_row[row.pk], columns, made)]
    made_columns = stored(_mart_column(one_input.dataset, number, column) for one_input, number, column in read)
    stored(
        _column_input(column, one_input, upstream)
        for column, (one_input, _, upstream) in zip(made_columns, read, strict=True)
    )
    _remember(made, rows, made_columns)


def _dashboard(row: TargetDataset) -> Exposure:
    link = f"https://bi.example.org/{row.name}"
    key = stable_keys.exposure_key(row.key, row.name)
    return Exposure(dataset=row, key=key, name=row.name, kind="dashboard", owner="finance", link=link)


def _read(
    inputs: list[DatasetInput], columns: int, made: Described
) -> Iterator[tuple[DatasetInput, int, TargetColumn]]:
    for number in range(columns):
        item = inputs[number % len(inputs)]
        known = made.columns[item.upstream_id]
        yield item, number + 1, known[number // len(inputs) % len(known)]


def _mart_column(dataset: TargetDataset, ordinal: int, read: TargetColumn) -> TargetColumn:
    name = f"{read.name[:60]}_{ordinal}"
    row = TargetColumn(
        dataset=dataset, key=stable_keys.target_column_key(dataset.key, name), name=name, ordinal=ordinal, pii=read.pii
    )
    row.type = read.type
    return row
