"""From metadata to manifests: everything the runner must know to load, looked up once."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db.models import Max, Prefetch

from architecture.domain.tables import TableSpec, history_table, raw_table, rawcore_table
from architecture.models import Environment
from architecture.selectors import desired_tables
from loader.domain.checked import delivery_checked
from loader.domain.dependencies import LoadStep, Scope, load_steps, tables_read
from loader.domain.layers import entity_key_components, row_hash_components
from loader.domain.manifest import (
    DeliveredColumn,
    ForeignKey,
    HashComponent,
    LoadManifest,
    RawcoreLoad,
    RawLoad,
    SourceSpec,
)
from loader.domain.refusals import Refusal
from loader.domain.stage import stage_inputs
from loader.models import DatasetRun, LoadRun
from metadata.domain.state import DatasetState
from metadata.models import SourceColumn, SourceDataset, System
from metadata.selectors import dataset_states

_DATA_DIR = re.compile(r"\{\{\s*data_dir\s*\}\}")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True)
class LoadPlan:
    """What a run loads, in order, seen once: metadata that is edited meanwhile changes nothing."""

    states: Mapping[str, DatasetState]
    steps: tuple[LoadStep, ...]

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """The tables this run writes or reads; all of them must be as described before it starts."""
        wanted = {step.dataset.key for step in self.steps}
        for step in self.steps:
            wanted.update(table.key for table in tables_read(step.dataset, self.states))
        chosen = sorted((self.states[key] for key in wanted), key=lambda state: (state.qualified_name, state.key))
        return desired_tables(chosen)


def plan_load(scope: Scope) -> LoadPlan:
    """The load plan of a scope. Refusal for a scope that names nothing, or inputs in a circle."""
    states = dataset_states()
    return LoadPlan({state.key: state for state in states}, load_steps(states, scope))


def load_manifest(*, run: LoadRun, plan: LoadPlan, rows: Mapping[str, DatasetRun]) -> LoadManifest:
    """One attempt of a run. ``rows`` are its dataset rows by key, with their sequences."""
    raw = [step for step in plan.steps if step.dataset.layer == "raw"]
    rawcore = [step for step in plan.steps if step.dataset.layer != "raw"]
    sources = source_datasets(plan.states.values())
    specs = {key: source_spec(source) for key, source in sources.items()}
    newest = newest_applied(environment=run.environment, but=run)
    return LoadManifest(
        run_id=run.run_id,
        load_timestamp=run.load_timestamp.isoformat(),
        attempt=run.attempt,
        raw=tuple(_raw_load(step, specs) for step in raw),
        rawcore=tuple(_rawcore_load(step, plan, specs, rows, newest) for step in rawcore),
        allow_empty=run.allow_empty,
        already_done=tuple(
            step.dataset.key for step in plan.steps if rows[step.dataset.key].status == DatasetRun.Status.SUCCEEDED
        ),
    )


def _raw_load(step: LoadStep, specs: Mapping[str, SourceSpec]) -> RawLoad:
    dataset = step.dataset
    source = source_of(dataset, specs)
    names = {column.key: column.name for column in source.columns}
    by_name = {column.name.lower(): column.name for column in source.columns}
    columns = []
    for column in dataset.active_columns:
        delivered = next((names[key] for key in column.inputs if key in names), by_name.get(column.name.lower()))
        if delivered is None:
            raise Refusal(
                "NO_INPUT",
                f"{dataset.qualified_name}.{column.name} comes from no column of {source.name}",
                hint="give the column an input in the metadata, or retire it",
            )
        columns.append((column.name, delivered))
    return RawLoad(
        dataset=dataset.key,
        name=dataset.qualified_name,
        table=raw_table(dataset),
        source=source,
        columns=tuple(columns),
        depends_on=step.depends_on,
    )


def source_of(raw: DatasetState, specs: Mapping[str, SourceSpec]) -> SourceSpec:
    """The one source behind a raw dataset."""
    found = [specs[key] for key in raw.inputs if key in specs]
    if len(found) != 1:
        raise Refusal(
            "NO_SOURCE",
            f"{raw.qualified_name} has {len(found)} active sources, a raw dataset needs exactly one",
            hint="correct its inputs in the metadata, or retire it",
        )
    return found[0]


def _rawcore_load(
    step: LoadStep,
    plan: LoadPlan,
    specs: Mapping[str, SourceSpec],
    rows: Mapping[str, DatasetRun],
    newest: Mapping[str, Any],
) -> RawcoreLoad:
    dataset = step.dataset
    applied = newest.get(dataset.key)
    sources = {
        table.key: specs[key] for table in tables_read(dataset, plan.states) for key in table.inputs if key in specs
    }
    options = {key: source.options for key, source in sources.items()}
    inputs = stage_inputs(dataset, plan.states, options)
    return RawcoreLoad(
        dataset=dataset.key,
        name=dataset.qualified_name,
        table=rawcore_table(dataset),
        history=history_table(dataset) if dataset.historize else None,
        inputs=inputs,
        delivery_checked=delivery_checked(dataset, inputs, plan.states, sources),
        entity_key=entity_key_components(dataset),
        row_hash=row_hash_components(dataset),
        foreign_keys=_foreign_keys(dataset),
        policy=dict(dataset.history_policy),
        sequence=rows[dataset.key].sequence or 0,
        newest_applied_at=applied.isoformat() if applied else None,
        depends_on=step.depends_on,
    )


def _foreign_keys(dataset: DatasetState) -> tuple[ForeignKey, ...]:
    """The parent's entity key, hashed from the child's columns under the parent's stable keys."""
    names = {column.key: column.name for column in dataset.active_columns}
    keys = []
    for reference in dataset.references:
        gone = [child for child, _ in reference.pairs if child not in names]
        if gone or not reference.pairs:
            raise Refusal(
                "BROKEN_REFERENCE",
                f"{dataset.qualified_name}.{reference.column_name} refers by a column that is not there",
                hint="correct the reference's column pairs in the metadata",
            )
        components = tuple(HashComponent(parent, names[child]) for child, parent in reference.pairs)
        keys.append(ForeignKey(reference.column_name, components))
    return tuple(keys)


