"""Manifests of reads from a row to the delivered rows of its key, and from a delivered row to what was made of it."""

from collections.abc import Mapping
from typing import Any

from architecture.domain.tables import TableSpec, current_table, history_table
from architecture.selectors.dataset_states import described_states
from loader.contract.manifest.loads import StageInput
from loader.contract.manifest.reads import Descendant, ReadManifest
from loader.contract.refusals import Refusal
from loader.domain.dependencies import tables_read
from loader.domain.historization.references import Feeds, fed_stage_inputs, sources_read
from loader.domain.historization.stage import entity_key_components
from loader.domain.queries.answers import DESCENDANTS, ORIGIN
from loader.models import ReadRequest
from loader.services.reads.read_permissions import masking_for, may_read, must_read
from loader.services.sources.specs import source_datasets, source_spec
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset


def origin_manifest(
    read: ReadRequest, state: DatasetState, table: TableSpec, arguments: dict[str, Any], *, timeout_seconds: float
) -> ReadManifest:
    """Return the manifest of a read of a row's origin. ``state`` is that of its rawcore dataset, ``table`` its table.

    Raise Refusal NO_RAW, or MetadataError ``not_permitted`` for raw tables that its user may not read.
    """
    states = {item.key: item for item in described_states(environment=read.environment)}
    inputs = _raw_inputs(state, states)
    if not inputs:
        raise Refusal(
            "NO_RAW",
            f"{state.qualified_name} reads no raw table",
            hint="The rows of its inputs have an origin of their own.",
        )
    for raw in TargetDataset.objects.filter(key__among={item.table.key for item in inputs}).select_related("schema"):
        must_read(read.requested_by, raw)
    return ReadManifest(
        ORIGIN,
        table=table,
        arguments=arguments,
        timeout_seconds=timeout_seconds,
        inputs=inputs,
        entity_key=entity_key_components(state),
    )


def _raw_inputs(state: DatasetState, states: Mapping[str, DatasetState]) -> tuple[StageInput, ...]:
    if state.select:
        return ()  # A model reads tables with keys of their own.
    specs = {key: source_spec(source) for key, source in source_datasets(tables_read(state, states)).items()}
    no_feeds = Feeds()
    inputs = fed_stage_inputs(state, states, sources_read(state, states, specs, no_feeds), no_feeds)
    return tuple(item for item in inputs if item.table.kind == "raw")


def descendants_manifest(
    read: ReadRequest, state: DatasetState, table: TableSpec, *, timeout_seconds: float
) -> ReadManifest:
    """Return the manifest of a read of what was made of a row of a raw table.

    Datasets that the user may not read are left out.
    """
    states = {item.key: item for item in described_states(environment=read.environment)}
    readers = [
        item
        for item in states.values()
        if item.active
        and item.materialization == "table"
        and item.business_key
        and not item.select
        and any(own.key == state.key for own in tables_read(item, states))
    ]
    rows = TargetDataset.objects.filter(history_of=None, schema__name__in={item.schema for item in readers})
    names = {str(row): row for row in rows.select_related("schema")}
    pairs = [(item, names[item.qualified_name]) for item in readers if item.qualified_name in names]
    user = read.requested_by
    return ReadManifest(
        DESCENDANTS,
        table=table,
        arguments=dict(read.arguments),
        timeout_seconds=timeout_seconds,
        descendants=tuple(
            _descendant(item, row, table, states, user) for item, row in pairs if user is None or may_read(user, row)
        ),
    )


def _descendant(
    state: DatasetState, row: TargetDataset, raw: TableSpec, states: Mapping[str, DatasetState], user: Any
) -> Descendant:
    table = history_table(state) if state.historize and state.history_key else current_table(state)
    masking = masking_for(user, row, table)
    key = table.column("entity_key").key
    inputs = tuple(item for item in _raw_inputs(state, states) if item.table.key == raw.key)
    is_hashed = masking is not None and key not in masking.shown
    return Descendant(table, inputs, entity_key_components(state), is_hashed)
