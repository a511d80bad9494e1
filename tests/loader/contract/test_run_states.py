"""States of a run's datasets as a table."""

import pytest

from loader.contract import run_states
from loader.models import DatasetRun, LoadRun


def test_state_transitions_cover_the_statuses_of_the_model():
    steps = run_states.DATASET_STEPS
    assert set(steps) == set(DatasetRun.Status.values)
    assert {target for following in steps.values() for target in following} <= set(steps)


@pytest.mark.parametrize("end", sorted(LoadRun.FINISHED - {"succeeded"}))
def test_unfinished_datasets_end_with_their_run(end):
    became = run_states.unfinished_becomes(end)
    assert set(became) == {"queued", "running"}
    assert all(after in run_states.DATASET_STEPS[before] for before, after in became.items())
