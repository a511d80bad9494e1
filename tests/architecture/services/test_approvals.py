"""Decisions on a report: permitted users, and refusals with their codes."""

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser

from architecture.domain.refusals import Refused
from architecture.models import Approval, ChangeReport
from architecture.selectors.reports import reports_in_play
from architecture.services.approvals import approvals_missing, approve, reject, withdraw_report
from architecture.services.change_policy import update_policies
from architecture.services.reports import is_stale
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.audit.models import ChangeLogEntry
from metadata.models import TargetColumn, TargetDataset
from metadata.services.datasets.targets import update_target_column
from tests.architecture.services.test_reports import rename
from tests.architecture.world import person

pytestmark = pytest.mark.django_db


@pytest.fixture
def risky(built):
    """Return a report that needs one approval, because a column becomes not null."""
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    return built.report()


def refused_with(code: str, decide, **arguments: object) -> None:
    with pytest.raises(Refused) as refused:
        decide(**arguments)
    assert refused.value.code == code
    assert not Approval.objects.exists() or code == "ALREADY_DECIDED"


def test_report_with_a_not_null_column_needs_one_approval(risky):
    assert (risky.status, risky.risk, approvals_missing(risky)) == ("open", "review", 1)


def test_approval_by_another_user_approves_the_report(built, risky):
    approval = approve(report=risky, user=built.approver, note=" looks right ")
    assert (risky.status, approvals_missing(risky)) == ("approved", 0)
    assert (approval.person_name, approval.note, approval.fingerprint) == ("bob", "looks right", risky.fingerprint)
    assert approval.roles == ["approver"]


def test_rejection_by_one_approver_rejects_the_report(built, risky):
    reject(report=risky, user=built.approver, note="too early")
    assert risky.status == "rejected"


def test_author_with_the_approver_role_cannot_approve(built, risky):
    ada = person("ada", Role.EDITOR, Role.APPROVER)
    refused_with("OWN_CHANGE", approve, report=risky, user=ada)


def test_author_who_is_a_superuser_cannot_approve(built, risky):
    built.author.is_superuser = True
    built.author.save()
    refused_with("OWN_CHANGE", approve, report=risky, user=built.author)


def test_author_cannot_approve_by_a_token(built, risky):
    ada = person("ada", Role.EDITOR, Role.APPROVER)
    with acting_as(ada, by_token=True):
        refused_with("OWN_CHANGE", approve, report=risky, user=ada)


def test_user_of_a_token_is_the_author_of_its_changes(built):
    column = TargetColumn.objects.get(name="full_name")
    bob = person("bob", Role.EDITOR, Role.APPROVER)
    with acting_as(bob, by_token=True):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    refused_with("OWN_CHANGE", approve, report=built.report(), user=bob)


def test_approval_and_rejection_require_a_user(risky):
    refused_with("NO_PERSON", approve, report=risky, user=None)
    refused_with("NO_PERSON", reject, report=risky, user=AnonymousUser())


def test_user_without_the_approver_role_cannot_approve(built, risky):
    refused_with("NOT_PERMITTED", approve, report=risky, user=built.operator)


def test_a_blocked_report_is_not_approved(built):
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, type="string(10)")
    report = built.report()
    assert (report.status, report.destructive) == ("blocked", True)
    refused_with("REPORT_BLOCKED", approve, report=report, user=built.approver)


def test_an_empty_report_is_not_approved(built):
    refused_with("NO_CHANGES", approve, report=built.report(), user=built.approver)


def test_outdated_report_is_not_approved(built, risky):
    rename(built, "balance", "saldo")
    refused_with("REPORT_STALE", approve, report=risky, user=built.approver)


def test_a_superseded_report_is_not_approved(built, risky):
    rename(built, "balance", "saldo")
    built.report()
    refused_with("REPORT_SUPERSEDED", approve, report=risky, user=built.approver)


def test_a_report_is_not_approved_after_a_table_moved(built, risky):
    key = str(TargetDataset.objects.get(name="rc_crm_customer").key)
    built.warehouse.rename_behind_your_back(key, "balance", "other")
    built.warehouse.show()
    refused_with("TABLE_MOVED", approve, report=risky, user=built.approver)


def two_needed(world) -> ChangeReport:
    root = person("root", Role.ADMIN)
    policies = {"approvals": {"review": {"count": 2, "role": "approver"}}}
    update_policies(environment=world.environment, policies=policies, expected_version=1, user=root)
    return world.report()


def test_second_required_approval_must_come_from_another_user(built, risky):
    report = two_needed(built)
    approve(report=report, user=built.approver)
    assert (report.status, approvals_missing(report)) == ("open", 1)
    refused_with("ALREADY_DECIDED", approve, report=report, user=built.approver)
    approve(report=report, user=person("eve", Role.APPROVER))
    assert report.status == "approved"


def test_approval_of_a_user_who_becomes_an_author_later_is_ignored(built, risky):
    """Check that an approval of an author never counts, even if they became one after it."""
    report = two_needed(built)
    approve(report=report, user=built.approver)
    bob = person("bob", Role.APPROVER, Role.EDITOR)
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(bob):
        update_target_column(column=column, expected_version=column.version, description="what people call them")
    assert approvals_missing(ChangeReport.objects.get(pk=report.pk)) == 2


def test_an_approved_report_is_not_decided_on_again(built, risky):
    approve(report=risky, user=built.approver)
    refused_with("ALREADY_DECIDED", reject, report=risky, user=person("eve", Role.APPROVER))


def test_approval_of_a_deactivated_user_remains_valid(built, risky):
    approve(report=risky, user=built.approver)
    built.approver.is_active = False
    built.approver.save()
    assert approvals_missing(risky) == 0
    rename(built, "balance", "amount")
    assert is_stale(risky) == "REPORT_STALE"


# --- withdrawal --------------------------------------------------------------------------------


@pytest.fixture
def blocked(built):
    """Return a report that the policy blocks, because a column is retyped."""
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(built.author):
        update_target_column(column=column, expected_version=column.version, type="integer")
    return built.report(by=person("eve", Role.EDITOR))


@pytest.mark.parametrize("name", ["ada", "bob", "eve"], ids=["author", "approver", "creator"])
def test_author_approver_and_creator_withdraw_a_blocked_report(built, blocked, name):
    user = get_user_model().objects.get(username=name)
    withdraw_report(report=blocked, user=user, reason=" not needed ")
    assert blocked.status == "withdrawn"
    entry = ChangeLogEntry.objects.get(subject_kind="report", action="withdrawn")
    assert (entry.user, entry.subject_key) == (user, str(blocked.report_id))
    assert "not needed" in entry.changes
    assert not reports_in_play(built.author.pk).exists()


def test_withdrawal_by_another_user_is_refused(built, blocked):
    refused_with("NOT_PERMITTED", withdraw_report, report=blocked, user=built.operator, reason="not needed")


def test_withdrawal_needs_a_reason(built, blocked):
    refused_with("NO_REASON", withdraw_report, report=blocked, user=built.author, reason=" ")


def test_open_report_is_not_withdrawn(built, risky):
    refused_with("NOT_WITHDRAWABLE", withdraw_report, report=risky, user=built.author, reason="not needed")


def test_withdrawn_report_is_closed_and_created_anew(built, blocked):
    withdraw_report(report=blocked, user=built.author, reason="not needed")
    refused_with("REPORT_WITHDRAWN", withdraw_report, report=blocked, user=built.author, reason="again")
    refused_with("REPORT_WITHDRAWN", reject, report=blocked, user=built.approver)
    assert built.report().pk != blocked.pk
