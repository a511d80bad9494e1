"""Guards of four eyes: the proof notices each one that is taken out of the product."""

from collections.abc import Callable

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from architecture.domain import decisions
from architecture.domain.planning import logic, plan, row_rules
from architecture.permissions import who_answers
from architecture.services import executions
from loader.services.loads import load_runs
from loader.services.maintenance import approvals, runs
from tests.architecture.services.four_eyes.judge import Broken
from tests.architecture.services.four_eyes.test_property import BY_DAY, FourEyes, make_shop, own_heads, settings_for

__all__ = ["own_heads"]

pytestmark = [pytest.mark.django_db, pytest.mark.embedded_only]


def without_authors(patch: pytest.MonkeyPatch) -> None:
    """Let the authors of a change approve it."""
    refuse, approvers = decisions.refuse_decision, decisions.approvers
    patch.setattr(decisions, "refuse_decision", lambda **asked: refuse(**asked | {"authors": ()}))
    patch.setattr(decisions, "approvers", lambda decided, **asked: approvers(decided, **asked | {"authors": ()}))


def without_downstream(patch: pytest.MonkeyPatch) -> None:
    """Let no change reach a history further down."""
    patch.setattr(plan, "carried_downstream", lambda drafts, same, downstream: drafts)


def without_comparison(patch: pytest.MonkeyPatch) -> None:
    """Let no change of logic make a history compare differently."""
    moved = logic.Moved.and_
    patch.setattr(
        logic.Moved,
        "and_",
        lambda self, what, *, compares, alters=None: moved(
            self, what, compares=False, alters=compares if alters is None else alters
        ),
    )


def without_checks(patch: pytest.MonkeyPatch) -> None:
    """Let checks keep rows out of histories unseen."""
    patch.setattr(row_rules, "_are_same_checks", lambda before, after, names: True)


def without_sources(patch: pytest.MonkeyPatch) -> None:
    """Let choices of sources keep rows out of histories unseen."""
    patch.setattr(row_rules, "_changed_choices", lambda before, after: [])


def without_approvals(patch: pytest.MonkeyPatch) -> None:
    """Let maintenance runs need no approval."""
    for module in (load_runs, runs):
        patch.setattr(module, "refuse_unapproved", lambda run: None)


def without_requesters(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the maintenance runs that they requested."""
    patch.setattr(approvals, "requesters", lambda run: frozenset())


def without_repeaters(patch: pytest.MonkeyPatch) -> None:
    """Let users approve the maintenance runs that they repeated."""
    patch.setattr(approvals, "requesters", lambda run: frozenset({who_answers(run.requested_by)}))


def without_repetitions(patch: pytest.MonkeyPatch) -> None:
    """Let approvals of a maintenance run count when it is repeated after its end."""
    patch.setattr(load_runs, "next_repetition", lambda run: {})


def without_environment_of_reports(patch: pytest.MonkeyPatch) -> None:
    """Let reports be executed in the installation of another environment."""
    patch.setattr(executions, "refuse_elsewhere", lambda environment, subject: None)


def without_environment_of_approvals(patch: pytest.MonkeyPatch) -> None:
    """Let maintenance runs be approved in the installation of another environment."""
    patch.setattr(approvals, "refuse_elsewhere", lambda environment, subject: None)


def without_environment_of_runs(patch: pytest.MonkeyPatch) -> None:
    """Let runs be repeated in the installation of another environment."""
    patch.setattr(load_runs, "refuse_elsewhere", lambda environment, subject: None)


GUARDS = [without_authors, without_downstream, without_comparison, without_checks, without_sources]
GUARDS += [without_approvals, without_requesters, without_repeaters, without_repetitions]
GUARDS += [without_environment_of_reports, without_environment_of_approvals, without_environment_of_runs]


@pytest.mark.nightly
@pytest.mark.takes(seconds=60)
@pytest.mark.usefixtures("own_heads")
@pytest.mark.parametrize("take_out", GUARDS)
def test_property_test_fails_without_each_guard(take_out: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    make_shop()
    take_out(monkeypatch)
    unshrunk = settings(settings_for(BY_DAY), max_examples=100, phases=[Phase.generate])
    with pytest.raises(Broken):
        run_state_machine_as_test(FourEyes, settings=unshrunk)
