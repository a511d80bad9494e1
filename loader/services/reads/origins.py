"""Manifest of a read of a row's origin: the raw tables behind its dataset, and the components of its key."""

from architecture.domain.tables import TableSpec
from architecture.selectors.environments import described_states
from loader.domain.dependencies import tables_read
from loader.domain.historization.layers import entity_key_components
from loader.domain.historization.references import Feeds, fed_stage_inputs, sources_read
from loader.domain.manifest.loads import StageInput
from loader.domain.manifest.reads import ReadManifest
from loader.domain.queries.query_results import ORIGIN
from loader.domain.refusals import Refusal
from loader.models import ReadRequest
from loader.services.reads.read_permissions import must_read
from loader.services.sources.specs import source_datasets, source_spec
from metadata.domain.state import DatasetState
from metadata.models import TargetDataset


def origin_manifest(
    read: ReadRequest, state: DatasetState, table: TableSpec, *, timeout_seconds: float
) -> ReadManifest:
    """Return the manifest of a read of a row's origin. ``state`` is that of its rawcore dataset, ``table`` its table.

    Raise Refusal NO_RAW, or MetadataError ``not_permitted`` for raw tables that its user may not read.
    """
    inputs = _raw_inputs(read, state)
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
        arguments=dict(read.arguments),
        timeout_seconds=timeout_seconds,
        inputs=inputs,
        entity_key=entity_key_components(state),
    )


def _raw_inputs(read: ReadRequest, state: DatasetState) -> tuple[StageInput, ...]:
    if state.select:
        return ()  # A model reads tables with keys of their own.
    states = {item.key: item for item in described_states(environment=read.environment)}
    specs = {key: source_spec(source) for key, source in source_datasets(tables_read(state, states)).items()}
    no_feeds = Feeds()
    inputs = fed_stage_inputs(state, states, sources_read(state, states, specs, no_feeds), no_feeds)
    return tuple(item for item in inputs if item.table.kind == "raw")
