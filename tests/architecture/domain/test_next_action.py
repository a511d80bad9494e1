"""Next action that a report requests from a user: the rule of the inbox."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from architecture.domain import decisions, report_states
from architecture.domain.decisions import Decided, Need
from architecture.domain.next_action import (
    ASKS,
    DECIDE,
    EXECUTE,
    FOLLOW,
    OTHERS,
    RENEW,
    REPAIR,
    RESUME,
    Facts,
    UserRights,
    asked_of,
)
from elevata.jobs import states

ADA = UserRights(1, "ada", may_approve=False, may_execute=False)
BOB = UserRights(2, "bob", may_approve=True, may_execute=False, roles=frozenset({"approver"}))
OLGA = UserRights(3, "olga", may_approve=False, may_execute=True)
VERA = UserRights(4, "vera", may_approve=False, may_execute=False)
EVERYBODY = (ADA, BOB, OLGA, VERA)
PRINT = "a" * 64


def facts(status: str = report_states.OPEN, need: int = 1, **fields: Any) -> Facts:
    """Return a report that Ada created and whose changes she wrote."""
    known = {"authors": frozenset({"ada"}), "made_by": ADA.pk} | fields
    return Facts(status=status, fingerprint=PRINT, need=Need(need), **known)


def yes(*names: str) -> tuple[Decided, ...]:
    return tuple(Decided(name, decisions.YES, PRINT, ("approver",)) for name in names)


def asks(of: Facts) -> dict[str, str]:
    return {person.name: ask for person in EVERYBODY if (ask := asked_of(of, person))}


def test_an_open_report_asks_those_who_may_approve_it():
    assert asks(facts()) == {"bob": DECIDE, "ada": OTHERS}


def test_author_with_the_approve_permission_waits_for_others():
    ada = replace(ADA, may_approve=True)
    assert asked_of(facts(), ada) == OTHERS


def test_user_who_decided_has_no_further_action():
    assert asks(facts(need=2, decided=yes("bob"))) == {"ada": OTHERS}


def test_approver_without_the_required_role_has_no_action():
    needed = replace(facts(), need=Need(1, "admin"))
    assert asked_of(needed, BOB) == ""
    assert asked_of(needed, replace(BOB, roles=frozenset({"admin"}))) == DECIDE
    assert asked_of(replace(facts(), need=Need(1, "steward")), replace(BOB, roles=frozenset({"admin"}))) == DECIDE


def test_an_approved_report_asks_those_who_may_execute_it():
    assert asks(facts(report_states.APPROVED, decided=yes("bob"))) == {"olga": EXECUTE, "ada": OTHERS}


def test_report_that_needs_no_approval_asks_for_execution():
    assert asks(facts(need=0)) == {"olga": EXECUTE, "ada": OTHERS}


def test_approver_is_not_asked_to_execute_if_the_policy_forbids_it():
    bob = replace(BOB, may_execute=True)
    approved = facts(report_states.APPROVED, decided=yes("bob"))
    assert asked_of(approved, bob) == EXECUTE
    assert asked_of(replace(approved, approver_may_execute=False), bob) == ""


@pytest.mark.parametrize("state", sorted(states.RESTARTABLE))
def test_stopped_execution_asks_operators_to_resume_it(state: str):
    stopped = facts(report_states.APPROVED, decided=yes("bob"), execution=state)
    assert asks(stopped) == {"olga": RESUME, "ada": OTHERS}


def test_stopped_execution_of_an_outdated_report_asks_for_resuming():
    stopped = facts(report_states.APPROVED, decided=yes("bob"), execution=states.FAILED, stale="TABLE_MOVED")
    assert asked_of(stopped, OLGA) == RESUME


def test_running_execution_asks_no_user():
    assert asks(facts(report_states.APPROVED, decided=yes("bob"), execution=states.RUNNING)) == {"ada": OTHERS}


def test_a_blocked_report_asks_its_authors():
    assert asks(facts(report_states.BLOCKED)) == {"ada": REPAIR}


def test_rejected_report_asks_its_authors_for_a_new_one():
    assert asks(facts(report_states.REJECTED)) == {"ada": RENEW}


def test_outdated_report_asks_its_authors_for_a_new_one_and_no_user_to_approve():
    assert asks(facts(stale="REPORT_STALE")) == {"ada": RENEW}


def test_superseded_report_asks_its_creator_to_open_the_newer_one():
    superseded = facts(report_states.SUPERSEDED, authors=frozenset({"ada", "bob"}))
    assert asks(superseded) == {"ada": FOLLOW}


def test_report_without_changes_asks_no_user():
    assert asks(facts(report_states.NO_CHANGES)) == {}


def reports() -> Iterator[Facts]:
    """Yield reports in all states that affect the next action."""
    for status, need, decided, execution, stale, approver_may_execute, authors in product(
        sorted(report_states.REPORT_STEPS),
        range(3),
        [(), yes("bob"), yes("bob", "eve")],
        ["", *sorted(states.STEPS)],
        ["", "REPORT_STALE"],
        [False, True],
        [frozenset(), frozenset({"ada"}), frozenset({"ada", "bob"})],
    ):
        yield facts(
            status,
            need,
            decided=decided,
            execution=execution,
            stale=stale,
            approver_may_execute=approver_may_execute,
            authors=authors,
        )


def test_next_action_is_never_one_that_the_workflow_refuses():
    actions = set()
    for of, may_approve, may_execute in product(reports(), [False, True], [False, True]):
        ask = asked_of(of, replace(BOB, may_approve=may_approve, may_execute=may_execute))
        actions.add(ask)
        if ask == DECIDE:
            assert may_approve
            assert not of.stale
            decisions.refuse_decision(
                status=of.status,
                user=BOB.name,
                decision=decisions.YES,
                authors=of.authors,
                decided=of.decided,
                needed=of.need.count,
            )
        if ask in (EXECUTE, RESUME):
            assert may_execute
            decisions.refuse_execution(
                status=of.status,
                decisions=of.decided,
                fingerprint=of.fingerprint,
                need=of.need,
                authors=of.authors,
                user=BOB.name,
                approver_may_execute=of.approver_may_execute,
            )
    assert {DECIDE, EXECUTE, RESUME} <= actions <= {*ASKS, ""}
