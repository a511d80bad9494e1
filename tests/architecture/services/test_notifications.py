"""Notifications about reports, executions and drift."""

from dataclasses import asdict
from typing import Any

import pytest

from architecture.models import ChangeReport, Environment
from architecture.services.approvals import approve, reject
from architecture.services.drift import settle_if_in_sync
from architecture.services.executions import abandon_execution, claim_execution, end_attempt
from architecture.services.observations import store_and_report_drift
from architecture.services.outdated import check_reports
from architecture.services.reports import build_report
from elevata.accounts.models import RoleGrant
from elevata.accounts.roles import Role
from elevata.jobs.services import give_up
from elevata.notifications.models import Event, Notice
from tests.architecture.services.test_reports import rename
from tests.architecture.world import World, person, put_policy_in_force

pytestmark = pytest.mark.django_db


def notified(kind: str) -> list[str]:
    """Return the names of the users who were notified of this kind of event."""
    return sorted(Notice.objects.filter(event__kind=kind).values_list("user__username", flat=True))


def unread(kind: str) -> list[str]:
    notices = Notice.objects.filter(event__kind=kind, read_at__isnull=True)
    return sorted(notices.values_list("user__username", flat=True))


@pytest.fixture
def waiting(renamed: World) -> ChangeReport:
    """Return an open report by Ada that needs one approval, without earlier notifications."""
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 1}}})
    Event.objects.all().delete()
    return renamed.report()


def test_approvers_are_notified_of_a_report_that_needs_approval(waiting: ChangeReport):
    assert notified("report.waiting") == ["bob"]
    event = Event.objects.get()
    assert event.link == f"/reports/{waiting.report_id}/"
    assert event.facts["fingerprint"] == waiting.fingerprint


def test_author_with_the_approver_role_is_not_notified_of_the_report(renamed: World):
    person("ada", Role.EDITOR, Role.APPROVER)
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 1}}})
    renamed.report()
    assert notified("report.waiting") == ["bob"]


def test_approver_of_another_environment_is_not_notified(renamed: World):
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 1}}})
    for name, environment in (("here", renamed.environment.name), ("there", "elsewhere")):
        RoleGrant.objects.create(user=person(name), role="approver", environment=environment)
    renamed.report()
    assert notified("report.waiting") == ["bob", "here"]


def test_only_users_with_the_required_role_are_notified(renamed: World):
    person("root", Role.ADMIN)
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 1, "role": "operator"}}})
    person("oscar", Role.OPERATOR, Role.APPROVER)
    renamed.report()
    assert notified("report.waiting") == ["oscar", "root"]


def test_report_that_needs_no_approval_notifies_no_user(renamed: World):
    renamed.report()
    assert notified("report.waiting") == []


def test_unchanged_report_is_notified_once(waiting: ChangeReport):
    build_report(environment=waiting.environment)
    assert Event.objects.count() == 1


def test_authors_are_notified_of_an_approval(waiting: ChangeReport, renamed: World):
    approve(report=waiting, user=renamed.approver)
    assert notified("report.approved") == ["ada"]


def test_a_decision_settles_the_notices_that_asked_for_it(waiting: ChangeReport, renamed: World):
    approve(report=waiting, user=renamed.approver)
    assert not Notice.objects.filter(event__kind="report.waiting", read_at__isnull=True).exists()


def test_a_newer_report_settles_the_notices_of_the_one_that_it_replaces(waiting: ChangeReport, renamed: World):
    rename(renamed, "balance", "amount")
    renamed.report()
    notices = Notice.objects.filter(event__kind="report.waiting").order_by("pk")
    assert [notice.read_at is None for notice in notices] == [False, True]


def test_authors_and_approvers_are_notified_once_of_an_outdated_report(waiting: ChangeReport, renamed: World):
    assert check_reports() == 0
    rename(renamed, "balance", "amount")
    assert (check_reports(), check_reports()) == (1, 0)
    assert notified("report.outdated") == ["ada", "bob"]
    assert not Notice.objects.filter(event__kind="report.waiting", read_at__isnull=True).exists()


def test_first_of_two_approvals_notifies_no_user(renamed: World):
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 2}}})
    approve(report=renamed.report(), user=renamed.approver)
    assert notified("report.approved") == []


def test_authors_are_notified_of_a_rejection_with_its_reason(waiting: ChangeReport, renamed: World):
    reject(report=waiting, user=renamed.approver, note="not this name")
    assert notified("report.rejected") == ["ada"]
    assert "not this name" in Event.objects.get(kind="report.rejected").title