def newest_applied(*, environment: Environment, but: LoadRun | None = None) -> dict[str, Any]:
    """Per dataset, the load timestamp of the newest run that succeeded on it, leaving one run out."""
    succeeded = DatasetRun.objects.filter(
        run__environment=environment, status=DatasetRun.Status.SUCCEEDED, sequence__isnull=False
    )
    if but is not None:
        succeeded = succeeded.exclude(run=but)
    found = succeeded.order_by().values_list("dataset_key").annotate(newest=Max("run__load_timestamp"))
    return {str(key): newest for key, newest in found}


def source_datasets(states: Iterable[DatasetState]) -> dict[str, SourceDataset]:
    """The active source datasets that these datasets name as inputs, by stable key."""
    wanted = {key for state in states for key in state.inputs}
    known = {state.key for state in states}
    found = (
        SourceDataset.objects.filter(key__in=wanted - known, active=True, system__active=True)
        .select_related("system")
        .prefetch_related(Prefetch("columns", SourceColumn.objects.filter(active=True).order_by("ordinal", "id")))
    )
    return {str(source.key): source for source in found}


def source_spec(source: SourceDataset) -> SourceSpec:
    """Where a delivery is and what it must look like."""
    if source.system.kind != System.Kind.FILES:
        raise Refusal(
            "SOURCE_KIND",
            f"{source}: only systems of files can be loaded, {source.system} is {source.system.get_kind_display()}",
        )
    return SourceSpec(
        name=str(source),
        location=source_location(source),
        format=source.format,
        columns=tuple(
            DeliveredColumn(
                key=str(column.key),
                name=column.name,
                type=str(column.type),
                nullable=column.nullable,
                business_key=column.key_ordinal is not None,
            )
            for column in source.columns.all()
        ),
        options=dict(source.options),
    )


def source_location(source: SourceDataset) -> str:
    """The dataset's place below its system's; absolute paths and URIs stand as they are.

    ``{{ data_dir }}`` is the data folder in force; what is relative lies below the project.
    """
    own, base = (_filled(text) for text in (source.location, source.system.location))
    if _is_absolute(own):
        return own
    place = f"{base.rstrip('/')}/{own}" if base else own
    return place if _is_absolute(place) else str(Path(settings.BASE_DIR) / place)


def _filled(text: str) -> str:
    return _DATA_DIR.sub(lambda _: str(settings.DATA_DIR), text.strip())


def _is_absolute(place: str) -> bool:
    return place.startswith("/") or _URI.match(place) is not None
