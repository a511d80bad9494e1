"""Checks of stage that the check of the delivery makes unnecessary."""

from collections.abc import Mapping

from loader.domain.runs.manifest import SourceSpec, StageInput
from metadata.domain.history_policy import HistoryPolicy
from metadata.domain.sql import quote_identifier
from metadata.domain.state import DatasetState


def keeps_times(dataset: DatasetState) -> bool:
    """Return whether the dataset has a history dated by a time column, so that one key may have several rows."""
    return dataset.historize and HistoryPolicy.from_dict(dataset.history_policy).time_column is not None


def delivery_checked(
    dataset: DatasetState,
    inputs: tuple[StageInput, ...],
    states: Mapping[str, DatasetState],
    sources: Mapping[str, SourceSpec],
) -> bool:
    """Return whether stage only passes on the rows of one checked delivery.

    Then every value is known to fit, no key is NULL and, unless rows carry their own time, there is one
    row per key: one input, every column as delivered and of the delivered type, the same business key.
    ``sources`` are by the stable key of the raw dataset they feed, as their deliveries are checked.
    """
    if len(inputs) != 1 or inputs[0].table.key not in sources:
        return False
    raw, source = states[inputs[0].table.key], sources[inputs[0].table.key]
    if not source.one_row_per_key and not keeps_times(dataset):
        return False
    by_key = {column.key: column for column in source.columns}
    delivered = {
        quote_identifier(column.name): by_key[key]
        for column in raw.active_columns
        for key in column.inputs
        if key in by_key
    }
    passed_on = {column.name: delivered.get(column.expression) for column in inputs[0].columns}
    if any(passed_on[c.name] is None or passed_on[c.name].type != c.type for c in inputs[0].columns):
        return False
    key = {passed_on[column.name].key for column in dataset.business_key}
    return bool(key) and key == {column.key for column in source.columns if column.business_key}
