"""States of reports, and checks before a decision and an execution."""

import pytest

from architecture.domain import decisions, refusals, report_states
from architecture.domain.decisions import Decided, Need
from architecture.domain.refusals import Refused
from architecture.models import ChangeReport
from elevata.accounts.roles import Role

PRINT = "a" * 64
OTHER = "b" * 64


def yes(person: str, *roles: str, fingerprint: str = PRINT) -> Decided:
    return Decided(person, decisions.YES, fingerprint, roles)


def code_of(refused: Refused) -> str:
    assert refused.message
    assert refused.hint
    return refused.code


def test_report_steps_permit_exactly_these_transitions():
    assert {state: set(following) for state, following in report_states.REPORT_STEPS.items()} == {
        "open": {"approved", "rejected", "superseded"},
        "blocked": {"withdrawn"},
        "no_changes": set(),
        "approved": set(),
        "rejected": set(),
        "superseded": set(),
        "withdrawn": set(),
    }


def test_report_steps_and_model_have_the_same_states():
    steps = report_states.REPORT_STEPS
    assert set(steps) == set(ChangeReport.Status.values)
    assert {target for following in steps.values() for target in following} <= set(steps)


def test_every_code_has_a_message_and_a_hint():
    for code, (text, hint) in refusals.CODES.items():
        refused = Refused(code)
        assert (refused.message, refused.hint) == (text, hint)
        assert refused.as_json() == {"code": code, "message": text, "hint": hint}
        assert text in refused.one_line()
        assert hint in refused.one_line()


# --- approvals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decided", "counted"),
    [
        ([yes("bob")], ("bob",)),
        ([yes("bob"), yes("bob")], ("bob",)),
        ([yes("ada")], ()),
        ([yes("bob", fingerprint=OTHER)], ()),
        ([Decided("bob", decisions.NO, PRINT)], ()),
        ([yes("eve"), yes("bob")], ("bob", "eve")),
    ],
    ids=["one", "nobody twice", "no author", "another fingerprint", "a no", "sorted"],
)
def test_approvers_are_distinct_users_who_approved_this_fingerprint_and_are_no_authors(decided, counted):
    approvers = decisions.approvers(decided, fingerprint=PRINT, need=Need(1), authors={"ada"})
    assert approvers == counted


def test_approvers_have_the_required_role_or_a_higher_one():
    decided = [yes("bob", Role.APPROVER), yes("eve", Role.OPERATOR), yes("root", Role.ADMIN)]
    approvers = decisions.approvers(decided, fingerprint=PRINT, need=Need(2, "approver"), authors=())
    assert approvers == ("bob", "root")


@pytest.mark.parametrize(
    ("status", "code"),
    [
        ("blocked", "REPORT_BLOCKED"),
        ("no_changes", "NO_CHANGES"),
        ("rejected", "REPORT_REJECTED"),
        ("superseded", "REPORT_SUPERSEDED"),
        ("approved", "ALREADY_DECIDED"),
    ],
)
def test_decision_on_a_report_that_is_not_open_is_refused(status, code):
    with pytest.raises(Refused) as refused:
        decisions.refuse_decision(status=status, user="bob", decision="approve", authors=(), decided=(), needed=1)
    assert code_of(refused.value) == code


def test_author_cannot_approve_the_report():
    with pytest.raises(Refused) as refused:
        decisions.refuse_decision(status="open", user="ada", decision="approve", authors={"ada"}, decided=(), needed=1)
    assert code_of(refused.value) == "OWN_CHANGE"


def test_author_can_reject_the_report():
    decisions.refuse_decision(status="open", user="ada", decision="reject", authors={"ada"}, decided=(), needed=1)


def test_second_decision_of_a_user_is_refused():
    with pytest.raises(Refused) as refused:
        decisions.refuse_decision(
            status="open", user="bob", decision="approve", authors=(), decided=[yes("bob")], needed=2
        )
    assert code_of(refused.value) == "ALREADY_DECIDED"


def test_approval_of_a_report_that_needs_none_is_refused():
    with pytest.raises(Refused) as refused:
        decisions.refuse_decision(status="open", user="bob", decision="approve", authors=(), decided=(), needed=0)
    assert code_of(refused.value) == "NO_APPROVAL_NEEDED"


# --- executing -------------------------------------------------------------------------------


def refuse(**changes: object) -> str:
    """Return the code of the refusal, empty if there is none."""
    arguments = {
        "status": "approved",
        "decisions": [yes("bob")],
        "fingerprint": PRINT,
        "need": Need(1),
        "authors": {"ada"},
        "user": "olga",
        "approver_may_execute": True,
    }
    try:
        decisions.refuse_execution(**arguments | changes)
    except Refused as refused:
        return code_of(refused)
    return ""


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, ""),
        ({"status": "open", "decisions": (), "need": Need()}, ""),
        ({"decisions": ()}, "NOT_APPROVED"),
        ({"need": Need(2)}, "NOT_APPROVED"),
        ({"need": Need(1, "approver")}, "NOT_APPROVED"),
        ({"decisions": [yes("bob", fingerprint=OTHER)]}, "NOT_APPROVED"),
        ({"decisions": [yes("ada")]}, "NOT_APPROVED"),
        ({"status": "blocked"}, "REPORT_BLOCKED"),
        ({"status": "superseded"}, "REPORT_SUPERSEDED"),
        ({"user": "bob"}, ""),
        ({"user": "bob", "approver_may_execute": False}, "NOT_PERMITTED"),
    ],
)
def test_execution_requires_an_approved_report_and_a_permitted_user(changes, code):
    assert refuse(**changes) == code
