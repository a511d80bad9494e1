"""Selection of small loads: pairs of a raw and a rawcore load that need no query (``loader.engine.arrow``).

This covers the manifest only. The runner adds what the tables must be like (``loader.engine.loads.small_loads``).
"""

from collections.abc import Iterator
from dataclasses import replace

from elevata.core.errors import MetadataError
from loader.contract.manifest.loads import LoadManifest, RawcoreLoad, RawLoad
from loader.contract.manifest.sources import SourceSpec
from metadata.domain.history.history_policy import DELTA, LOAD_TIME, NONE, SNAPSHOT, TOMBSTONE, HistoryPolicy
from metadata.domain.quality.unknown_parents import KEEP
from metadata.domain.sources.formats import CSV, PARQUET
from metadata.domain.sources.reading_options import ReadingOptions
from metadata.domain.sql import quote_identifier


def small_pairs(manifest: LoadManifest) -> Iterator[tuple[RawLoad, RawcoreLoad]]:
    """Yield raw loads of plain deliveries, each with the one rawcore load that passes its rows on.

    Nothing else reads the delivery, its rawcore load reads nothing else, and neither has quality checks.
    """
    if not manifest.small_rows:
        return
    readers: dict[str, list[RawcoreLoad]] = {}
    for load in manifest.rawcore:
        for upstream in {*load.depends_on, *(stage_input.table.key for stage_input in load.inputs)}:
            readers.setdefault(upstream, []).append(load)
    for raw in manifest.raw:
        reading = readers.get(raw.dataset, [])
        pending = raw.dataset not in manifest.already_done
        if pending and len(reading) == 1 and _is_plain_delivery(raw) and _passes_on(reading[0], raw):
            yield raw, reading[0]


def _is_plain_delivery(load: RawLoad) -> bool:
    return (
        not (load.feed or load.depends_on or load.quality)
        and load.source.one_row_per_key
        and delimiter_of(load.source) != ""
    )


def delimiter_of(source: SourceSpec) -> str:
    """Return the delimiter of plain CSV, a comma for Parquet, empty for any other source."""
    if source.format not in (CSV, PARQUET):
        return ""
    try:
        given, plain = ReadingOptions.of(source.format, source.options), ReadingOptions.of(source.format, {})
    except MetadataError:  # the general way refuses it
        return ""
    is_plain = given == replace(plain, delimiter=given.delimiter, faulty_rows=given.faulty_rows)
    return given.delimiter if is_plain and given.delimiter not in '"\r\n' else ""


def _passes_on(load: RawcoreLoad, raw: RawLoad) -> bool:
    policy = HistoryPolicy.from_dict(load.policy)
    names = {quote_identifier(here) for here, _ in raw.columns}
    return (
        load.delivery_checked
        and load.files is None
        and not load.quality
        and not load.children
        and all(key.rule == KEEP for key in load.foreign_keys)
        and set(load.depends_on) <= {raw.dataset}
        and _is_dated_by_load(policy)
        and len(load.inputs) == 1
        and not load.inputs[0].feed
        and not load.inputs[0].incremental
        and load.inputs[0].filter is None
        and all(column.expression in names for column in load.inputs[0].columns)
    )


def _is_dated_by_load(policy: HistoryPolicy) -> bool:
    """Return True for snapshots and deltas without tombstones, deletes to find or columns to update in place."""
    return (
        policy.input in (SNAPSHOT, DELTA)
        and policy.time == LOAD_TIME
        and policy.op is None
        and policy.delete_flag is None
        and policy.delete_detection == NONE
        and policy.deletes != TOMBSTONE
        and (policy.track is None or policy.untracked == "keep")
    )