def test_requester_and_authors_are_notified_of_an_execution(built: World):
    assert notified("report.executed") == ["ada", "olga"]


def test_failed_execution_is_notified_with_its_error(renamed: World):
    attempt = claim_execution(execution_pk=renamed.queued().pk, worker="w1")
    end_attempt(attempt=attempt, wanted="failed", error={"code": "X", "message": "the disk is full"})
    assert notified("execution.failed") == ["ada", "olga"]
    assert "the disk is full" in Event.objects.get(kind="execution.failed").title


def test_notification_of_a_failed_step_omits_the_message_of_spark(renamed: World):
    attempt = claim_execution(execution_pk=renamed.queued().pk, worker="w1")
    end_attempt(attempt=attempt, wanted="failed", error={"code": "STEP_FAILED", "message": "cannot cast 'secret'"})
    title = Event.objects.get(kind="execution.failed").title
    assert title == "The execution of crm_customer in dev failed"


def test_a_failure_is_settled_once_the_execution_is_abandoned(renamed: World):
    execution = renamed.queued()
    attempt = claim_execution(execution_pk=execution.pk, worker="w1")
    end_attempt(attempt=attempt, wanted="failed", error={"code": "X", "message": "no"})
    assert unread("execution.failed") == ["ada", "olga"]
    abandon_execution(execution=execution, user=renamed.operator, reason="no longer wanted")
    assert unread("execution.failed") == []


def test_an_approval_is_settled_once_the_report_is_executed(waiting: ChangeReport, renamed: World):
    approve(report=waiting, user=renamed.approver)
    assert unread("report.approved") == ["ada"]
    renamed.executed()
    assert unread("report.approved") == []


def test_first_approver_has_no_unread_notice_while_another_approval_is_missing(renamed: World):
    put_policy_in_force(Environment.objects.get(), {"approvals": {"safe": {"count": 2}}})
    person("ben", "approver")
    report = renamed.report()
    approve(report=report, user=renamed.approver)
    assert unread("report.waiting") == ["ben"]


def test_lost_execution_is_notified_as_failed(renamed: World):
    execution = renamed.queued()
    claim_execution(execution_pk=execution.pk, worker="w1")
    execution.refresh_from_db()
    give_up(job=execution, error={"code": "WORKER_LOST", "message": "gone"})
    assert notified("execution.failed") == ["ada", "olga"]


# --- drift -------------------------------------------------------------------------------------


def refresh(world: World) -> tuple[Any, ...]:
    """Store an observation of every table."""
    tables = {key: asdict(world.warehouse.table(key)) for key in world.warehouse.shapes}
    return store_and_report_drift(environment=world.environment, keys=list(world.warehouse.shapes), tables=tables)


def rename_by_hand(world: World, old: str = "full_name", new: str = "whole_name") -> None:
    key = next(iter(world.warehouse.shapes))
    world.warehouse.rename_behind_your_back(key, old, new)


def test_operators_are_notified_of_new_drift(built: World):
    refresh(built)
    rename_by_hand(built)
    refresh(built)
    assert notified("drift.found") == ["olga"]
    assert Event.objects.get(kind="drift.found").facts["datasets"] == ["rawcore.rc_crm_customer"]


def test_known_drift_is_notified_once(built: World):
    rename_by_hand(built)
    refresh(built)
    refresh(built)
    assert Event.objects.filter(kind="drift.found").count() == 1


def test_additional_drift_is_notified(built: World):
    rename_by_hand(built)
    refresh(built)
    rename_by_hand(built, "balance", "saldo")
    refresh(built)
    assert Event.objects.filter(kind="drift.found").count() == 2


def test_notices_of_drift_are_settled_once_tables_are_in_sync(built: World):
    refresh(built)
    rename_by_hand(built)
    refresh(built)
    settle_if_in_sync(built.environment)
    assert unread("drift.found") == ["olga"]
    rename_by_hand(built, "whole_name", "full_name")
    refresh(built)
    settle_if_in_sync(built.environment)
    assert unread("drift.found") == []


def test_newer_table_version_is_no_drift(built: World):
    refresh(built)
    built.warehouse.versions = {key: version + 1 for key, version in built.warehouse.versions.items()}
    assert refresh(built) == ()
    assert notified("drift.found") == []


def test_missing_table_is_notified_as_drift(built: World):
    key = next(iter(built.warehouse.shapes))
    store_and_report_drift(environment=built.environment, keys=[key], tables={})
    assert notified("drift.found") == ["olga"]


def test_a_pending_change_is_no_drift(built: World):
    rename(built, "full_name", "display_name")
    refresh(built)
    assert notified("drift.found") == []
