"""Stage as SQL: inputs for the runner, components of its hashes, and checks that are unnecessary."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from architecture.domain.tables import TableSpec, current_table, raw_table, rawcore_table
from architecture.domain.views import Branch, view_branches
from elevata.core.errors import MetadataError
from loader.contract.manifest.loads import HashComponent, StageColumn, StageInput
from loader.contract.manifest.sources import DeliveredColumn, SourceSpec
from loader.contract.refusals import Refusal
from metadata.domain.history.history_policy import APPEND, HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.state import DatasetState


def stage_inputs(
    rawcore: DatasetState, by_key: Mapping[str, DatasetState], options: Mapping[str, dict[str, Any]] | None = None
) -> tuple[StageInput, ...]:
    """Return the inputs of a rawcore dataset for the runner: one for each table that it reads.

    ``options`` are the reading options of a raw table's source, by the table's key. Raise Refusal NO_INPUT for a
    dataset without inputs.
    """
    inputs = tuple(_stage_input(rawcore, branch, options or {}) for branch in branches_of(rawcore, by_key))
    if not inputs:
        raise Refusal(
            "NO_INPUT",
            f"{rawcore.qualified_name} has no input that is a table or a view over tables",
            hint="give it an input in the metadata, or retire it",
        )
    return inputs


def view_inputs(
    view: DatasetState, by_key: Mapping[str, DatasetState], options: Mapping[str, dict[str, Any]]
) -> tuple[StageInput, ...]:
    """Return the tables that a view with described columns reads, with its columns. Raise Refusal UNKNOWN_INPUT."""
    return tuple(
        StageInput(
            current_table(branch.table),
            tuple(StageColumn(column.name, column.type, branch.columns[column.key]) for column in view.active_columns),
            _all_of(branch.conditions),
            options.get(branch.table.key, {}),
        )
        for branch in branches_of(view, by_key)
    )


def raw_names(raw: DatasetState, columns: Sequence[DeliveredColumn]) -> dict[str, DeliveredColumn]:
    """Return the delivered columns by the names that they have in the raw table, in its order."""
    by_key = {column.key: column for column in columns}
    by_name = {column.name.lower(): column for column in columns}
    delivered = {
        column.name: next((by_key[key] for key in column.inputs if key in by_key), by_name.get(column.name.lower()))
        for column in raw.active_columns
    }
    return {name: column for name, column in delivered.items() if column is not None}


def ranked_inputs(
    rawcore: DatasetState, inputs: Iterable[StageInput], sources: Mapping[str, str]
) -> tuple[StageInput, ...]:
    """Return the inputs with the rank of their sources by the dataset's policy.

    ``sources`` are the names of the sources behind raw tables, by the table's key. Raise Refusal BAD_RANK unless the
    policy ranks exactly these sources.
    """
    rank, inputs = HistoryPolicy.from_dict(rawcore.history_policy).rank, tuple(inputs)
    if rank is None:
        return inputs
    names = [sources.get(stage_input.table.key, stage_input.table.qualified_name) for stage_input in inputs]
    wrong = sorted(set(names) ^ set(rank))
    if wrong:
        message = "is not among its inputs" if wrong[0] in rank else "has no rank"
        raise Refusal(
            "BAD_RANK",
            f"{rawcore.qualified_name}: the source {wrong[0]} {message}",
            hint=f"The history policy's rank names its inputs, best first: {', '.join(sorted(names))}.",
        )
    return tuple(replace(stage_input, rank=rank.index(name)) for stage_input, name in zip(inputs, names, strict=True))


def branches_of(reader: DatasetState, by_key: Mapping[str, DatasetState]) -> list[Branch]:
    """Return the reader's columns over each table that it reads. Raise Refusal UNKNOWN_INPUT."""
    try:
        return view_branches(reader, by_key)
    except MetadataError as problem:
        raise Refusal(problem.code, problem.one_line()) from problem


def _stage_input(rawcore: DatasetState, branch: Branch, options: Mapping[str, dict[str, Any]]) -> StageInput:
    columns = tuple(
        StageColumn(column.name, column.type, branch.columns[column.key])
        for column in (*rawcore.business_key, *rawcore.attributes)
    )
    known = {column.name for column in columns}
    for name, type_ in HistoryPolicy.from_dict(rawcore.history_policy).delivered_only.items():
        if name not in known:
            columns += (StageColumn(name, type_, quote_identifier(name)),)
    return StageInput(_table(branch.table), columns, _all_of(branch.conditions), options.get(branch.table.key, {}))


def _table(dataset: DatasetState) -> TableSpec:
    return raw_table(dataset) if dataset.layer == "raw" else rawcore_table(dataset)


def _all_of(conditions: tuple[str, ...]) -> str | None:
    if len(conditions) <= 1:
        return conditions[0] if conditions else None
    return " AND ".join(f"({condition})" for condition in conditions)


# Checks of stage that are unnecessary after the check of the delivery.
def keeps_times(dataset: DatasetState) -> bool:
    """Return True if rows have a time of their own that the load honours, so that one key may have several rows."""
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    return policy.keeps_events(historize=dataset.historize)


def delivery_checked(
    dataset: DatasetState,
    inputs: tuple[StageInput, ...],
    states: Mapping[str, DatasetState],
    sources: Mapping[str, SourceSpec],
) -> bool:
    """Return True if stage has exactly the rows of one checked delivery.

    There is one input, with every column as delivered and of the delivered type, and the same business key. So all
    values fit, no key is NULL and, unless rows have their own time or no key, there is one row per key. ``sources`` are
    by the stable key of their raw dataset, with the declarations by which deliveries are checked.
    """
    if len(inputs) != 1 or inputs[0].table.key not in sources:
        return False
    raw, source = states[inputs[0].table.key], sources[inputs[0].table.key]
    if dataset.business_key and not source.one_row_per_key and not keeps_times(dataset):
        return False
    by_key = {column.key: column for column in source.columns}
    delivered = {
        quote_identifier(column.name): by_key[key]
        for column in raw.active_columns
        for key in column.inputs
        if key in by_key
    }
    passed_on = {
        column.name: now for column in inputs[0].columns if (now := delivered.get(column.expression)) is not None
    }
    if any(c.name not in passed_on or passed_on[c.name].type != c.type for c in inputs[0].columns):
        return False
    key = {passed_on[column.name].key for column in dataset.business_key}
    if not key:
        return HistoryPolicy.from_dict(dataset.history_policy).input == APPEND
    return key == {column.key for column in source.columns if column.business_key}


def entity_key_components(dataset: DatasetState) -> tuple[HashComponent, ...]:
    """Return the hash components of a dataset's entity key: the columns of its business key."""
    return tuple(HashComponent(column.key, column.name) for column in dataset.business_key)


def row_hash_components(dataset: DatasetState) -> tuple[HashComponent, ...]:
    """Return the hash components of a row hash: tracked attributes, never the time or the operation (rule 12)."""
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    return tuple(
        HashComponent(column.key, column.name)
        for column in dataset.attributes
        if column.name not in policy.uncompared and (policy.track is None or column.name in policy.track)
    )
