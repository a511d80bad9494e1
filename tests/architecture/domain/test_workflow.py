"""The states of reports and executions as tables, and who may decide and execute."""

import pytest

from architecture.domain import workflow
from architecture.domain.workflow import Decided, Need, Refused
from architecture.models import ChangeReport
from elevata.accounts.roles import Role

PRINT = "a" * 64
OTHER = "b" * 64


def yes(person: str, *roles: str, fingerprint: str = PRINT) -> Decided:
    return Decided(person, workflow.YES, fingerprint, roles)


def code_of(refused: Refused) -> str:
    assert refused.message
    assert refused.hint
    return refused.code


def test_a_report_goes_along_these_steps_and_no_others():
    assert {state: set(following) for state, following in workflow.REPORT_STEPS.items()} == {
        "open": {"approved", "rejected", "superseded"},
        "blocked": set(),
        "no_changes": set(),
        "approved": set(),
        "rejected": set(),
        "superseded": set(),
    }


def test_the_table_and_the_model_know_the_same_states():
    steps = workflow.REPORT_STEPS
    assert set(steps) == set(ChangeReport.Status.values)
    assert {target for following in steps.values() for target in following} <= set(steps)


def test_every_code_says_what_and_what_to_do():
    for code, (text, hint) in workflow.CODES.items():
        refused = Refused(code)
        assert (refused.message, refused.hint) == (text, hint)
        assert refused.as_json() == {"code": code, "message": text, "hint": hint}
        assert text in refused.one_line()
        assert hint in refused.one_line()


# --- approvals -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decisions", "counted"),
    [
        ([yes("bob")], ("bob",)),
        ([yes("bob"), yes("bob")], ("bob",)),
        ([yes("ada")], ()),
        ([yes("bob", fingerprint=OTHER)], ()),
        ([Decided("bob", workflow.NO, PRINT)], ()),
        ([yes("eve"), yes("bob")], ("bob", "eve")),
    ],
    ids=["one", "nobody twice", "no author", "another fingerprint", "a no", "sorted"],
)
def test_whose_approvals_count(decisions, counted):
    found = workflow.approvers(decisions, fingerprint=PRINT, need=Need(1), authors={"ada"})
    assert found == counted


def test_a_role_that_is_asked_for_is_counted_for():
    decisions = [yes("bob", Role.APPROVER), yes("eve", Role.OPERATOR), yes("root", Role.ADMIN)]
    found = workflow.approvers(decisions, fingerprint=PRINT, need=Need(2, "approver"), authors=())
    assert found == ("bob", "root")


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
def test_what_is_not_open_is_not_decided_on(status, code):
    with pytest.raises(Refused) as refused:
        workflow.refuse_decision(status=status, user="bob", decision="approve", authors=(), decided=(), needed=1)
    assert code_of(refused.value) == code


def test_nobody_approves_what_they_changed():
    with pytest.raises(Refused) as refused:
        workflow.refuse_decision(status="open", user="ada", decision="approve", authors={"ada"}, decided=(), needed=1)
    assert code_of(refused.value) == "OWN_CHANGE"


def test_an_author_may_say_no():
    workflow.refuse_decision(status="open", user="ada", decision="reject", authors={"ada"}, decided=(), needed=1)


def test_nobody_decides_twice():
    with pytest.raises(Refused) as refused:
        workflow.refuse_decision(
            status="open", user="bob", decision="approve", authors=(), decided=[yes("bob")], needed=2
        )
    assert code_of(refused.value) == "ALREADY_DECIDED"


def test_what_needs_no_approval_is_not_approved():
    with pytest.raises(Refused) as refused:
        workflow.refuse_decision(status="open", user="bob", decision="approve", authors=(), decided=(), needed=0)
    assert code_of(refused.value) == "NO_APPROVAL_NEEDED"


# --- executing -------------------------------------------------------------------------------


def refuse(**changes: object) -> str:
    """The code of the refusal, empty if there is none."""
    asked = {
        "status": "approved",
        "decisions": [yes("bob")],
        "fingerprint": PRINT,
        "need": Need(1),
        "authors": {"ada"},
        "user": "olga",
        "approver_may_execute": True,
    }
    try:
        workflow.refuse_execution(**asked | changes)
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
def test_what_may_be_executed(changes, code):
    assert refuse(**changes) == code
