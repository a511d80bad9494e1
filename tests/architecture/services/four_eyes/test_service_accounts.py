"""Four eyes with service accounts, which count as their owner, and with roles for one environment."""

import pytest
from django.contrib.auth.models import Group

from architecture.domain.refusals import Refused
from architecture.models import Approval, ChangeReport
from architecture.permissions import role_names
from architecture.selectors.inbox import sections, waiting_for
from architecture.selectors.review_status import review_status
from architecture.services.approvals import approvals_missing, approve, reject
from architecture.services.change_policy import update_policies
from architecture.services.reports import authors_of_report
from elevata.accounts.actors import acting_as
from elevata.accounts.roles import Role
from elevata.accounts.services.users import create_service_account, grant_role
from elevata.audit.services import chain
from elevata.notifications.models import Notice
from metadata.models import TargetColumn
from metadata.services.datasets.targets import update_target_column
from tests.architecture.world import person

pytestmark = pytest.mark.django_db


def not_null(world, user) -> ChangeReport:
    column = TargetColumn.objects.get(name="full_name")
    with acting_as(user, by_token=True):
        update_target_column(column=column, expected_version=column.version, nullable=False)
    return world.report()


def refused_with(code: str, call, **arguments: object) -> None:
    with pytest.raises(Refused) as refused:
        call(**arguments)
    assert refused.value.code == code


def robot(owner, *roles: Role, name: str = "robot"):
    return create_service_account(name=name, owner=owner, roles=roles)


def test_owner_cannot_approve_a_change_of_their_service_account(built):
    report = not_null(built, robot(built.approver, Role.EDITOR))
    refused_with("OWN_CHANGE", approve, report=report, user=built.approver)
    assert review_status(report, built.approver, authors_of_report(report)).cannot_approve.code == "OWN_CHANGE"


def test_service_account_with_every_permission_cannot_approve_reject_or_change_policies(built):
    """Check the refusals for a group that services refuse and for a superuser, also without changes of the owner."""
    account = robot(person("dave", Role.VIEWER))
    account.groups.add(Group.objects.get(name=Role.ADMIN.value))
    account.is_superuser = True
    account.save()
    report = not_null(built, built.author)
    refused_with("SERVICE_ACCOUNT", approve, report=report, user=account)
    refused_with("SERVICE_ACCOUNT", reject, report=report, user=account)
    policies = {"severities": {"ADD_COLUMN": "block"}}
    change = {"environment": built.environment, "policies": policies, "expected_version": 1}
    refused_with("SERVICE_ACCOUNT", update_policies, user=account, **change)


def test_stored_approval_of_a_service_account_is_ignored(built):
    report = not_null(built, built.author)
    account = robot(person("dave", Role.VIEWER))
    approval = Approval.objects.create(
        report=report,
        fingerprint=report.fingerprint,
        person=account,
        person_name="robot",
        roles=["approver"],
        decision="approve",
        at=report.created_at,
    )
    chain.append(approval)
    assert approvals_missing(report) == 1
    tasks = [task for task in waiting_for(built.approver) if task.pk == report.pk]
    assert (tasks[0].ask, tasks[0].facts.missing) == ("decide", 1)


def test_service_account_is_not_asked_to_approve(built):
    account = robot(built.author)
    account.groups.add(Group.objects.get(name=Role.APPROVER.value))
    report = not_null(built, built.author)
    (section,) = sections(waiting_for(built.approver))
    assert section.rows[0].whom == ("bob",)
    notices = Notice.objects.filter(event__subject_key=str(report.report_id))
    assert {notice.user.username for notice in notices} == {"bob"}


# --- roles for one environment or schema -----------------------------------------------------------


def test_approver_role_for_this_environment_permits_approval(built):
    report = not_null(built, built.author)
    dora = person("dora")
    refused_with("NOT_PERMITTED", approve, report=report, user=dora)
    grant_role(user=dora, role="approver", environment=built.environment.name)
    dora = type(dora).objects.get(pk=dora.pk)
    assert approve(report=report, user=dora).roles == ["approver"]
    assert report.status == "approved"


def test_approver_role_for_another_environment_permits_no_approval(built):
    dora = person("dora")
    grant_role(user=dora, role="approver", environment="prod")
    refused_with("NOT_PERMITTED", approve, report=not_null(built, built.author), user=dora)


def test_approver_role_for_a_schema_permits_approval_of_changes_in_it(built):
    report = not_null(built, built.author)
    dora = person("dora")
    schema = TargetColumn.objects.get(name="full_name").dataset.schema
    grant_role(user=dora, role="approver", schema=schema.name)
    approve(report=report, user=type(dora).objects.get(pk=dora.pk))
    assert report.status == "approved"


def test_author_with_a_granted_approver_role_cannot_approve(built):
    grant_role(user=built.author, role="approver", environment=built.environment.name)
    author = type(built.author).objects.get(pk=built.author.pk)
    refused_with("OWN_CHANGE", approve, report=not_null(built, author), user=author)


def test_role_names_of_a_viewer_are_viewer(built):
    dora = person("dora", Role.VIEWER)
    assert role_names(dora) == ["viewer"]
