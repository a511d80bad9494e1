"""The state machines as tables."""

import pytest

from loader.domain.runs import run_states as states
from loader.models import DatasetRun, LoadRun, ReadRequest

RUN_TABLE = {
    "queued": {"running", "canceled"},
    "running": {"succeeded", "failed", "blocked", "canceling", "lost"},
    "canceling": {"canceled", "succeeded", "lost"},
    "succeeded": set(),
    "failed": {"queued"},
    "blocked": {"queued"},
    "canceled": {"queued"},
    "lost": {"queued"},
}


def test_a_run_goes_along_these_steps_and_no_others():
    assert {state: set(following) for state, following in states.RUN_STEPS.items()} == RUN_TABLE


@pytest.mark.parametrize(
    ("steps", "model"),
    [
        (states.RUN_STEPS, LoadRun),
        (states.DATASET_STEPS, DatasetRun),
        (states.READ_STEPS, ReadRequest),
    ],
)
def test_steps_and_models_know_the_same_states(steps, model):
    assert set(steps) == set(model.Status.values)
    assert {target for following in steps.values() for target in following} <= set(steps)


def test_what_a_run_may_be_restarted_from_is_what_the_model_says():
    assert set(states.may_become("queued")) == LoadRun.RESTARTABLE
    assert set(LoadRun.Status.values) == LoadRun.FINISHED | states.ACTIVE


def test_every_state_but_queued_is_reached_from_somewhere():
    for state in set(states.RUN_STEPS) - {"queued"}:
        assert states.may_become(state)


@pytest.mark.parametrize(
    ("status", "wanted", "end"),
    [
        ("running", "succeeded", "succeeded"),
        ("running", "failed", "failed"),
        ("running", "blocked", "blocked"),
        ("canceling", "blocked", "canceled"),
        ("canceling", "failed", "canceled"),
        ("canceling", "succeeded", "succeeded"),
    ],
)
def test_how_a_run_ends(status, wanted, end):
    assert states.ends_as(status=status, wanted=wanted) == end
    assert end in states.RUN_STEPS[status]


@pytest.mark.parametrize("end", sorted(LoadRun.FINISHED - {"succeeded"}))
def test_unfinished_datasets_end_with_their_run(end):
    became = states.unfinished_becomes(end)
    assert set(became) == {"queued", "running"}
    assert all(after in states.DATASET_STEPS[before] for before, after in became.items())
