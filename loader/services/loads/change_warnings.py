"""Warnings of the changes that a load executes without a report."""

from architecture.services.automatic_changes import Pending
from metadata.domain.history.history_policy import HistoryPolicy
from metadata.domain.state import DatasetState


def warnings_of(pending: Pending) -> dict[str, list[str]]:
    """Return the warnings of pending changes by the dataset's stable key.

    Raw tables and complete deliveries are left out: the same load writes every row that stays.
    """
    keeping = {state.qualified_name: state.key for state in pending.basis.desired if _keeps_rows(state)}
    by_dataset: dict[str, list[str]] = {}
    for warning in pending.warnings:
        if warning.dataset in keeping:
            by_dataset.setdefault(keeping[warning.dataset], []).append(warning.message)
    return by_dataset


def _keeps_rows(state: DatasetState) -> bool:
    return state.layer == "rawcore" and not HistoryPolicy.from_dict(state.history_choices).closes_absent
