"""Next step of a dataset, source, run, report or execution, without a database."""

from itertools import product

import pytest

from architecture.domain import report_states
from elevata.jobs import states
from loader.domain import next_steps
from loader.domain.next_steps import Facts, next_step

OPEN, APPROVED, BLOCKED = report_states.OPEN, report_states.APPROVED, report_states.BLOCKED


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (Facts(), "nothing"),
        (Facts(pending=2), "load"),
        (Facts(pending=2, undecided=1), "create_report"),
        (Facts(pending=2, undecided=2, blocked=1), "change_metadata"),
        (Facts(is_behind=True), "load"),
        (Facts(has_proposal=True, is_behind=True), "review_proposal"),
        (Facts(lacks_targets=True), "generate_targets"),
    ],
)
def test_step_of_changes_and_sources(facts: Facts, step: str):
    assert next_step(facts) == step


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (Facts(report=OPEN, missing=1, pending=1, undecided=1), "approve"),
        (Facts(report=OPEN), "create_preview"),
        (Facts(report=APPROVED, is_previewed=True), "execute"),
        (Facts(report=APPROVED, is_previewed=True, is_outdated=True), "create_report"),
        (Facts(report=BLOCKED), "change_metadata"),
        (Facts(report=BLOCKED, is_retirable=True), "retire_instead"),
        (Facts(report=BLOCKED, is_outdated=True), "create_report"),
        (Facts(report=report_states.REJECTED), "create_report"),
        (Facts(report=report_states.SUPERSEDED), "open_newer_report"),
        (Facts(report=report_states.NO_CHANGES), "nothing"),
    ],
)
def test_step_of_a_report(facts: Facts, step: str):
    assert next_step(facts) == step


@pytest.mark.parametrize(
    ("facts", "step"),
    [
        (Facts(report=APPROVED, execution=states.FAILED), "resume"),
        (Facts(report=APPROVED, execution=states.SUCCEEDED, is_behind=True), "load"),
        (Facts(report=APPROVED, execution=states.SUCCEEDED), "nothing"),
        (Facts(run=states.BLOCKED, is_unapproved=True), "approve_run"),
        (Facts(run=states.BLOCKED, pending=3, undecided=3), "create_report"),
        (Facts(run=states.BLOCKED, report=OPEN, missing=1), "approve"),
        (Facts(run=states.BLOCKED), "load_again"),
        (Facts(run=states.FAILED), "load_again"),
        (Facts(run=states.FAILED, has_rest=True), "load_the_rest"),
        (Facts(run=states.FAILED, has_proposal=True), "review_proposal"),
        (Facts(run=states.SUCCEEDED), "nothing"),
    ],
)
def test_step_of_executions_and_runs(facts: Facts, step: str):
    assert next_step(facts) == step


@pytest.mark.parametrize("status", sorted(states.ACTIVE))
def test_active_work_is_waited_for_before_anything_else(status: str):
    everything = {"report": OPEN, "pending": 1, "undecided": 1, "has_proposal": True, "is_behind": True}
    assert next_step(Facts(run=status, **everything)) == "wait"
    assert next_step(Facts(execution=status, **everything)) == "wait"


def test_every_combination_of_states_has_a_known_step():
    reports = ("", *report_states.REPORT_STEPS)
    jobs = ("", *states.STEPS)
    for report, execution, run, flag in product(reports, jobs, jobs, (False, True)):
        facts = Facts(report=report, execution=execution, run=run, is_outdated=flag, is_previewed=flag, is_behind=flag)
        assert next_step(facts) in next_steps.STEPS
