"""Delete detection of a dataset: the source of its key list, and the column of its read window.

Both are found before a run, from the metadata. ``loader.domain.reference.detection`` has the rules for the keys that
are closed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from elevata.core.errors import MetadataError
from loader.contract.manifest.loads import StageInput
from loader.contract.manifest.sources import SourceSpec
from loader.contract.refusals import Refusal
from loader.domain.historization.stage import raw_names
from metadata.domain.history.history_policy import NONE, WINDOW, HistoryPolicy
from metadata.domain.sources.intake import Intake
from metadata.domain.sources.option_kinds import FAULTY_ROWS
from metadata.domain.sql import check_expression, quote_identifier
from metadata.domain.state import DatasetState

# Options for the rows of a delivery, which a key list does not have.
_OF_ROWS = (
    *("deduplicate", "order_by", FAULTY_ROWS, "expected_files", "changed_files"),
    *("incremental_parameter", "ignored_columns"),
)


def key_list_source(source: SourceSpec) -> SourceSpec:
    """Return the source of the keys of all rows: its key columns, at the place of the key list if that is another."""
    place = Intake.from_dict(source.intake).key_list
    return replace(
        source,
        name=f"key list of {source.name}",
        location=place or source.location,
        columns=tuple(column for column in source.columns if column.business_key),
        options={name: value for name, value in source.options.items() if name not in _OF_ROWS},
        one_row_per_key=True,
        intake={},
    )


def detecting_inputs(
    dataset: DatasetState,
    inputs: tuple[StageInput, ...],
    states: Mapping[str, DatasetState],
    sources: Mapping[str, SourceSpec],
) -> tuple[StageInput, ...]:
    """Return the inputs of a dataset with the column of the read window.

    ``sources`` are by the key of the raw table. Raise Refusal BAD_DETECTION if the input does not show which keys were
    deleted.
    """
    policy = HistoryPolicy.from_dict(dataset.history_policy)
    if policy.delete_detection == NONE:
        return inputs
    if len(inputs) != 1 or inputs[0].table.key not in sources:
        _refuse(dataset, "needs one source, whose raw table is the dataset's only input")
    (stage_input,) = inputs
    raw, source = states[stage_input.table.key], sources[stage_input.table.key]
    try:
        Intake.from_dict(source.intake).check_detection(policy, source.format)
    except MetadataError as problem:
        _refuse(dataset, f"does not fit {source.name}: its {problem.field} {problem.message}")
    if policy.delete_detection == WINDOW:
        return (replace(stage_input, window=_window_column(dataset, stage_input, raw, source)),)
    _check_key_columns(dataset, stage_input, raw, source)
    return inputs


def _window_column(dataset: DatasetState, stage_input: StageInput, raw: DatasetState, source: SourceSpec) -> str:
    """Return the column of the dataset that has the watermark's values unchanged. Raise Refusal BAD_DETECTION."""
    (watermark,) = Intake.from_dict(source.intake).watermark
    delivered = {quote_identifier(name): column for name, column in raw_names(raw, source.columns).items()}
    own = {column.name for column in dataset.active_columns}
    for column in stage_input.columns:
        known = delivered.get(column.expression)
        if column.name in own and known is not None and known.name == watermark and known.type == column.type:
            return column.name
    _refuse(dataset, f"needs a column with the unchanged values of {source.name}.{watermark}, its watermark")


def _check_key_columns(dataset: DatasetState, stage_input: StageInput, raw: DatasetState, source: SourceSpec) -> None:
    """Raise Refusal BAD_DETECTION for a business key that needs other columns than the source's business key."""
    listed = {name.lower() for name, column in raw_names(raw, source.columns).items() if column.business_key}
    keys = {column.name for column in dataset.business_key}
    for column in stage_input.columns:
        if column.name in keys:
            others = [name for name in check_expression(column.expression) if name.lower() not in listed]
            if others:
                _refuse(
                    dataset, f"cannot compute {column.name} from a key list: {others[0]} is no key of {source.name}"
                )


def _refuse(dataset: DatasetState, message: str) -> NoReturn:
    raise Refusal(
        "BAD_DETECTION",
        f"{dataset.qualified_name}: delete_detection {message}",
        hint="Correct the source or the dataset, or switch delete_detection off in the history policy.",
    )
