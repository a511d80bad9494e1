"""State machine of jobs as a table."""

import pytest

from elevata.jobs import states
from elevata.jobs.models import Job

TABLE = {
    "queued": {"running", "canceled", "failed", "blocked"},
    "running": {"succeeded", "failed", "blocked", "canceling", "lost"},
    "canceling": {"canceled", "succeeded", "failed", "lost"},
    "succeeded": set(),
    "failed": {"queued", "abandoned"},
    "blocked": {"queued"},
    "canceled": {"queued", "abandoned"},
    "lost": {"queued", "abandoned"},
    "abandoned": set(),
}


def test_job_states_have_exactly_the_listed_transitions():
    assert {state: set(following) for state, following in states.STEPS.items()} == TABLE


def test_the_table_and_the_model_know_the_same_states():
    assert set(states.STEPS) == set(Job.Status.values)


def test_every_state_is_held_waiting_restartable_or_ended():
    kinds = (states.HELD, {states.QUEUED}, states.RESTARTABLE, states.ENDED)
    assert sorted(state for kind in kinds for state in kind) == sorted(states.STEPS)
    assert set(states.may_become(states.QUEUED)) == states.RESTARTABLE
    assert states.FINISHED == states.RESTARTABLE | states.ENDED


def test_every_state_but_queued_is_reached_from_somewhere():
    for state in set(states.STEPS) - {"queued"}:
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
def test_a_requested_cancel_wins_unless_the_work_is_done(status, wanted, end):
    assert states.ends_as(status=status, wanted=wanted) == end
    assert end in states.STEPS[status]
